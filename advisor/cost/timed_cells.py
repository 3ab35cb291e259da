"""The shapes of step that a trial timed: one mean each, with how well it is known."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from profiles.evidence import StepSample, TrialEvidence

FLOOR_LOG_SD = 0.015
"""Two runs of one cell differ by about this much even when each is long: machines drift."""
_PACE_LOG_SD = 0.05
"""How well the machine's pace is known from the plain steps around a block: starts of the exhaustive sweep on a shared
host differ by so much from what all of them tell (median; docs/regret.md)."""
_TOGETHER = 4.0
"""Steps that a disturbance lengthens at once: neighbours in time do not err on their own."""

_ENOUGH = 5
"""Steps whose spread says something by itself."""
_BORROWED = 3.0
"""Steps that the spread of the whole trial counts for in a cell's own."""


@dataclass(frozen=True)
class Cell:
    """One timed shape of step: mean milliseconds, drafter's share where timed."""

    arm: str
    k: int
    running: float
    tokens: float
    context_tokens: float
    ms: float
    draft_ms: float | None
    log_sd: float
    n: int


def steady_mean(values: Sequence[float]) -> float:
    """Mean with hiccups clipped at three medians: lookups need the mean (their steps are of two kinds), and one
    pause of the machine must not decide."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    clipped = [min(v, 3.0 * middle) for v in ordered]
    return sum(clipped) / len(clipped)


def middle_mean(values: Sequence[float]) -> float:
    """Mean of the middle half: where all steps carry the same, the slow ones tell of the machine and not of the step
    (half of a short block may be beside a neighbour's work)."""
    ordered = sorted(values)
    quarter = min(-(-len(ordered) // 4), (len(ordered) - 1) // 2)
    middle = ordered[quarter: len(ordered) - quarter]
    return sum(middle) / len(middle)


def usual_plain_ms(trial: TrialEvidence) -> float | None:
    """The middle of what plain steps took on the engine that stayed resident; None where none did."""
    seen = [s.plain_ms for arm in trial.arms for s in arm.steps if s.plain_ms]
    return statistics.median(seen) if seen else None


def pace_of(plain_ms: float | None, usual_ms: float | None) -> float:
    """How slow the machine was: what ran then would have taken this much less at its usual pace."""
    return plain_ms / usual_ms if plain_ms and usual_ms else 1.0


def _spread_of(values: Sequence[float], mean: float) -> float:
    """Standard deviation of single steps, as a share of their mean, hiccups clipped."""
    return math.sqrt(sum((min(v, 3 * mean) - mean) ** 2 for v in values) / max(1, len(values) - 1)) / mean


def _cell(label: str, sample: StepSample, usual_ms: float | None, usual_spread: float) -> Cell | None:
    if not sample.step_ms or sample.running < 1:
        return None
    told = sample.plain_ms is not None
    pace = pace_of(sample.plain_ms, usual_ms)
    # With a model as drafter every request drafts k tokens in every step; lookups find some now and none then.
    alike = abs(sample.tokens_per_step - sample.running * (sample.k + 1)) < 0.01
    mean_of = middle_mean if alike else steady_mean
    mean = mean_of(sample.step_ms) / pace
    if mean <= 0:
        return None
    n = len(sample.step_ms)
    # Of two steps that happen to agree nothing is known of how steps spread: as much as elsewhere in this trial.
    own = _spread_of([v / pace for v in sample.step_ms], mean)
    spread = math.sqrt(((n - 1) * own**2 + _BORROWED * usual_spread**2) / (n - 1 + _BORROWED))
    drafted = mean_of(sample.draft_ms) / pace if sample.draft_ms else None
    return Cell(
        label,
        sample.k,
        float(sample.running),
        max(sample.tokens_per_step, float(sample.running)),
        sample.context_tokens,
        mean,
        drafted,
        math.hypot(spread / math.sqrt(max(1.0, n / _TOGETHER)), _PACE_LOG_SD if told else FLOOR_LOG_SD),
        n,
    )


def cells_of(trial: TrialEvidence) -> tuple[Cell, ...]:
    """Every timed shape of every arm that was timed at all, baseline included (arm label `none`), at the machine's
    usual pace where a resident plain engine told how slow it was in between."""
    usual_ms = usual_plain_ms(trial)
    timed = [s.step_ms for arm in trial.arms for s in arm.steps if len(s.step_ms) >= _ENOUGH and s.running]
    usual_spread = statistics.median([_spread_of(v, middle_mean(v)) for v in timed]) if timed else 0.0
    found: list[Cell] = []
    for arm in trial.arms:
        for sample in arm.steps:
            cell = _cell(arm.candidate.label, sample, usual_ms, usual_spread)
            if cell is not None:
                found.append(cell)
    return tuple(found)
