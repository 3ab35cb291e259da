"""Step time from a trial: a non-negative fit of what was timed, corrected to agree with every measured cell.

The fit separates the target's step, its growth with requests, tokens and context, the drafter's passes and the fixed
price of a loaded speculation. Where a (k, running) cell was timed its own time is used; between cells the fit's error
is interpolated; beyond them the interval widens with the distance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.cost.fit import nonnegative_least_squares
from advisor.cost.measured_prefill import Line, PromptStep, prefill_lines
from advisor.cost.modelled import ModelledCost
from advisor.cost.step import Cost, Step
from advisor.situation import Situation
from profiles.deployment import Candidate
from profiles.evidence import ArmEvidence, StepSample, TrialEvidence
from profiles.methods import method
from profiles.schema import Source

_KNOTS = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_FLOOR_LOG_SD = 0.015
"""Two runs of one cell differ by about this much even when each is long: machines drift."""
_PACE_LOG_SD = 0.05
"""How well the machine's pace is known from the plain steps around a block: starts of the exhaustive sweep on a shared
host differ by so much from what all of them tell (median; docs/regret.md)."""
_PROMPT_TOKENS = 512.0
"""A prompt to compare a draft's prefill with the target's on, by the facts."""
_PER_DISTANCE_LOG_SD = 0.12
"""Widening per unit of distance from the nearest measured cell (a factor e in load, or 3 in k)."""


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
    quarter = len(ordered) // 4
    middle = ordered[quarter: len(ordered) - quarter]
    return sum(middle) / len(middle)


def usual_plain_ms(trial: TrialEvidence) -> float | None:
    """The middle of what plain steps took on the engine that stayed resident; None where none did."""
    seen = [s.plain_ms for arm in trial.arms for s in arm.steps if s.plain_ms]
    return statistics.median(seen) if seen else None


def _pace(plain_ms: float | None, usual_ms: float | None) -> float:
    """How slow the machine was: what ran then would have taken this much less at its usual pace."""
    return plain_ms / usual_ms if plain_ms and usual_ms else 1.0


def _cell(arm: ArmEvidence, label: str, sample: StepSample, usual_ms: float | None) -> Cell | None:
    if not sample.step_ms or sample.running < 1:
        return None
    told = sample.plain_ms is not None
    pace = _pace(sample.plain_ms, usual_ms)
    # With a model as drafter every request drafts k tokens in every step; lookups find some now and none then.
    alike = abs(sample.tokens_per_step - sample.running * (sample.k + 1)) < 0.01
    mean_of = middle_mean if alike else steady_mean
    mean = mean_of(sample.step_ms) / pace
    if mean <= 0:
        return None
    n = len(sample.step_ms)
    paced = [v / pace for v in sample.step_ms]
    spread = math.sqrt(sum((min(v, 3 * mean) - mean) ** 2 for v in paced) / max(1, n - 1)) / mean
    drafted = mean_of(sample.draft_ms) / pace if sample.draft_ms else None
    return Cell(
        label,
        sample.k,
        float(sample.running),
        max(sample.tokens_per_step, float(sample.running)),
        sample.context_tokens,
        mean,
        drafted,
        math.hypot(spread / math.sqrt(n), _PACE_LOG_SD if told else _FLOOR_LOG_SD),
        n,
    )


def cells_of(trial: TrialEvidence) -> tuple[Cell, ...]:
    """Every timed shape of every arm that was timed at all, baseline included (arm label `none`), at the machine's
    usual pace where a resident plain engine told how slow it was in between."""
    usual_ms = usual_plain_ms(trial)
    found: list[Cell] = []
    for arm in trial.arms:
        for sample in arm.steps:
            cell = _cell(arm, arm.candidate.label, sample, usual_ms)
            if cell is not None:
                found.append(cell)
    return tuple(found)


def timings_apply(trial: TrialEvidence, situation: Situation) -> bool:
    """Whether a trial's times say anything about this deployment: acceptance travels between devices, time does not."""
    on_cpu = trial.device.strip().lower() == "cpu"
    return on_cpu == (situation.runner == "cpu")


