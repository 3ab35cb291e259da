"""The chosen k against the baseline: paired blocks on the same prompts.

A machine drifts (heat, neighbours, clocks). Where memory allows, both engines stay resident and take turns step by
step, so that they share it; otherwise engines are restarted in turn, in alternating order, two rounds at least, and
the spread between starts is part of the answer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Literal

import psutil

from probes.trial import plausibility
from probes.trial.arm import block_command, launch, run_block
from probes.trial.engine_errors import EngineFailure
from probes.trial.engine_process import EngineProcess
from probes.trial.estimate import LEAST_ROUNDS, ROUND_PAIRS
from probes.trial.plan import ArmPlan
from probes.trial.progress import spoken
from probes.trial.samples import BlockPlan, kept_at_load_s
from probes.trial.session import BUDGET_ENDED, Session
from probes.trial.stepwise import Stepwise, alternate
from profiles.deployment import Candidate
from profiles.evidence import Block, PairedBlock, PairedComparison

Stop = Callable[[Sequence[PairedBlock]], "str | None"]
Mode = Literal["both_resident", "alternate_restarts"]

_ROOM_BYTES = 2 << 30
"""Host memory to leave free beside a second engine."""


class Comparison:
    """One comparison; `run` leaves its result in the session, whatever ends it."""

    def __init__(self, session: Session, arm: ArmPlan, k: int, stop: Stop) -> None:
        self.session, self.arm, self.k, self.stop = session, arm, k, stop
        self.args = session.plan.comparison_args(arm, k)
        earlier = session.comparison
        same = earlier is not None and earlier.candidate == arm.candidate and earlier.k == k
        self.pairs: list[PairedBlock] = list(earlier.pairs) if earlier is not None and same else []
        # Starts 0 were the arms' own; a resumed comparison goes on counting.
        self.baseline_start = max((p.baseline_start for p in self.pairs), default=0)
        self.speculative_start = max((p.speculative_start for p in self.pairs), default=0)
        self.mode: Mode = "both_resident"
        self.parted: list[plausibility.Divergence] = []

    def run(self, baseline: EngineProcess | None) -> None:
        """`baseline`: its arm's engine, still alive, or None. EngineFailure ends the comparison, not the trial."""
        try:
            if self.session.plan.on_cpu and (baseline is not None or room_for_both(self.session)):
                self._both_resident(baseline)
            else:
                if baseline is not None:
                    self.session.close(self.session.plan.baseline, baseline)
                self._alternate_restarts()
        except EngineFailure as failure:
            self.session.progress.note(f"comparison: {failure.status.value.replace('_', ' ')}: {failure}")
            self._note(f"an engine failed: {failure}")
        except KeyboardInterrupt:
            self._note("interrupted")
            raise
        finally:
            self.session.comparing = None

    # --- the two ways ------------------------------------------------------------------------------------------------
    def _both_resident(self, baseline: EngineProcess | None) -> None:
        session, plan = self.session, self.session.plan
        speculative: EngineProcess | None = None
        try:
            if baseline is None:
                self.baseline_start += 1
                baseline = launch(session, plan.baseline, plan.baseline.engine_args, first=False)
            self.speculative_start += 1
            speculative = launch(session, self.arm, self.args, first=False)
            while True:
                reason = self._pair(baseline, speculative) or self._over(session.estimator.pair_s(self.k))
                if reason is not None:
                    break
            self._repeat_cells(speculative)
            self._note(reason)
        finally:
            for arm, process in ((plan.baseline, baseline), (self.arm, speculative)):
                if process is not None:
                    session.close(arm, process)

    def _alternate_restarts(self) -> None:
        session, plan = self.session, self.session.plan
        self.mode = "alternate_restarts"
        reason: str | None = None
        rounds = 0
        while reason is None or (rounds < LEAST_ROUNDS and reason != BUDGET_ENDED):
            turns = [len(self.pairs) + i for i in range(ROUND_PAIRS)]
            first = rounds % 2 == 0
            self.baseline_start += 1
            self.speculative_start += 1
            results: dict[bool, list[dict[str, Any]]] = {}
            for speculative in ((False, True) if first else (True, False)):
                arm, args = (self.arm, self.args) if speculative else (plan.baseline, plan.baseline.engine_args)
                process = launch(session, arm, args, first=False)
                try:
                    results[speculative] = [self._block(process, turn, speculative) for turn in turns]
                finally:
                    session.close(arm, process)
            for one, two in zip(results[False], results[True], strict=True):
                self._add(one, two, "baseline_first" if first else "speculative_first")
            rounds += 1
            cost = 2 * session.estimator.start_s() + ROUND_PAIRS * session.estimator.pair_s(self.k)
            reason = self.stop(self.pairs) or self._over(cost)
        self._note(reason)

    # --- pieces ------------------------------------------------------------------------------------------------------
    def _pair(self, baseline: EngineProcess, speculative: EngineProcess) -> str | None:
        session, turn = self.session, len(self.pairs)
        session.comparing = self.k
        blocks = [self._planned(turn, speculative=False), self._planned(turn, speculative=True)]
        expected = sum(session.estimator.block_s(block) for block in blocks)
        told = sum(session.expected.block_s(block) for block in blocks)
        stage = f"comparison, {spoken(self.arm.candidate)} and no speculation by turns: {blocks[0].key}"
        with session.step(told):
            plain, drafting = (
                Stepwise(process, **block_command(session, process, block, k=self._set_k(process, block), whole=True))
                for process, block in zip((baseline, speculative), blocks, strict=True))
            one, two = alternate(plain, drafting, session.plan.user_load, told=lambda: session.tell(stage))
        if not one["complete"] or not two["complete"]:
            raise _OutOfTime
        session.estimator.observe("block", expected, one["wall_s"] + two["wall_s"])
        session.expected.observe("block", told, one["wall_s"] + two["wall_s"])
        self._add(one, two, "step_by_step")
        return self.stop(self.pairs)

    def _planned(self, turn: int, *, speculative: bool) -> BlockPlan:
        plan = self.session.plan
        return BlockPlan(f"pair {turn + 1} load {plan.user_load}", self.k if speculative else 0, plan.user_load,
                         plan.pair_places(turn), plan.max_tokens)

    def _set_k(self, process: EngineProcess, block: BlockPlan) -> int | None:
        return block.k if block.k and process.info["k_control"] == "schedule_lookup" else None

    def _block(self, process: EngineProcess, turn: int, speculative: bool) -> dict[str, Any]:
        self.session.comparing = self.k
        block = self._planned(turn, speculative=speculative)
        label = f"comparison, {spoken((self.arm if speculative else self.session.plan.baseline).candidate)}"
        data = run_block(self.session, process, block, label, k=self._set_k(process, block), whole=True)
        if not data["complete"]:
            raise _OutOfTime
        return data

    def _add(self, one: dict[str, Any], two: dict[str, Any],
             order: Literal["baseline_first", "speculative_first", "step_by_step"]) -> None:
        session = self.session
        if not one["output_tokens"] or not two["output_tokens"]:
            return
        load = session.plan.user_load
        self.pairs.append(PairedBlock(
            running=load, baseline_s=kept_at_load_s(one, load), speculative_s=kept_at_load_s(two, load),
            baseline_tokens=one["output_tokens"], speculative_tokens=two["output_tokens"],
            baseline_start=self.baseline_start, speculative_start=self.speculative_start, order=order))
        if session.plan.sampling.temperature == 0:
            self.parted.append(plausibility.divergence(
                [(a["ids"], b["ids"]) for a, b in zip(one["requests"], two["requests"], strict=True)]))
            noise = plausibility.divergence(session.noise)
            session.say(plausibility.greedy_output(self.arm.candidate.label, plausibility.pooled(self.parted), noise))
        self._note("")
        session.save()

    def _repeat_cells(self, speculative: EngineProcess) -> None:
        """With what the budget has left, time k and its neighbours once more at the user's load: the first start's cell
        of this k shows the spread between engine starts, and a k that is better by a few percent needs more steps to be
        seen than an arm has time for."""
        session, plan = self.session, self.session.plan
        lookup = speculative.info["k_control"] == "schedule_lookup"
        near = [k for k in (self.k, self.k + 1, self.k - 1) if k in self.arm.candidate.k and (lookup or k == self.k)]
        for k in near:
            # The prompts of the first start's cells, or the spread between starts would be that of prompts.
            block = BlockPlan(f"k {k} load {plan.user_load} again", k, plan.user_load, tuple(range(plan.user_load)),
                              plan.max_tokens)
            if session.left_s < session.estimator.block_s(block):
                return
            data = run_block(session, speculative, block, "comparison, its k and those beside it",
                             k=k if lookup else None, whole=False)
            if not data["complete"]:
                return
            # Acceptance is the first start's, of the same prompts: times only.
            session.record(self.arm, block, {**data, "requests": []}, start=self.speculative_start)

    def _over(self, next_s: float) -> str | None:
        return BUDGET_ENDED if self.session.left_s < next_s else None

    def _note(self, stopped: str) -> None:
        self.session.comparison = PairedComparison(
            candidate=self.arm.candidate, k=self.k, running=self.session.plan.user_load, mode=self.mode,
            pairs=tuple(self.pairs), stopped=stopped, within_run_spread=within_run_spread(self.pairs),
            between_run_spread=between_run_spread(self.pairs, self.session.change(self.arm).blocks))


