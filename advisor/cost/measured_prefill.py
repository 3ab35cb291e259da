"""What prompts cost in a trial: one line of time against tokens for the target, and what each drafter adds to it.

A trial times few steps that carry nothing but prompts, some of them beside a neighbour's work. Every arm's such step
holds the target's pass over the prompt, so all arms are fitted together: the target's line is shared, and a drafter's
own part stands beside what the facts expect of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.cost.fit import Expected, proportional_fit

_EXPECTED_SD = 0.5
"""How far a measured part may well be from what is expected of it, as a share of that."""
_LEAST_NOISE = 0.02


@dataclass(frozen=True)
class Line:
    """Milliseconds: of any step that carries prompt tokens, and of each of them."""

    fixed: float
    per_token: float

    def at(self, tokens: float) -> float:
        return self.fixed + self.per_token * tokens


@dataclass(frozen=True)
class PromptStep:
    """One step that carried prompt tokens and nothing else."""

    arm: str
    tokens: float
    ms: float


def prefill_lines(
    steps: Sequence[PromptStep], step_ms: float, drafters: Mapping[str, Line]
) -> tuple[Line, dict[str, Line]] | None:
    """The target's line, and what each of `drafters` adds to it; None without a single step.

    step_ms: a step of one request, about what the fixed part of the target's line is. drafters: arms whose drafter
    reads the prompt too, with the extra line expected of it: `per_token` as a share of the target's own, `fixed` in
    milliseconds. Steps of every other arm are the target's alone.
    """
    if not steps:
        return None
    names = list(drafters)
    rows = []
    for step in steps:
        row = [1.0, step.tokens] + [0.0] * (2 * len(names))
        if step.arm in drafters:
            at = 2 + 2 * names.index(step.arm)
            row[at: at + 2] = 1.0, step.tokens
        rows.append(row)
    per_token = statistics.median(max(0.0, step.ms - step_ms) / step.tokens for step in steps)
    expected = [(0, step_ms)]
    for i, line in enumerate(drafters.values()):
        expected += [(2 + 2 * i, line.fixed), (3 + 2 * i, line.per_token * per_token)]
    pulls = [Expected(column, value, _EXPECTED_SD * value) for column, value in expected if value > 0.0]
    took = [step.ms for step in steps]
    parts = [float(v) for v in proportional_fit(rows, took, [1.0] * len(took), pulls, _LEAST_NOISE).parts]
    return Line(*parts[:2]), {name: Line(*parts[2 + 2 * i: 4 + 2 * i]) for i, name in enumerate(names)}
