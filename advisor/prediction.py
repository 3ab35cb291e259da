"""Every (candidate, k, load) priced by the same code, the null candidate included.

With N requests in the engine a request costs its prefill once and its decode steps N at a time, so its time in the
engine is N x prefill + steps x step time, whatever is speculated: decode speed-up, prefill share, TPOT and tokens per
second all follow from that one line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from advisor.acceptance import Acceptance, acceptance_of
from advisor.compared import ALIKE, carried_over, paired
from advisor.compatibility import incompatible
from advisor.cost.machine import engine_limits
from advisor.cost.measured import MeasuredCost, cost_model, timings_apply
from advisor.cost.memory import plan_memory
from advisor.cost.modelled import ModelledCost
from advisor.cost.step import weakest
from advisor.cost.timed_cells import Pace
from advisor.held_back import held_back
from advisor.intervals import Z80, log_sd_of, probability_above, quantity, scaled, speedup_between
from advisor.record import AS_PAIRED, CANNOT_RUN, Memory, Priced
from advisor.request_time import Request, Tokens, limit_of, measured_speed, request_of
from advisor.situation import Situation
from advisor.workload_load import Traffic, little, traffic_of
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.evidence import ArmStatus
from profiles.methods import method
from profiles.schema import Quantity, Source

_LEAST_DECODE = 0.3
"""Share of decode in a request below which decode alone is known no worse."""


@dataclass
class Pricing:
    """Prices on demand, and the table that goes into the record."""

    situation: Situation
    cost: MeasuredCost | ModelledCost
    traffic: Traffic
    candidates: tuple[Candidate, ...]
    acceptance: dict[str, Acceptance]
    running: int
    """The load decided for."""
    max_running: int
    """Most requests the engine takes in one step (max_num_seqs)."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Candidates that cannot run, by label, and why: known beforehand, or in the words of the trial's engine."""
    avoided: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    """(label, k) that the checklist warns of: the load from which on it does, and the codes."""
    saturated: bool = False
    """An arrival rate that the replicas cannot keep up with: see advisor.saturation."""
    capped: str = ""
    """What was stated, where more requests were stated than the engine takes in one step; else empty."""
    assumptions: list[str] = field(default_factory=list)
    decided: dict[tuple[int, tuple[str, ...] | None], Priced | None] = field(default_factory=dict, init=False)
    """Answers of `advisor.decision.best_cell`, which alone reads it; none is taken over into a copy."""
    _cache: dict[tuple[str, int, int], Priced] = field(default_factory=dict)
    _plans: dict[tuple[str, int], Memory] = field(default_factory=dict)
    _requests: dict[tuple[str, int, float, float, Tokens], Request] = field(default_factory=dict)
    _spreads: dict[tuple[str, int, float, float, float], tuple[float, float]] = field(default_factory=dict)
    _carried: dict[str, tuple[float, float] | None] = field(default_factory=dict)

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """Powers of two up to four times the usual load (within max_num_seqs), the usual load, and the busy hour."""
        top = min(self.max_running, max(64, 4 * self.running))
        loads = {1, self.running, *(1 << i for i in range(12) if 1 << i <= top)}
        if self.traffic.running_p95:
            loads.add(min(self.max_running, max(1, round(self.traffic.running_p95))))
        return tuple(sorted(loads))

    @cached_property
    def table(self) -> tuple[Priced, ...]:
        """Every (candidate, k, load), the null candidate first."""
        return tuple(
            self.at(c, k, n)
            for c in (NO_SPECULATION, *self.candidates)
            for k in (c.k if c.method != "none" else (0,))
            for n in self.loads
        )

    # --- one cell -----------------------------------------------------------------------------------------------
    def request(
        self,
        candidate: Candidate,
        k: int,
        running: float,
        prompt_tokens: float | None = None,
        output_tokens: float | None = None,
        *,
        length: float | None = None,
    ) -> Request:
        """A request's time at a load, for the workload's lengths and acceptance length or the given ones."""
        tokens = self._tokens(prompt_tokens, output_tokens)
        own = self.length(candidate, k).value if length is None else length
        if isinstance(self.cost, MeasuredCost):
            drafted = self.acceptance[candidate.label].drafted_tokens(k)
            return request_of(self.cost, candidate, k, running, own, drafted, tokens)
        key = (candidate.label, k, running, own, tokens)
        if key not in self._requests:
            ks = (k,) if length is not None or k not in candidate.k else candidate.k
            lengths = [own] if length is not None else [self.length(candidate, each).value for each in ks]
            priced = self.cost.requests(candidate, ks, running, lengths, tokens)
            for each, value, found in zip(ks, lengths, priced, strict=True):
                self._requests[candidate.label, each, running, value, tokens] = found
        return self._requests[key]

    def _tokens(self, prompt_tokens: float | None = None, output_tokens: float | None = None) -> Tokens:
        """The workload's lengths, or the given ones with its share of cached prompt tokens."""
        traffic = self.traffic
        prompt = traffic.prompt_tokens if prompt_tokens is None else prompt_tokens
        output = traffic.output_tokens if output_tokens is None else output_tokens
        return Tokens(prompt, output, 1.0 - traffic.uncached_prompt_tokens / traffic.prompt_tokens)

    def length(self, candidate: Candidate, k: int) -> Quantity:
        """Acceptance length at k with its interval, both within what a step can give: 1 to k + 1 tokens."""
        found = self.acceptance[candidate.label].length(k)

        def within(value: float | None) -> float | None:
            return None if value is None else min(k + 1.0, max(1.0, value))

        value = min(k + 1.0, max(1.0, found.value))
        return found.model_copy(update={"value": value, "low": within(found.low), "high": within(found.high)})

    def plan(self, candidate: Candidate, k: int) -> Memory:
        """The memory plan of a candidate at one k: a larger k of the same candidate takes nothing from it."""
        key = (candidate.label, k)
        if key not in self._plans:
            self._plans[key] = plan_memory(self.situation, candidate, k)
        return self._plans[key]

    def limit(self, candidate: Candidate, k: int = 0) -> float:
        """Requests that run at once with this candidate loaded at k: memory's limit and max_num_seqs."""
        memory = self.plan(candidate, k)
        room = memory.max_concurrency_without if candidate.method == "none" else memory.max_concurrency_with
        return max(1.0, min(float(self.max_running), room if room is not None else math.inf))

    def speedup(self, candidate: Candidate, k: int, running: int) -> float:
        """End-to-end speed-up (median), as `at` has it: a trial's paired comparison included. k = 0 is loaded and
        idle."""
        base, own = self._sides(candidate, k, running)
        ratio = own.tokens_per_s / base.tokens_per_s
        return min(k + 1.0, ratio * math.exp(own.correction + self.shift(candidate, k, running)))

    def at(self, candidate: Candidate, k: int, running: int) -> Priced:
        """One cell, priced once."""
        key = (candidate.label, k, running)
        if key not in self._cache:
            self._cache[key] = self._price(candidate, k, running)
        return self._cache[key]

    def _price(self, candidate: Candidate, k: int, running: int) -> Priced:
        null = method(candidate.method).drafter == "none"
        n_base = min(float(running), self.limit(NO_SPECULATION))
        n_own = n_base if null else min(float(running), self.limit(candidate, k))
        base = self.request(NO_SPECULATION, 0, n_base)
        own = base if null else self.request(candidate, k, n_own)
        # Latency at a fixed number of users is that number over the throughput, queueing included.
        ratio = own.tokens_per_s / base.tokens_per_s * math.exp(own.correction)
        length = self.length(candidate, k)
        source = base.step.source if null else weakest(length.source, base.step.source, own.step.source)
        from_trial = self._from_trial(candidate, length)
        decode_q = speed_q = quantity(1.0, 0.0, source)
        chance_sd = 0.0
        threshold = 1.0 + self.situation.deployment.objective.worthwhile_gain
        if not null and isinstance(self.cost, MeasuredCost):
            sd = self.acceptance[candidate.label].log_sd(k)
            decode_q, speed_q, chance_sd = measured_speed(base, own, k, sd, threshold, source)
        elif not null and isinstance(self.cost, ModelledCost):
            below, above = self._modelled_spread(self.cost, candidate, k, running)
            speed_q = speedup_between(ratio, Z80 * below, Z80 * above, k, source)
            chance_sd = above if ratio < threshold else below
            # Prefill, which both sides pay, dilutes end to end what is not known of decode.
            share = max(_LEAST_DECODE, own.decode_share) / Z80
            decode_q = speedup_between(
                own.acceptance_length * base.step.ms / own.step.ms, below / share, above / share, k, source
            )
        total_sd = log_sd_of(speed_q.low, speed_q.high)
        notes = list(own.step.notes)
        if n_own < n_base:
            notes.append(f"memory holds {math.floor(n_own):,} of the {round(n_base):,} that run at once without it")
        if candidate.label in self.unusable:
            notes.append(f"{CANNOT_RUN}: {self.unusable[candidate.label]}")
        alone: Quantity | None = None
        shown = own
        pairs = None if null else self.paired(candidate, k, running)
        refuted = None if null or k == 0 or pairs is not None else self.carried_over(candidate)
        if pairs is not None:
            alone, (speed_q, total_sd, note) = speed_q, pairs
            chance_sd = total_sd
            notes.append(note)
        elif refuted is not None:
            shift, compared_sd = refuted
            alone = speed_q
            # What the model gets wrong it gets wrong alike for neighbours: half of its doubt is their own.
            total_sd = chance_sd = math.hypot(compared_sd, 0.5 * total_sd)
            speed_q = quantity(ratio * math.exp(shift), total_sd, source)
        if alone is not None:
            shown = own.at_pace(ratio / speed_q.value)
            decode_q = scaled(decode_q, own.step.ms / shown.step.ms)
            if abs(math.log(shown.step.ms / own.step.ms)) > ALIKE:
                notes.append(f"{AS_PAIRED} ({own.step.ms:.1f} ms timed by itself)")
        acceptance = self.acceptance[candidate.label]
        cause = held_back(base, shown, k, acceptance.drafted_tokens(k), acceptance.matched_share, speed_q, threshold)
        fits = self.allows(candidate, k)
        objective = self.situation.deployment.objective
        # SLOs are about what is promised, so they are held against the middle of the interval.
        scale = 1.0 if null else ratio / speed_q.value
        # Whom the engine has no room for waits: by Little's law as long as the others' requests take in turn.
        waiting = max(0.0, running / n_own - 1.0) * own.total_ms
        tpot, ttft = own.tpot_ms * scale, own.first_token_ms + waiting
        slo = None
        if objective.tpot_ms is not None or objective.ttft_ms is not None:
            slo = (objective.tpot_ms is None or tpot <= objective.tpot_ms) and (
                objective.ttft_ms is None or ttft <= objective.ttft_ms
            )
        return Priced(
            candidate=candidate,
            label=candidate.label,
            k=k,
            running=running,
            acceptance_length=length,
            step_ms=quantity(shown.step.ms, own.step.log_sd, own.step.source),
            draft_ms=shown.step.draft_ms,
            verify_ms=shown.step.verify_ms,
            overhead_ms=shown.step.overhead_ms,
            baseline_step_ms=quantity(base.step.ms, base.step.log_sd, base.step.source),
            decode_speedup=decode_q,
            speedup=speed_q,
            tpot_ms=quantity(tpot, total_sd or base.step.log_sd, source),
            ttft_ms=quantity(ttft, 0.25, own.step.source),
            tokens_per_s=quantity(base.tokens_per_s * speed_q.value, total_sd or base.step.log_sd, source),
            probability_of_gain=probability_above(speed_q.value, chance_sd, threshold),
            fits=fits,
            meets_slo=slo,
            limited_by="nothing" if null else limit_of(base, shown, k),
            held_back_by=cause.part,
            held_back_from=cause.without,
            unpaired_speedup=alone,
            from_trial=from_trial,
            notes=tuple(notes),
        )

    def _from_trial(self, candidate: Candidate, length: Quantity) -> bool:
        """Whether a candidate's acceptance at a k was measured, and its steps are fitted to those that a trial timed of
        it. What of that was timed itself is called measured; the rest follows from it, and is modelled."""
        timed = isinstance(self.cost, MeasuredCost) and (
            candidate.method == "none" or candidate.label in self.cost.arms)
        return timed and length.source is Source.MEASURED

    def _modelled_spread(
        self, cost: ModelledCost, candidate: Candidate, k: int, running: int
    ) -> tuple[float, float]:
        """Standard deviations of ln(speed-up), down and up, without a trial; all cells of a candidate are judged at
        once."""
        acceptance = self.acceptance[candidate.label]

        def key(each: int, load: int) -> tuple[str, int, float, float, float]:
            there = min(float(load), self.limit(candidate, each))
            return candidate.label, each, there, self.length(candidate, each).value, acceptance.log_sd(each)

        wanted = key(k, running)
        if wanted not in self._spreads:
            keys = list(dict.fromkeys([wanted, *(key(each, load) for each in candidate.k for load in self.loads)]))
            _, ks, loads, lengths, spreads = zip(*keys, strict=True)
            given = [acceptance.length(each).source is not Source.ASSUMED for each in ks]
            found = cost.spreads(candidate, ks, loads, lengths, spreads, given, self._tokens())
            self._spreads.update(zip(keys, found, strict=True))
        return self._spreads[wanted]

    def allows(self, candidate: Candidate, k: int) -> bool:
        """Whether memory and engine allow a candidate at this k; what is unknown is allowed."""
        if candidate.label in self.unusable:
            return False
        memory = self.plan(candidate, k)
        if memory.target_fits is False:
            return False
        return candidate.method == "none" or memory.fits is not False

    def paired(self, candidate: Candidate, k: int, running: int) -> tuple[Quantity, float, str] | None:
        """`advisor.compared.paired`."""
        return paired(self, candidate, k, running)

    @property
    def stretched(self) -> bool:
        """Whether other work lengthened the trial's steps."""
        trial = self.situation.trial
        return trial is not None and any(found.code == "unsteady_steps" for found in trial.implausible)

    def disturbed(self, candidate: Candidate) -> bool:
        """Whether the trial's timings were made beside other work, with nothing that took the same disturbance: no
        paired comparison of this candidate stands behind its cells, and no resident engine told the machine's pace.
        Such numbers decide nothing."""
        trial = self.situation.trial
        if trial is None or Pace.of(trial).told or self.carried_over(candidate) is not None:
            return False
        return self.stretched

    def carried_over(self, candidate: Candidate) -> tuple[float, float] | None:
        """`advisor.compared.carried_over`, asked once."""
        if candidate.label not in self._carried:
            self._carried[candidate.label] = carried_over(self, candidate)
        return self._carried[candidate.label]

    def shift(self, candidate: Candidate, k: int, running: int) -> float:
        """ln of what the trial's paired comparison makes of the speed-up that acceptance and steps timed one by one
        give; 0 where it says nothing of the candidate, and of k = 0, which was not compared."""
        measured = self.paired(candidate, k, running)
        if measured is not None:
            base, own = self._sides(candidate, k, running)
            return math.log(measured[0].value * base.tokens_per_s / own.tokens_per_s)
        found = self.carried_over(candidate) if k > 0 else None
        return found[0] if found is not None else 0.0

    def _sides(self, candidate: Candidate, k: int, running: int) -> tuple[Request, Request]:
        """A request without and with the candidate where so many want to run."""
        return (self.request(NO_SPECULATION, 0, min(float(running), self.limit(NO_SPECULATION))),
                self.request(candidate, k, min(float(running), self.limit(candidate, k))))


