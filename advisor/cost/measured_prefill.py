"""What prompts cost in a trial: one line of time against tokens for the target, and what each drafter adds to it.

A trial times few steps that carry nothing but prompts, some of them beside a neighbour's work. Every arm's such step
holds the target's pass over the prompt, so all arms are fitted together: the target's line is shared, and a drafter's
own part stands beside what the facts expect of it. Errors are taken in proportion, and a step that stands out counts
less (Huber, Annals of Mathematical Statistics 35, 1964): a disturbance lengthens a step by a multiple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.cost.fit import nonnegative_least_squares

_EXPECTED_LOG_SD = 0.5
"""How far a drafter's measured part may well be from what the facts expect of it."""
_LEAST_SPREAD = 0.02
_HUBER = 1.345
"""Of the spread: 95 % as efficient as least squares where nothing stands out."""
_ROUNDS = 20


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

    step_ms: a step of one request, what the fixed part of the target's line is expected to be about. drafters: arms
    whose drafter reads the prompt too, with the extra line expected of it: `per_token` as a share of the target's own,
    `fixed` in milliseconds. Steps of every other arm are the target's alone.
    """
    import numpy as np

    if not steps:
        return None
    names = list(drafters)
    ms = np.array([step.ms for step in steps])
    data = np.zeros((len(steps), 2 + 2 * len(names)))
    for row, step in zip(data, steps, strict=True):
        row[:2] = 1.0, step.tokens
        if step.arm in drafters:
            at = 2 + 2 * names.index(step.arm)
            row[at: at + 2] = 1.0, step.tokens
    data /= ms[:, None]
    spread, weight = 0.15, np.ones(len(steps))
    per_token = float(np.median([step.ms / step.tokens for step in steps]))
    solved = np.zeros(data.shape[1])
    for _ in range(_ROUNDS):
        expected = _expectations(drafters, step_ms, per_token, data.shape[1])
        rows = np.vstack([data * (weight / spread)[:, None], expected])
        wanted = np.concatenate([weight / spread, np.full(len(expected), 1.0 / _EXPECTED_LOG_SD)])
        solved = nonnegative_least_squares(rows, wanted)
        off = np.abs(data @ solved - 1.0)
        spread = max(_LEAST_SPREAD, 1.4826 * float(np.median(off)))
        weight = np.sqrt(np.minimum(1.0, _HUBER * spread / np.maximum(off, 1e-9)))
        per_token = float(solved[1]) or per_token
    lines = {name: Line(float(solved[2 + 2 * i]), float(solved[3 + 2 * i])) for i, name in enumerate(names)}
    return Line(float(solved[0]), float(solved[1])), lines


def _expectations(drafters: Mapping[str, Line], step_ms: float, per_token: float, columns: int) -> list[list[float]]:
    """Rows that pull a part towards what is expected of it: part / expected should be 1."""
    expected = [(0, step_ms)]
    for i, line in enumerate(drafters.values()):
        expected += [(2 + 2 * i, line.fixed), (3 + 2 * i, line.per_token * per_token)]
    rows = []
    for column, value in expected:
        if value > 0.0:
            row = [0.0] * columns
            row[column] = 1.0 / (value * _EXPECTED_LOG_SD)
            rows.append(row)
    return rows