class _OutOfTime(Exception):
    """The budget ended in the middle of a block; half a pair says nothing."""


def compare(session: Session, candidate: Candidate, k: int, stop: Stop, baseline: EngineProcess | None) -> None:
    """Run the paired comparison of this candidate and k; the session holds the result."""
    arm = next((a for a in session.plan.arms if a.candidate == candidate), None)
    if arm is None:
        raise ValueError(f"{candidate.label} is not an arm of this trial")
    comparison = Comparison(session, arm, k, stop)
    try:
        comparison.run(baseline)
    except _OutOfTime:
        comparison._note(BUDGET_ENDED)


def within_run_spread(pairs: Sequence[PairedBlock]) -> float | None:
    """Relative standard deviation of the speed-ups of pairs that share both engine starts, pooled."""
    groups: dict[tuple[int, int], list[float]] = {}
    for pair in pairs:
        groups.setdefault((pair.baseline_start, pair.speculative_start), []).append(pair.speedup)
    squares = freedom = 0.0
    for values in groups.values():
        mean = statistics.fmean(values)
        squares += sum((v / mean - 1) ** 2 for v in values)
        freedom += len(values) - 1
    return (squares / freedom) ** 0.5 if freedom else None


def between_run_spread(pairs: Sequence[PairedBlock], blocks: Sequence[Block]) -> float | None:
    """Relative standard deviation over engine starts: of the pairs' mean speed-up where there were several starts,
    else of the decode rate of a cell that two starts ran; None where no two starts did the same."""
    starts: dict[tuple[int, int], list[float]] = {}
    for pair in pairs:
        starts.setdefault((pair.baseline_start, pair.speculative_start), []).append(pair.speedup)
    if len(starts) > 1:
        return _relative_deviation([statistics.fmean(v) for v in starts.values()])
    rates: dict[tuple[int, int, bool], dict[int, list[float]]] = {}
    for block in blocks:
        if block.decode_s > 0:
            # Per plain step where those were made in between, else per second: the machine's pace is no start's doing.
            cell = rates.setdefault((block.k, block.running, block.beside_ms is None), {})
            rate = block.decode_tokens / block.decode_s * (block.beside_ms or 1.0)
            cell.setdefault(block.start, []).append(rate)
    spreads = [_relative_deviation([statistics.fmean(v) for v in cell.values()])
               for cell in rates.values() if len(cell) > 1]
    return max(spreads) if spreads else None


def room_for_both(session: Session) -> bool:
    """Whether this host's free memory holds a second engine beside one like the baseline's."""
    weights = session.plan.weight_bytes or 0
    cache = float(session.plan.env.get("VLLM_CPU_KVCACHE_SPACE", "4")) * 2**30
    return bool(psutil.virtual_memory().available > 2 * (weights + cache) + _ROOM_BYTES)


def _relative_deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)