def unusable_arms(situation: Situation) -> dict[str, str]:
    """Candidates whose arm never ran on this kind of engine, and the engine's own last error."""
    trial = situation.trial
    if trial is None or not timings_apply(trial, situation):
        return {}
    failed = (ArmStatus.REFUSED, ArmStatus.CRASHED, ArmStatus.OUT_OF_MEMORY, ArmStatus.HUNG)
    return {
        arm.candidate.label: arm.error or arm.status.value.replace("_", " ")
        for arm in trial.arms
        if arm.status in failed and not arm.steps
    }


def price(situation: Situation, unusable: Mapping[str, str] | None = None) -> Pricing:
    """Everything a decision is made from: cost model, acceptance, memory, loads. Raises nothing of its own. `unusable`
    are the candidates that cannot run, where that is known already."""
    cost = cost_model(situation)
    traffic = traffic_of(situation)
    engine = situation.deployment.engine
    max_running = engine_limits(situation).max_num_seqs
    candidates = situation.candidates
    acceptance = {c.label: acceptance_of(situation, c, traffic.prompt_tokens) for c in (NO_SPECULATION, *candidates)}
    pricing = Pricing(
        situation, cost, traffic, candidates, acceptance, 1, max_running, assumptions=list(traffic.assumptions)
    )
    pricing.unusable = dict({**unusable_arms(situation), **incompatible(situation)} if unusable is None else unusable)
    if traffic.running is not None:
        running = traffic.running / engine.data_parallel_size
    else:
        rate = traffic.arrival_rate_rps or 0.0
        running, pricing.saturated = little(
            rate / engine.data_parallel_size,
            lambda n: pricing.request(NO_SPECULATION, 0, n).total_ms,
            pricing.limit(NO_SPECULATION),
        )
        if not pricing.saturated:
            alone = engine.data_parallel_size == 1
            pricing.assumptions.append(
                f"{rate:g} requests per second{', all on one replica,' if alone else ''} keep about {running:.0f} "
                f"running{'' if alone else ' on each'} without speculation (modelled, by Little's law)"
            )
    if engine.data_parallel_size > 1:
        pricing.assumptions.append(f"the load is assumed to be shared evenly by {engine.data_parallel_size} replicas")
    # A full replica runs whole requests; a load that is only likely is rounded to the nearest.
    pricing.running = max(1, min(max_running, math.floor(running) if pricing.saturated else round(running)))
    if round(running) > max_running:
        each = " on each replica" if engine.data_parallel_size > 1 else ""
        limit = "max_num_seqs" if engine.max_num_seqs else "this release's own max_num_seqs"
        pricing.capped = (
            f"concurrency {running:.0f}{each} is above {limit} {max_running}: decided at {max_running}, the rest waits"
        )
    return pricing
