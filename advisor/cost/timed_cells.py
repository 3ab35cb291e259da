"""The shapes of step that a trial timed: one mean each, with how well it is known."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiles.deployment import NO_SPECULATION
from profiles.evidence import PrefillSample, StepSample, TrialEvidence

FLOOR_LOG_SD = 0.015
"""Two runs of one cell differ by about this much even when each is long: machines drift."""
_TOGETHER = 4.0
"""Steps that a disturbance lengthens at once: neighbours in time do not err on their own."""
_TOGETHER_BESIDE = 2.0
"""The same of what is left of it in units of plain steps made in between."""
BASELINE = NO_SPECULATION.label
"""Label of the arm without speculation."""
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


@dataclass(frozen=True)
class Pace:
    """What plain steps took on the engine that stayed resident, over the whole trial: `usual_ms` by running requests.

    Steps are read in units of the plain ones made between them, times the usual: a ratio of what two engines took in
    the same moments. The baseline's own steps were made before all others: `at_first` is how slow the machine was then,
    by running requests.
    """

    usual_ms: Mapping[int, float]
    at_first: Mapping[int, float]

    @classmethod
    def of(cls, trial: TrialEvidence) -> Pace:
        beside: dict[int, list[float]] = {}
        own: dict[int, list[float]] = {}
        for arm in trial.arms:
            for sample in arm.steps:
                if sample.beside_ms:
                    beside.setdefault(sample.beside_running, []).extend(sample.beside_ms)
                elif arm.candidate.label == BASELINE:
                    # Of several contexts the first is that of the prompts as they are, which the plain steps have too.
                    own.setdefault(sample.running, list(sample.step_ms))
        usual = {running: steady_mean(values) for running, values in beside.items()}
        return cls(usual, {n: steady_mean(own[n]) / usual[n] for n in usual if own.get(n)})

    @property
    def told(self) -> bool:
        return bool(self.usual_ms)

    def during(self, sample: StepSample | PrefillSample, label: str) -> float:
        """How slow the machine was: what ran then would have taken this much less at its usual pace."""
        beside = sample.beside_ms if isinstance(sample.beside_ms, tuple) else (sample.beside_ms,)
        values = [ms for ms in beside if ms]
        usual_ms = self.usual_ms.get(sample.beside_running)
        if values and usual_ms is not None:
            return statistics.fmean(values) / usual_ms
        if label != BASELINE or not self.at_first:
            return 1.0
        running = sample.running if isinstance(sample, StepSample) else 1
        return self.at_first.get(running, statistics.fmean(self.at_first.values()))


def _spread_of(values: Sequence[float], mean: float) -> float:
    """Standard deviation of single steps, as a share of their mean, hiccups clipped."""
    return math.sqrt(sum((min(v, 3 * mean) - mean) ** 2 for v in values) / max(1, len(values) - 1)) / mean


def _at_usual_pace(sample: StepSample, label: str, pace: Pace) -> list[float]:
    """The sample's steps, each as it would have been at the usual pace, as far as the plain ones beside it tell."""
    if not sample.beside_ms:
        return [v / pace.during(sample, label) for v in sample.step_ms]
    usual = pace.usual_ms[sample.beside_running]
    return [v * usual / beside for v, beside in zip(sample.step_ms, sample.beside_ms, strict=True)]


def _cell(label: str, sample: StepSample, pace: Pace, usual_spread: float) -> Cell | None:
    if not sample.step_ms or sample.running < 1:
        return None
    # With a model as drafter every request drafts k tokens in every step; lookups find some now and none then.
    alike = abs(sample.tokens_per_step - sample.running * (sample.k + 1)) < 0.01
    mean_of = middle_mean if alike else steady_mean
    steps = _at_usual_pace(sample, label, pace)
    mean = middle_mean(steps) if alike else steady_mean(sample.step_ms) / pace.during(sample, label)
    if mean <= 0:
        return None
    n = len(steps)
    # Of two steps that happen to agree nothing is known of how steps spread: as much as elsewhere in this trial.
    own = _spread_of(steps, mean)
    spread = math.sqrt(((n - 1) * own**2 + _BORROWED * usual_spread**2) / (n - 1 + _BORROWED))
    drafted = mean_of(sample.draft_ms) / pace.during(sample, label) if sample.draft_ms else None
    together = _TOGETHER_BESIDE if sample.beside_ms else _TOGETHER
    return Cell(
        label,
        sample.k,
        float(sample.running),
        max(sample.tokens_per_step, float(sample.running)),
        sample.context_tokens,
        mean,
        drafted,
        math.hypot(spread / math.sqrt(max(1.0, n / together)), FLOOR_LOG_SD),
        n,
    )


def _plain_cells(trial: TrialEvidence, pace: Pace) -> list[Cell]:
    """The baseline as the resident engine's steps have it: made all through the trial, in every arm's moments."""
    found = []
    for running, usual_ms in sorted(pace.usual_ms.items()):
        samples = [s for arm in trial.arms for s in arm.steps if s.beside_ms and s.beside_running == running]
        count = sum(len(s.beside_ms) for s in samples)
        context = sum(len(s.beside_ms) * s.context_tokens for s in samples) / count
        found.append(Cell(BASELINE, 0, float(running), float(running), context, usual_ms, None, FLOOR_LOG_SD, count))
    return found


def cells_of(trial: TrialEvidence) -> tuple[Cell, ...]:
    """Every timed shape of every arm that was timed at all, baseline included (arm label `none`), at the machine's
    usual pace where a resident plain engine told how slow it was in between."""
    pace = Pace.of(trial)
    spreads = []
    for arm in trial.arms:
        for sample in arm.steps:
            if len(sample.step_ms) >= _ENOUGH and sample.running:
                steps = _at_usual_pace(sample, arm.candidate.label, pace)
                spreads.append(_spread_of(steps, middle_mean(steps)))
    usual_spread = statistics.median(spreads) if spreads else 0.0
    found = _plain_cells(trial, pace)
    # What the baseline's own block said of such a step is one moment's word against the whole trial's.
    told_better = set(pace.at_first)
    for arm in trial.arms:
        for sample in arm.steps:
            if arm.candidate.label == BASELINE and not sample.beside_ms and sample.running in told_better:
                told_better.remove(sample.running)
                continue
            cell = _cell(arm.candidate.label, sample, pace, usual_spread)
            if cell is not None:
                found.append(cell)
    return tuple(found)