@dataclass
class MeasuredCost:
    """StepCost fitted to a trial; `of` returns None where the baseline was not timed on this kind of device."""

    situation: Situation
    cells: tuple[Cell, ...]
    fallback: ModelledCost
    hardware: str
    arms: tuple[str, ...] = ()
    knot: float = 16.0
    coefficients: dict[str, float] = field(default_factory=dict)
    residual_log_sd: float = 0.0
    """Root mean square of ln(measured / fit) over the cells: what the fit alone would miss."""
    prefill_line: Line | None = None
    """The target's; None where no step carried prompts alone."""
    draft_prefill_lines: dict[str, Line] = field(default_factory=dict)
    """What each timed drafter adds to it."""
    _residuals: dict[str, list[tuple[Cell, float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, situation: Situation) -> MeasuredCost | None:
        trial = situation.trial
        if trial is None or not timings_apply(trial, situation):
            return None
        cells = cells_of(trial)
        if not any(cell.arm == "none" for cell in cells):
            return None
        model = cls(situation, cells, ModelledCost.of(situation), trial.hardware)
        model.arms = tuple(sorted({cell.arm for cell in cells if cell.arm != "none"}))
        model._fit()
        model._fit_prefill(trial)
        return model

    @property
    def description(self) -> str:
        return (
            f"measured by a trial on {self.hardware}: {len(self.cells)} shapes of step timed, which the fit alone "
            f"misses by {100 * self.residual_log_sd:.1f} % (root mean square)"
        )

    # --- the fit ------------------------------------------------------------------------------------------------
    def _row(
        self, arm: str, k: int, running: float, tokens: float, context: float, knot: float, *, with_draft: bool
    ) -> list[float]:
        row = [
            1.0,
            running,
            max(0.0, tokens - running),
            max(0.0, tokens - max(knot, running)),
            running * context / 1000.0,
        ]
        for name in self.arms:
            own = name == arm
            row += [1.0 if own else 0.0, running if own else 0.0]
            row += [float(k) if own and with_draft else 0.0, k * running if own and with_draft else 0.0]
        return row

    def _columns(self) -> list[str]:
        names = ["step", "per_request", "per_token", "per_token_beyond_knot", "per_1000_kv_tokens"]
        for arm in self.arms:
            names += [
                f"{arm}: loaded",
                f"{arm}: loaded_per_request",
                f"{arm}: draft_pass",
                f"{arm}: draft_pass_per_request",
            ]
        return names

    def _fit(self) -> None:
        import numpy as np

        best: tuple[float, float, list[float]] = (math.inf, self.knot, [])
        tops = [cell.tokens for cell in self.cells]
        for knot in [k for k in _KNOTS if k < max(tops)] or [max(tops)]:
            rows: list[list[float]] = []
            values: list[float] = []
            for cell in self.cells:
                # Where the drafter was timed the rest of the step is fitted without it, and its passes get a row of
                # their own: the two then cannot be confused.
                timed = cell.draft_ms is not None and cell.k > 0
                rest = cell.ms - (cell.draft_ms or 0.0) if timed else cell.ms
                row = self._row(
                    cell.arm, cell.k, cell.running, cell.tokens, cell.context_tokens, knot, with_draft=not timed
                )
                rows.append([v / cell.ms for v in row])
                values.append(rest / cell.ms)
                if timed:
                    whole = self._row(
                        cell.arm, cell.k, cell.running, cell.tokens, cell.context_tokens, knot, with_draft=True
                    )
                    rows.append([(w - r) / cell.ms for w, r in zip(whole, row, strict=True)])
                    values.append((cell.draft_ms or 0.0) / cell.ms)
            solution = nonnegative_least_squares(rows, values)
            error = float(np.sum((np.asarray(rows) @ solution - np.asarray(values)) ** 2))
            if error < best[0] - 1e-12:
                best = (error, knot, [float(v) for v in solution])
        _, self.knot, solved = best
        self.coefficients = dict(zip(self._columns(), solved, strict=True))
        total = 0.0
        for cell in self.cells:
            predicted = self._fitted(cell.arm, cell.k, cell.running, cell.tokens, cell.context_tokens)
            residual = math.log(cell.ms / max(predicted, 1e-9))
            total += residual**2
            self._residuals.setdefault(cell.arm, []).append((cell, residual))
        self.residual_log_sd = math.sqrt(total / len(self.cells))

    def _fitted(self, arm: str, k: int, running: float, tokens: float, context: float) -> float:
        row = self._row(arm, k, running, tokens, context, self.knot, with_draft=True)
        return sum(v * c for v, c in zip(row, self.coefficients.values(), strict=True))

    def _corrected(self, arm: str, k: int, running: float, tokens: float, context: float) -> tuple[float, float]:
        """Milliseconds and log standard deviation of a step of an arm that was timed."""
        weights = value = spread = 0.0
        nearest = math.inf
        for cell, residual in self._residuals[arm]:
            # An idle speculation is another kind of step than a short draft: it says little about k of 1 and more.
            idle = 1.0 if (cell.k == 0) != (k == 0) else 0.0
            longer = 0.5 * math.log((context + 64.0) / (cell.context_tokens + 64.0))
            distance = math.hypot(math.log(max(running, 0.5) / cell.running), (k - cell.k) / 3.0, longer) + idle
            weight = cell.n**0.5 / (distance * distance + 1e-4)
            weights += weight
            value += weight * residual
            spread += weight * cell.log_sd
            nearest = min(nearest, distance)
        ms = self._fitted(arm, k, running, tokens, context) * math.exp(value / weights)
        off_cell = min(1.0, nearest / 0.3) * self.residual_log_sd
        return ms, math.sqrt((spread / weights) ** 2 + off_cell**2 + (_PER_DISTANCE_LOG_SD * nearest) ** 2)

    def _fit_prefill(self, trial: TrialEvidence) -> None:
        usual_ms = usual_plain_ms(trial)
        steps = [PromptStep(arm.candidate.label, p.tokens, p.step_ms / _pace(p.plain_ms, usual_ms))
                 for arm in trial.arms for p in arm.prefill if p.tokens > 0 and p.step_ms > 0]
        expected: dict[str, Line] = {}
        for candidate in {arm.candidate.label: arm.candidate for arm in trial.arms}.values():
            share = self._modelled_share(candidate)
            if share > 0.0 and candidate.label in self._residuals:
                ks = [cell.k for cell, _ in self._residuals[candidate.label]]
                expected[candidate.label] = Line(self.draft(candidate, 1, max(ks), 0.0).ms, share)
        found = prefill_lines(steps, self.target(1, 1, 0.0).ms, expected)
        if found is not None:
            self.prefill_line, self.draft_prefill_lines = found

    def _modelled_share(self, candidate: Candidate) -> float:
        """What a drafter's own prefill takes, as a share of the target's, by the facts."""
        return (self.fallback.draft_prefill(candidate, _PROMPT_TOKENS).ms
                / max(self.fallback.prefill(_PROMPT_TOKENS).ms, 1e-9))

    # --- StepCost -----------------------------------------------------------------------------------------------
    def target(self, running: float, tokens: float, context_tokens: float) -> Cost:
        ms, spread = self._corrected("none", 0, running, max(tokens, running), context_tokens)
        return Cost(ms, spread, Source.MEASURED)

    def _scale(self, running: float, context: float) -> float:
        """Measured over modelled baseline: carries a modelled part over to this machine."""
        return self.target(running, running, context).ms / self.fallback.target(running, running, context).ms

    def _verify_untimed(self, running: float, tokens: float, context: float) -> Cost:
        """The target's pass with drafted tokens where this candidate was not timed: fitted if another one was, since
        the baseline alone says nothing of several tokens a request; else grown as the facts have it."""
        if any(cell.tokens > 1.5 * cell.running for cell in self.cells):
            return self.target(running, tokens, context)
        base = self.target(running, running, context)
        growth = self.fallback.target(running, tokens, context).ms / self.fallback.target(running, running, context).ms
        return Cost(base.ms * growth, math.hypot(base.log_sd, self.fallback.growth_log_sd), Source.MODELLED)

    def draft(self, candidate: Candidate, running: float, k: int, context_tokens: float) -> Cost:
        arm = candidate.label
        if arm not in self._residuals:
            modelled = self.fallback.draft(candidate, running, k, context_tokens)
            return Cost(modelled.ms * self._scale(running, context_tokens), max(0.4, modelled.log_sd), Source.MODELLED)
        ms = k * (
            self.coefficients[f"{arm}: draft_pass"] + running * self.coefficients[f"{arm}: draft_pass_per_request"]
        )
        return Cost(ms, max(self.residual_log_sd, _FLOOR_LOG_SD), Source.MEASURED)

    def overhead(self, candidate: Candidate, running: float, k: int) -> Cost:
        arm = candidate.label
        if method(candidate.method).drafter == "none":
            return Cost(0.0, 0.0, Source.MEASURED)
        if arm not in self._residuals:
            modelled = self.fallback.overhead(candidate, running, k)
            return Cost(modelled.ms * self._scale(running, 0.0), max(0.4, modelled.log_sd), Source.MODELLED)
        ms = self.coefficients[f"{arm}: loaded"] + running * self.coefficients[f"{arm}: loaded_per_request"]
        return Cost(ms, max(self.residual_log_sd, _FLOOR_LOG_SD), Source.MEASURED)

    def prefill(self, tokens: float) -> Cost:
        if self.prefill_line is None:
            return Cost(self.target(1, max(1.0, tokens), 0.0).ms, 0.3, Source.MEASURED)
        return Cost(self.prefill_line.at(tokens), 0.1, Source.MEASURED)

    def draft_prefill(self, candidate: Candidate, tokens: float) -> Cost:
        line = self.draft_prefill_lines.get(candidate.label)
        if line is not None:
            return Cost(line.at(tokens), 0.3, Source.MEASURED)
        beside = self.prefill(tokens).ms - self.prefill(0.0).ms
        return Cost(self._modelled_share(candidate) * beside, 0.4, Source.MODELLED)

    def step(self, candidate: Candidate, running: float, k: int, drafted: float, context_tokens: float) -> Step:
        base = self.target(running, running, context_tokens)
        described = method(candidate.method)
        if described.drafter == "none":
            return Step(0.0, base.ms, 0.0, base.log_sd, 0.0, Source.MEASURED)
        draft = self.draft(candidate, running, k, context_tokens)
        overhead = self.overhead(candidate, running, k)
        tokens = running * (1.0 + drafted)
        if candidate.label not in self._residuals:
            verify = self._verify_untimed(running, tokens, context_tokens)
            share = (draft.ms + overhead.ms) / (draft.ms + overhead.ms + verify.ms)
            growth = self.fallback.growth_log_sd if verify.source is Source.MODELLED else 0.0
            # Where the timed cells contradict each other, the machine was busy: what is scaled by them is as unsure.
            spread = math.hypot(0.15, 0.4 * share, growth, self.residual_log_sd)
            return Step(
                draft.ms,
                verify.ms,
                overhead.ms,
                math.hypot(verify.log_sd, spread),
                spread,
                Source.MODELLED,
                ("this candidate was not timed: its draft time is modelled, scaled to the measured target step",),
            )
        total, spread = self._corrected(candidate.label, k, running, tokens, context_tokens)
        if total < base.ms:
            # A step that verifies drafts does all that a plain step does. Where it was timed shorter, one of the two
            # was timed beside other work: take the longer, and let the contradiction widen the interval.
            spread = math.hypot(spread, math.log(base.ms / total))
            total = base.ms
        # The split is the fit's, the sum is the cell's: parts are scaled so that they add up to what was timed.
        fitted = self._fitted(candidate.label, k, running, tokens, context_tokens)
        scale = total / fitted if fitted > 0 else 1.0
        draft_ms, overhead_ms = draft.ms * scale, overhead.ms * scale
        return Step(
            draft_ms,
            max(0.0, total - draft_ms - overhead_ms),
            overhead_ms,
            spread,
            math.hypot(spread, base.log_sd),
            Source.MEASURED,
        )

    def steps_ms(
        self, candidate: Candidate, running: Sequence[float], k: int, drafted: float, context_tokens: Sequence[float]
    ) -> Any:
        import numpy as np

        return np.array([[self.step(candidate, n, k, drafted, at).ms for at in context_tokens] for n in running])


def cost_model(situation: Situation) -> MeasuredCost | ModelledCost:
    """The best cost model a situation allows: measured on this kind of device, else modelled from facts."""
    return MeasuredCost.of(situation) or ModelledCost.of(situation)
