"""Step time from a trial: a non-negative fit of what was timed, corrected to agree with every measured cell.

The fit separates the target's step, its growth with requests, tokens and context, the drafter's passes and the fixed
price of a loaded speculation. Where a (k, running) cell was timed its own time is used; between cells the fit's error
is interpolated; beyond them the interval widens with the distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.cost.fit import Expected, proportional_fit
from advisor.cost.measured_prefill import Line, PromptStep, prefill_lines
from advisor.cost.modelled import ModelledCost
from advisor.cost.step import Cost, Step
from advisor.cost.timed_cells import BASELINE, FLOOR_LOG_SD, Cell, Pace, cells_of
from advisor.situation import Situation
from profiles.deployment import Candidate
from profiles.evidence import TrialEvidence
from profiles.methods import method
from profiles.schema import Source, counted

_KNOTS = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_MISFIT_LOG_SD = 0.08
"""How far a step's true time may well be from a sum of parts, before any was seen. Assumed: a GPU's kernels change
their tiles by shape, which no sum of parts follows."""
_MISFIT_CELLS = 4.0
"""Cells that this counts for beside those that were timed."""
_EXACT_LOG_SD = 5e-4
"""What would print as 0.0 %."""
_NOTED_SHORTER = 0.02
"""In logarithms: a step timed shorter than a plain one by less needs no word."""
_LOADED_SHARE = 0.1
"""Of the shortest step: what a loaded speculation may well add to any step beside its drafting and verifying."""
_PROMPT_TOKENS = 512.0
"""A prompt to compare a draft's prefill with the target's on, by the facts."""
_PER_DISTANCE_LOG_SD = 0.12
"""Widening per unit of distance from the nearest measured cell (a factor e in load, or 6 tokens of a request).
Assumed; of draft models timed at k=5 alone, k=1 was off by 0.03 to 0.06 (`benchmarks.regret`, one request)."""
_SAME_LOAD = 0.01
"""In logarithms: loads nearer than that are one."""
_SAME_STEP = 0.05
"""In logarithms: where longer requests change the target's pass by less, a step counts as timed at their length too."""


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
    misfit_log_sd: float = _MISFIT_LOG_SD
    """What of it is the fit's fault, and not the noise of the cells."""
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
        if not any(cell.arm == BASELINE for cell in cells):
            return None
        model = cls(situation, cells, ModelledCost.of(situation), trial.hardware)
        model.arms = tuple(sorted({cell.arm for cell in cells if cell.arm != BASELINE}))
        model._fit()
        model._fit_prefill(trial)
        return model

    @property
    def description(self) -> str:
        timed = f"measured by a trial on {self.hardware}: {counted(len(self.cells), 'shape')} of step timed"
        if self.residual_log_sd < _EXACT_LOG_SD:
            # As many unknowns as shapes: meeting each says nothing of the fit.
            return timed
        return f"{timed}, which the fit alone misses by {100 * self.residual_log_sd:.1f} % (root mean square)"


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
        self._solve()
        # Where a sum of parts follows the cells closely, each of them tells more of the others.
        self.misfit_log_sd = self._shown_misfit()
        self._solve()

    def _shown_misfit(self) -> float:
        """How far the cells are from the fit beyond their own noise, as log standard deviation.

        Their squares are weighed as what is left free has it (Paule and Mandel, Journal of Research of the National
        Bureau of Standards 87, 1982), with what is assumed counted as so many cells more.
        """
        cells = [(cell.log_sd**2, residual**2) for found in self._residuals.values() for cell, residual in found]
        free = len(cells) - sum(1 for value in self.coefficients.values() if value > 0.0)
        if free <= 0:
            return _MISFIT_LOG_SD
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            seen = sum(square / (noise + middle**2) for noise, square in cells)
            seen += _MISFIT_CELLS * (_MISFIT_LOG_SD / middle) ** 2
            low, high = (middle, high) if seen > free + _MISFIT_CELLS else (low, middle)
        return high

    def _solve(self) -> None:
        best: tuple[float, float, list[float]] = (math.inf, self.knot, [])
        tops = [cell.tokens for cell in self.cells]
        expected = self._expected()
        for knot in [k for k in _KNOTS if k < max(tops)] or [max(tops)]:
            rows: list[list[float]] = []
            values: list[float] = []
            spreads: list[float] = []
            for cell in self.cells:
                # Where the drafter was timed the rest of the step is fitted without it, and its passes get a row of
                # their own: the two then cannot be confused.
                timed = cell.draft_ms is not None and cell.k > 0 and 0.0 < cell.draft_ms < cell.ms
                drafted = cell.draft_ms or 0.0
                shape = cell.arm, cell.k, cell.running, cell.tokens, cell.context_tokens, knot
                row = self._row(*shape, with_draft=not timed)
                rows.append(row)
                values.append(cell.ms - drafted if timed else cell.ms)
                if timed:
                    whole = self._row(*shape, with_draft=True)
                    rows.append([w - r for w, r in zip(whole, row, strict=True)])
                    values.append(drafted)
                spreads += [math.hypot(cell.log_sd, self.misfit_log_sd)] * (2 if timed else 1)
            found = proportional_fit(rows, values, spreads, expected)
            if found.loss < best[0] - 1e-12:
                best = found.loss, knot, [float(v) for v in found.parts]
        _, self.knot, solved = best
        self.coefficients = dict(zip(self._columns(), solved, strict=True))
        total = 0.0
        self._residuals = {}
        for cell in self.cells:
            predicted = self._fitted(cell.arm, cell.k, cell.running, cell.tokens, cell.context_tokens)
            residual = math.log(cell.ms / max(predicted, 1e-9))
            total += residual**2
            self._residuals.setdefault(cell.arm, []).append((cell, residual))
        self.residual_log_sd = math.sqrt(total / len(self.cells))

    def _expected(self) -> list[Expected]:
        """A loaded speculation costs a step little beside its drafting and verifying: where a few cells of an arm alone
        say otherwise, the machine was busy then."""
        columns, step_ms = self._columns(), min(cell.ms for cell in self.cells)
        found = []
        for arm in self.arms:
            found.append(Expected(columns.index(f"{arm}: loaded"), 0.0, _LOADED_SHARE * step_ms))
            top = max(cell.running for cell in self.cells if cell.arm == arm)
            found.append(Expected(columns.index(f"{arm}: loaded_per_request"), 0.0, _LOADED_SHARE * step_ms / top))
        return found

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
            wider = (tokens / running - cell.tokens / cell.running) / 6.0
            distance = math.hypot(math.log(max(running, 0.5) / cell.running), wider, longer) + idle
            weight = cell.n**0.5 / (distance * distance + 1e-4)
            # A cell is off the fit because its kind of step is, or because the machine was busy: as the variances of
            # the two are, so is the part of it that is believed.
            believed = self.misfit_log_sd**2 / (self.misfit_log_sd**2 + cell.log_sd**2)
            weights += weight
            value += weight * believed * residual
            spread += weight * math.sqrt(believed) * cell.log_sd
            nearest = min(nearest, distance)
        ms = self._fitted(arm, k, running, tokens, context) * math.exp(value / weights)
        off_cell = min(1.0, nearest / 0.3) * self.misfit_log_sd
        return ms, math.sqrt((spread / weights) ** 2 + off_cell**2 + (_PER_DISTANCE_LOG_SD * nearest) ** 2)

    def _fit_prefill(self, trial: TrialEvidence) -> None:
        pace = Pace.of(trial)
        steps = [PromptStep(arm.candidate.label, p.tokens, p.step_ms / pace.during(p, arm.candidate.label))
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
        ms, spread = self._corrected(BASELINE, 0, running, max(tokens, running), context_tokens)
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
        return Cost(ms, max(self.residual_log_sd, FLOOR_LOG_SD), Source.MEASURED)

    def overhead(self, candidate: Candidate, running: float, k: int) -> Cost:
        arm = candidate.label
        if method(candidate.method).drafter == "none":
            return Cost(0.0, 0.0, Source.MEASURED)
        if arm not in self._residuals:
            modelled = self.fallback.overhead(candidate, running, k)
            return Cost(modelled.ms * self._scale(running, 0.0), max(0.4, modelled.log_sd), Source.MODELLED)
        ms = self.coefficients[f"{arm}: loaded"] + running * self.coefficients[f"{arm}: loaded_per_request"]
        return Cost(ms, max(self.residual_log_sd, FLOOR_LOG_SD), Source.MEASURED)

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
            source = self._source(BASELINE, 0, running, running, context_tokens)
            return Step(0.0, base.ms, 0.0, base.log_sd, 0.0, source)
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
        source = self._source(candidate.label, k, running, tokens, context_tokens)
        notes = () if source is Source.MEASURED or k == 0 else (self._timed_where(candidate.label),)
        if total < base.ms:
            # A step that verifies drafts does all that a plain step does. Where it was timed shorter, one of the two
            # was timed beside other work: take the longer, and let the contradiction widen the interval.
            shorter = math.log(base.ms / total)
            spread = math.hypot(spread, shorter)
            if shorter > _NOTED_SHORTER:
                notes = (*notes,
                         f"the step was timed shorter ({total:.1f} ms) than a plain one ({base.ms:.1f} ms): one of "
                         "them ran beside other work, so both are taken to be as long")
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
            source,
            notes,
        )

    def _source(self, arm: str, k: int, running: float, tokens: float, context: float) -> Source:
        """Measured where steps of this very k and load were timed, at requests about as long; elsewhere modelled, from
        those that were."""
        timed = any(cell.k == k and abs(math.log(running / cell.running)) < _SAME_LOAD
                    and self.same_step(running, tokens, context, cell.context_tokens)
                    for cell, _ in self._residuals[arm])
        return Source.MEASURED if timed else Source.MODELLED

    def same_step(self, running: float, tokens: float, context: float, other: float) -> bool:
        """Whether a step takes about as long at two contexts (KV tokens of a request), by the facts: what was timed at
        few lengths on a busy machine tells that badly."""
        here, there = (self.fallback.target(running, tokens, at).ms for at in (context, other))
        return here <= 0 or there <= 0 or abs(math.log(here / there)) < _SAME_STEP

    def _timed_where(self, arm: str) -> str:
        """What to say of a step that was not timed itself: where those were from which it follows."""
        timed = [cell for cell, _ in self._residuals[arm] if cell.k > 0]
        ends = ([f"{end:,.0f}" for end in dict.fromkeys((min(of), max(of)))] for of in (
            [cell.k for cell in timed], [cell.running for cell in timed], [cell.context_tokens for cell in timed]))
        at_k, at_load, context = (" to ".join(each) for each in ends)
        return (f"this step was not timed itself and follows from those that were, at k={at_k}, {at_load} running and "
                f"contexts of {context} tokens")

    def steps_ms(
        self, candidate: Candidate, running: Sequence[float], k: int, drafted: float, context_tokens: Sequence[float]
    ) -> Any:
        import numpy as np

        return np.array([[self.step(candidate, n, k, drafted, at).ms for at in context_tokens] for n in running])


def cost_model(situation: Situation) -> MeasuredCost | ModelledCost:
    """The best cost model a situation allows: measured on this kind of device, else modelled from facts."""
    return MeasuredCost.of(situation) or ModelledCost.of(situation)
