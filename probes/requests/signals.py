"""What the texts say of the traffic: task mix, sampling, structured output, copying. Counts only."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from probes.requests.texts import View, copied_share, task_of
from profiles.schema import MAX_TEMPERATURE, Quantity, Source
from profiles.traffic import SamplingSeen, TextSignals
from profiles.workload import Task

LOOKED_AT = 2000
"""Requests whose text is looked at, drawn evenly from the file: shares are then known to about 1.5 %."""
LOOKED_AT_BYTES = 4 << 20
"""Bytes of a file from which they are drawn: what they say does not get surer with more, and looking is dear."""
_Z80 = 1.2816
_LARGEST = 1e9
"""Of a sampling parameter: what is larger is no parameter but a slip."""


@dataclass
class Signals:
    """Sums over the requests looked at."""

    n: int = 0
    tasks: Counter[Task] = field(default_factory=Counter)
    structured: int = 0
    tools: int = 0
    copies: list[float] = field(default_factory=list)
    sampling: dict[str, Counter[float]] = field(default_factory=dict)
    stated: int = 0
    share: float = 1.0
    """Of the records that are offered, how many are looked at."""
    _draw: random.Random = field(default_factory=lambda: random.Random(0))

    def offer(self, view: View) -> None:
        """Look at one request, or pass it over where only some are looked at."""
        if not view.prompt or (self.share < 1 and self._draw.random() >= self.share):
            return
        self.n += 1
        self.tasks[task_of(view)] += 1
        self.stated += view.stated_task is not None
        self.structured += view.structured or view.tools
        self.tools += view.tools
        copied = copied_share(view)
        if copied is not None:
            self.copies.append(copied)
        for name, value in view.sampling.items():
            least, most = (0, MAX_TEMPERATURE) if name == "temperature" else (-_LARGEST, _LARGEST)
            if least <= value <= most:
                self.sampling.setdefault(name, Counter())[value] += 1

    def evidence(self) -> TextSignals | None:
        """None where no text was seen."""
        if not self.n:
            return None
        note = "share of requests looked at"
        return TextSignals(
            requests=self.n,
            tasks={task: count / self.n for task, count in self.tasks.most_common()},
            tasks_from="stated in the log" if self.stated == self.n else "signals in the text",
            structured_output=_share(self.structured, self.n, note),
            tool_calls=_share(self.tools, self.n, note),
            output_copies_prompt=_mean(self.copies),
            sampling={name: _sampling(counts, self.n) for name, counts in sorted(self.sampling.items())},
        )


def _share(count: int, n: int, note: str) -> Quantity:
    """With Wilson's 80 % interval."""
    share, z2 = count / n, _Z80**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z80 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Quantity(value=share, low=max(0.0, min(share, middle - half)), high=min(1.0, max(share, middle + half)), n=n,
                    source=Source.RECORDED, note=note)


def _mean(values: Iterable[float]) -> Quantity | None:
    found = list(values)
    if not found:
        return None
    mean = sum(found) / len(found)
    half = _Z80 * math.sqrt(sum((v - mean) ** 2 for v in found) / max(1, len(found) - 1) / len(found))
    return Quantity(value=mean, low=max(0.0, mean - half), high=min(1.0, mean + half), n=len(found),
                    source=Source.RECORDED, note="share of the output's 4-word runs that stand in the prompt")


def _sampling(counts: Mapping[float, int], n: int) -> SamplingSeen:
    total = sum(counts.values())
    usual = max(counts, key=lambda value: counts[value])
    return SamplingSeen(requests=total, stated_share=total / n, usual=usual, usual_share=counts[usual] / total,
                        mean=sum(value * count for value, count in counts.items()) / total,
                        low=min(counts), high=max(counts))
