"""A sample of recorded prompts for a trial, stratified by task and length. The only place where text leaves a log, and
only when asked."""

from __future__ import annotations

import heapq
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.requests.recognise import head
from probes.requests.records import records_of
from probes.requests.shapes import encodable
from probes.requests.sources import expand
from probes.requests.text_sample import drawn_records
from probes.requests.texts import View, task_of, view_of
from profiles.errors import InputError
from profiles.workload import Task

_Z80 = 1.2816
_LOOKED_THROUGH = 32 << 20
"""Bytes of a log from which prompts are drawn."""
Stratum = tuple[Task, int]
"""A task, and the power of four that the prompt's characters are below."""


@dataclass(frozen=True)
class PromptSample:
    """Lines for `trial --prompts`, and how they stand for the log."""

    lines: tuple[Mapping[str, Any], ...]
    """{"messages": [...], "task"} or {"prompt": ..., "task"}."""
    offered: int
    """Prompts in the log (or in the part of it that was looked at)."""
    by_task: Mapping[Task, int]
    strata: int


def requests_needed(half_width: float) -> int:
    """Requests for an 80 % interval of +- half_width on an acceptance rate, however it varies between requests: each
    is taken as one observation of a share at its most uncertain."""
    if not 0 < half_width < 1:
        raise InputError(f"--interval {half_width:g}: expected a half-width between 0 and 1, such as 0.05")
    return math.ceil((_Z80 * 0.5 / half_width) ** 2)


def half_width(requests: int) -> float:
    """The interval that so many requests give: the inverse of `requests_needed`."""
    return _Z80 * 0.5 / math.sqrt(max(1, requests))


def sample_prompts(names: Sequence[str], count: int, seed: int = 0) -> PromptSample:
    """Draw `count` prompts of the logs, each stratum in proportion and each at least once where there is room.

    InputError where the logs hold no text, or count is below 1.
    """
    if count < 1:
        raise InputError(f"--sample-prompts {count}: expected 1 or more")
    draw, kept = random.Random(seed), dict[Stratum, list[tuple[float, int, View]]]()
    seen = Counter[Stratum]()
    with tempfile.TemporaryDirectory(prefix="specadvise-") as folder:
        for i, view in enumerate(_views(names, Path(folder))):
            stratum = (task_of(view), math.ceil(math.log(len(view.prompt) + 1, 4)))
            seen[stratum] += 1
            heap = kept.setdefault(stratum, [])
            # The smallest random keys stay: a uniform draw of a stratum whose size is not known yet.
            key = -draw.random()
            if len(heap) < count:
                heapq.heappush(heap, (key, i, view))
            elif key > heap[0][0]:
                heapq.heapreplace(heap, (key, i, view))
    if not seen:
        raise InputError("there is no text in these logs to draw prompts from: traces of lengths have none; give logs "
                         "with messages or prompts")
    parts = _parts(seen, count)
    chosen = [one for stratum, n in parts.items() for one in heapq.nlargest(n, kept[stratum])]
    chosen.sort(key=lambda one: one[1])
    lines = tuple(_line(view) for _, _, view in chosen)
    return PromptSample(lines, sum(seen.values()), Counter(task_of(view) for _, _, view in chosen), len(seen))


def _views(names: Sequence[str], folder: Path) -> Iterator[View]:
    for source in expand(names, folder):
        found = head(source)
        records: Iterator[Any]
        if found.container == "jsonl":
            records = drawn_records(source, _LOOKED_THROUGH)[0]
        elif found.container in ("json", "csv"):
            records = (record for _, record in records_of(found, source, lambda _: None))
        else:
            continue
        for record in records:
            for one in record if isinstance(record, list) else [record]:
                view = view_of(one)
                if view is not None and view.prompt.strip():
                    yield view


def _parts(seen: Mapping[Stratum, int], count: int) -> dict[Stratum, int]:
    """In proportion, one each at least where there is room, the rest by the largest remainders."""
    total = sum(seen.values())
    count = min(count, total)
    order = sorted(seen, key=lambda one: (-seen[one], one[0].value, one[1]))
    quota = {one: count * seen[one] / total for one in order}
    parts = {one: max(int(quota[one]), 1 if i < count else 0) for i, one in enumerate(order)}
    while sum(parts.values()) > count:
        parts[max(order, key=lambda one: (parts[one], parts[one] - quota[one]))] -= 1
    left = count - sum(parts.values())
    for one in sorted(order, key=lambda one: parts[one] - quota[one])[:left]:
        parts[one] += 1
    return {one: n for one, n in parts.items() if n}


def _line(view: View) -> Mapping[str, Any]:
    task = task_of(view).value
    plain = all(one["content"].strip() for one in view.messages or ()) and not view.tool_turns
    if view.messages and plain:
        # The answer is what the trial generates: a conversation ends with what the user said last.
        messages = [{name: encodable(said) for name, said in one.items()} for one in view.messages]
        return {"messages": messages, "task": task}
    return {"prompt": encodable(view.prompt), "task": task}
