"""Step and request times of a deployment by the fitted step-time model, and the speed-ups that `predict` gives.

What is priced here is a row of the table that `predict` evaluates, by the same functions: without a measurement the two
commands cannot differ on the same question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.cases.pricing import Priced, matched_share, priced_at
from advisor.cases.residual import correction, fleet_shift, judge
from advisor.cases.table import Table
from advisor.cost.columns import Rows
from advisor.cost.constants import constants
from advisor.cost.gain import request_ms, token_budget
from advisor.cost.physics import Columns, Constants, ragged_ms, step_times, target_ms
from advisor.cost.step import Cost, Step, draft_has_graphs, runner_for
from advisor.request_time import Request, Tokens
from advisor.situation import Situation
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.methods import method
from profiles.schema import Source

_SLOPE_STEP = 0.05


@dataclass(frozen=True)
class ModelledCost:
    """StepCost by `advisor.cost.physics`, at the situation's own shapes, card, engine and release."""

    situation: Situation
    rows: Rows
    ragged: dict[str, float] = field(default_factory=dict)
    """By method: what a lookup's step pays at most where its requests differ in their drafts, ms, once asked for."""

    @classmethod
    def of(cls, situation: Situation) -> ModelledCost:
        """The model for a situation; never fails: unknown hardware is assumed and says so in `description`."""
        return cls(situation, Rows(situation))

    @property
    def description(self) -> str:
        where = "an assumed CPU" if self._on_cpu else "an assumed GPU"
        if self.situation.gpu is not None:
            where = f"{self.situation.gpu.name} at {self.situation.gpu.memory_bandwidth_gbs:g} GB/s"
        return (
            f"modelled from facts: {where}, constants fitted to published speed-ups (advisor/cost/physics.json), as "
            "`specadvise predict` prices it"
        )

    @property
    def source(self) -> Source:
        """Modelled on a card that is known, assumed elsewhere."""
        return Source.ASSUMED if self.situation.gpu is None else Source.MODELLED

    @property
    def growth_log_sd(self) -> float:
        """How far a verify step over a plain one may be off, in logarithms, where only the plain one was timed."""
        return self._error("growth")

    @property
    def _on_cpu(self) -> bool:
        return self.situation.runner == "cpu"

    def _error(self, name: str) -> float:
        known = constants()
        of = known["cpu_engine"] if self._on_cpu else known["unknown_gpu"] if self.situation.gpu is None else known
        return float(of["relative_error"].get(name, known["relative_error"].get(name, 0.0)))

    # --- steps --------------------------------------------------------------------------------------------------
    def _at(self, candidate: Candidate, running: Any, k: Any, context_tokens: Any) -> Table:
        """Rows whose requests have so many KV tokens in the mean."""
        return self.rows.table(candidate, k, running, context_tokens, 0.0)

    def target(self, running: float, tokens: float, context_tokens: float) -> Cost:
        c, p = self._at(NO_SPECULATION, running, 0, context_tokens).of, self.rows.model.constants
        # Tokens of one request agree on experts.
        routed = running * max(1.0, tokens / running) ** p["routing_temper"]
        ms = float(target_ms(c, p, tokens, running, context_tokens, routed)[0])
        return Cost(ms, self._error("step"), self.source)

    def draft(self, candidate: Candidate, running: float, k: int, context_tokens: float) -> Cost:
        step = self.step(candidate, running, k, k, context_tokens)
        return Cost(step.draft_ms, self._cause("drafting") if step.draft_ms else 0.0, self.source)

    def overhead(self, candidate: Candidate, running: float, k: int) -> Cost:
        step = self.step(candidate, running, k, k, 0.0)
        return Cost(step.overhead_ms, self._cause("round") if step.overhead_ms else 0.0, self.source)

    def _cause(self, name: str) -> float:
        return float(self.rows.model.residual["cause_sd"][name])

    def prefill(self, tokens: float) -> Cost:
        """One request's prompt beside other work: its share of a step that is full of tokens, and what every step
        pays once."""
        c, p = self._at(NO_SPECULATION, 1, 0, 0.5 * tokens).of, self.rows.model.constants
        budget = float(token_budget(c)[0])
        one, full = (float(_prompt_ms(c, p, size, 0.5 * tokens)[0]) for size in (1.0, budget))
        return Cost(one + max(0.0, tokens - 1.0) * (full - one) / max(1.0, budget - 1.0), self._error("prefill"),
                    self.source)

    def draft_prefill(self, candidate: Candidate, tokens: float) -> Cost:
        if method(candidate.method).drafter == "none":
            return Cost(0.0, 0.0, self.source)
        c, p = self._at(candidate, 1, 1, tokens).of, self.rows.model.constants
        ms = float(step_times(c, p, c["running"], 1.0).draft_prefill[0])
        return Cost(ms, self._error("prefill") if ms else 0.0, self.source)

    def step(self, candidate: Candidate, running: float, k: int, drafted: float, context_tokens: float) -> Step:
        parts = self._parts(candidate, [running], k, drafted, [context_tokens])
        return self._step(candidate, running, *(float(part[0]) for part in parts))

    def steps_ms(
        self, candidate: Candidate, running: Sequence[float], k: int, drafted: float, context_tokens: Sequence[float]
    ) -> Any:
        """Milliseconds of the step by load (rows) and context (columns)."""
        import numpy as np

        loads = np.repeat(np.asarray(running, dtype=float), len(context_tokens))
        contexts = np.tile(np.asarray(context_tokens, dtype=float), len(running))
        draft, verify, overhead, _ = self._parts(candidate, loads, k, drafted, contexts)
        return (draft + verify + overhead).reshape(len(running), len(context_tokens))

    def _parts(
        self, candidate: Candidate, running: Any, k: int, drafted: float, context_tokens: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Draft, verify, overhead and the baseline step, arrays over rows."""
        import numpy as np

        table, p = self._at(candidate, running, k, context_tokens), self.rows.model.constants
        c = table.of
        most = np.minimum(c["k"], p["suffix_drafted"]) if bool(c["suffix"][0]) else c["k"]
        times = step_times(c, p, c["running"], np.minimum(1.0, drafted / np.maximum(1.0, most)))
        return self._loaded(candidate, c["k"], times)

    def _loaded(self, candidate: Candidate, k: Any, times: Any) -> tuple[Any, Any, Any, Any]:
        """The parts of a step; where k = 0 the speculation is loaded and idle, or there is none."""
        import numpy as np

        idle = 0.0
        if method(candidate.method).drafter != "none":
            idle = float(constants()["idle_share"]["value"])
        on = k > 0
        return (
            np.where(on, times.draft, 0.0), np.where(on, times.verify, times.baseline),
            np.where(on, times.overhead, idle * times.baseline), times.baseline,
        )

    def _step(
        self, candidate: Candidate, running: float, draft: float, verify: float, overhead: float, baseline: float
    ) -> Step:
        """A step of its parts. Their errors are independent, so they add in squares, weighted by their share."""
        if method(candidate.method).drafter == "none":
            return Step(0.0, verify, 0.0, self._error("step"), 0.0, self.source)
        total = draft + verify + overhead
        own = math.hypot(draft * self._cause("drafting"), overhead * self._cause("round")) / total
        # Verification over the plain step is known by what it grows, which starts from nothing.
        grown = max(0.0, verify - baseline) * self._cause("compute") / total
        ratio = math.hypot(self._error("ratio"), float(self.rows.model.residual["setup_sd"]), own, grown)
        return Step(draft, verify, overhead, math.hypot(self._error("step"), own), ratio, self.source,
                    self._notes(candidate, running))

    def _notes(self, candidate: Candidate, running: float) -> tuple[str, ...]:
        runner = runner_for(candidate, self.situation)
        notes: list[str] = []
        if runner != self.situation.runner:
            notes.append(f"priced on the {runner.upper()} runner")
        described = method(candidate.method)
        never = not described.draft_graphs and described.drafter in ("head", "native")
        if runner in ("v1", "v2") and (never or not draft_has_graphs(candidate, self.situation)):
            notes.append(f"the drafter runs without CUDA graphs on the {runner.upper()} runner")
        if described.drafter == "lookup":
            if candidate.method not in self.ragged:
                c, p = self._at(candidate, 1, 1, 0.0).of, self.rows.model.constants
                self.ragged[candidate.method] = float(ragged_ms(c, p, 1.0, 0.0)[0])
            if (ms := self.ragged[candidate.method]) > 0.0:
                notes.append(f"up to {ms:.2f} ms of the verify time are for steps in which not every request has a "
                             "draft of k tokens: whole CUDA graphs are captured for those alone")
        return tuple(notes)

    # --- whole requests -----------------------------------------------------------------------------------------
    def requests(
        self, candidate: Candidate, ks: Sequence[int], running: float, lengths: Sequence[float], tokens: Tokens
    ) -> list[Request]:
        """A request's time in the engine with each k at a load, where its steps give `lengths` tokens in the mean."""
        import numpy as np

        table = self._table(candidate, ks, running, tokens)
        c, p = table.of, self.rows.model.constants
        given = np.asarray(lengths, dtype=float)
        matched = matched_share(c, p, given)
        times = step_times(c, p, c["running"], matched)
        draft, verify, overhead, baseline = self._loaded(candidate, c["k"], times)
        plain = request_ms(c, p, times, c["running"], 1.0, False)
        own = request_ms(c, p, times, c["running"], given, True)
        steps = tokens.output / given
        # Loaded and idle, a request's steps are plain ones and the idle speculation's overhead.
        own = np.where(c["k"] > 0, own, plain + steps * overhead)
        fresh = max(1.0, tokens.uncached)
        # A prompt beyond the token budget takes several passes, each of which reads the weights.
        further = np.ceil(fresh / token_budget(c)) - 1.0
        alone = _prompt_ms(c, p, fresh, 0.5 * fresh) + further * _prompt_ms(c, p, 1.0, 0.0)
        alone = alone + np.where(c["k"] > 0, times.draft_prefill, 0.0)
        shift = self._shift(table, given) if method(candidate.method).drafter != "none" else np.zeros(len(table))
        found = []
        for i in range(len(table)):
            step = self._step(candidate, running, *(float(part[i]) for part in (draft, verify, overhead, baseline)))
            decode = float(steps[i]) * step.ms
            found.append(Request(
                (float(own[i]) - decode) / running, float(alone[i]) + (0.5 * step.ms if running > 1 else 0.0),
                float(steps[i]), step, running, float(given[i]), tokens.output, float(shift[i]),
            ))
        return found

    def spreads(
        self,
        candidate: Candidate,
        ks: Any,
        running: Any,
        lengths: Any,
        length_log_sds: Any,
        given: Any,
        tokens: Tokens,
    ) -> list[tuple[float, float]]:
        """Standard deviations of ln(speed-up), downward and upward, of cells (arrays of equal length), as `predict` has
        them.

        lengths, length_log_sds: acceptance length and the standard deviation of its logarithm. given: whether it was
        measured or recorded; its own uncertainty then comes on top of what `predict` gives for a stated length.
        """
        import numpy as np

        table, model = self._table(candidate, ks, running, tokens), self.rows.model
        length, own = np.asarray(lengths, dtype=float), np.asarray(length_log_sds, dtype=float)
        known = np.asarray(given, dtype=bool)
        priced = priced_at(table, model, length, np.where(known, 0.0, own), known)
        judged = judge(table, priced, model)
        extra = np.full(len(table), self._error("ratio"))
        if bool(known.any()):
            most = np.maximum(1.01, table.of["k"] + 1.0)
            ends = [priced_at(table, model, np.clip(length * math.exp(way * _SLOPE_STEP), 1.0, most), own, known)
                    for way in (-1.0, 1.0)]
            slope = (ends[1].log_speedup - ends[0].log_speedup) / (2.0 * _SLOPE_STEP)
            extra = np.hypot(extra, np.where(known, slope * own, 0.0))
        idle = constants()["idle_share"]
        loaded = math.log((1.0 + idle["high"]) / (1.0 + idle["low"])) / 2.56
        sides = [np.hypot(np.where(table.of["k"] > 0, side, loaded), extra) for side in (judged.below, judged.above)]
        return [(float(below), float(above)) for below, above in zip(*sides, strict=True)]

    def _table(self, candidate: Candidate, ks: Any, running: Any, tokens: Tokens) -> Table:
        return self.rows.table(candidate, ks, running, tokens.prompt, tokens.output, cached_share=tokens.cached_share)

    def _shift(self, table: Table, lengths: Any) -> Any:
        """ln of what the learned correction and the fleet's own offsets add to the modelled speed-up."""
        import numpy as np

        residual, zeros = self.rows.model.residual, np.zeros(len(table))
        if residual["correction"]["kind"] == "none":
            return fleet_shift(table, residual)
        priced: Priced = priced_at(table, self.rows.model, lengths, zeros, zeros > 0)
        return correction(table, priced, residual) + fleet_shift(table, residual)


def _prompt_ms(c: Columns, p: Constants, tokens: float, context: float) -> Any:
    """A pass over so many prompt tokens and nothing else: recurrent states are written once, at its end."""
    return target_ms({**c, "state": 0.0 * c["state"]}, p, tokens, 0.0, context, tokens)
