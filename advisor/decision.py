"""The decision: on, off, or not decidable yet; which candidate and k; where it stops paying."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.inquiry import would_settle
from advisor.prediction import Pricing
from advisor.record import Decision, Priced
from advisor.schedule import Band, build_schedule, crossover, schedule_honoured
from profiles.deployment import NO_SPECULATION, Candidate, Goal
from profiles.methods import method
from profiles.schema import Quantity, Source


@dataclass(frozen=True)
class Choice:
    """The decision with what the reasons are written from."""

    decision: Decision
    best: Priced | None
    """The best cell at the load decided for, whether or not it is worth turning on; None without candidates, and
    where the target alone does not fit."""
    schedule_note: str = ""
    busy: Priced | None = None
    """The chosen cell at the busy hour's load, where one is stated."""
    blocked: Literal["", "target", "unusable", "memory", "slo"] = ""
    """What rules the best cell out whatever its speed; empty where it is judged by its speed."""

    @property
    def k_loaded(self) -> int:
        """The k the engine is started with: the largest of a schedule."""
        ks = [k for _, _, k in self.decision.schedule or ()]
        return max([self.decision.k or (self.best.k if self.best is not None else 0), *ks])


def _cautious(quantity: Quantity) -> float:
    """Half-way, in logarithms, between a value and the low end of its interval: a wide guess must not beat a narrow
    measurement by luck."""
    low = quantity.low if quantity.low is not None else quantity.value
    return math.sqrt(max(0.0, quantity.value * low))


def rank_key(goal: Goal, cell: Priced, worthwhile: bool | None) -> tuple[float, ...]:
    """What better means: larger is better. Cells that fit come first, then those that keep the SLOs, then those whose
    verdict (`worthwhile`: surely, perhaps, surely not) is better. Where it is perhaps, one that was measured here comes
    before one that was only assumed or modelled: it is nearer to an answer."""
    allowed = (1.0 if cell.fits else 0.0, 1.0 if cell.meets_slo is not False else 0.0)
    verdict = {True: 2.0, None: 1.0, False: 0.0}[worthwhile]
    if worthwhile is None and cell.speedup.source is Source.MEASURED:
        verdict = 1.5
    if goal is Goal.LATENCY:
        ttft = cell.ttft_ms.value if cell.ttft_ms is not None else 0.0
        return (*allowed, verdict, round(_cautious(cell.speedup), 4), -ttft)
    return (*allowed, verdict, round(_cautious(cell.tokens_per_s), 4), -float(cell.k))


def best_cell(pricing: Pricing, running: int, among: Sequence[Candidate] | None = None) -> Priced | None:
    """The best (candidate, k) at a load, the null candidate apart; None where there is no candidate."""
    goal = pricing.situation.deployment.objective.goal
    cells = [pricing.at(c, k, running) for c in (pricing.candidates if among is None else among) for k in c.k]
    return max(cells, key=lambda cell: rank_key(goal, cell, _verdict(pricing, cell)), default=None)


def _verdict(pricing: Pricing, cell: Priced) -> bool | None:
    """True above the worthwhile gain with the whole interval, False below it, None across."""
    threshold = 1.0 + pricing.situation.deployment.objective.worthwhile_gain
    if not cell.fits:
        return False
    null = pricing.at(NO_SPECULATION, 0, cell.running)
    if cell.meets_slo is False and null.meets_slo is not False:
        return False
    low = cell.speedup.low if cell.speedup.low is not None else cell.speedup.value
    high = cell.speedup.high if cell.speedup.high is not None else cell.speedup.value
    if low > threshold:
        return True
    if high < threshold:
        return False
    return None


_TURNS = 40
"""Most steps toward a break-even; two or three do."""


def break_even_length(pricing: Pricing, candidate: Candidate, k: int, running: int) -> float | None:
    """Acceptance length at which this k neither gains nor loses end to end at a load; None where no length would do
    (the baseline is faster than the prefill alone)."""
    base = pricing.request(NO_SPECULATION, 0, min(float(running), pricing.limit(NO_SPECULATION)))
    n = min(float(running), pricing.limit(candidate, k))
    own = pricing.request(candidate, k, n)
    even = None
    for _ in range(_TURNS):
        # total(own) = total(base) x (own running / base running), solved for the number of steps.
        budget = base.total_ms * math.exp(own.correction) * own.running / base.running - own.running * own.prefill_ms
        if budget <= 0:
            return None
        even = max(0.0, own.steps * own.acceptance_length) * own.step.ms / budget
        if abs(even - own.acceptance_length) < 1e-9:
            break
        # Where drafts are looked up, how many tokens a step verifies depends on how many it gives.
        own = pricing.request(candidate, k, n, length=max(1.0, even))
    return even


def _blocked(pricing: Pricing, cell: Priced) -> Literal["", "unusable", "memory", "slo"]:
    if cell.label in pricing.unusable:
        return "unusable"
    if not cell.fits:
        return "memory"
    if cell.meets_slo is False and pricing.at(NO_SPECULATION, 0, cell.running).meets_slo is not False:
        return "slo"
    return ""


def _off(pricing: Pricing) -> Decision:
    """Off, with no figure that could be taken for a finding about a candidate."""
    return Decision(
        enable=False,
        method=None,
        draft=None,
        k=None,
        schedule=None,
        running=pricing.running,
        speedup=None,
        speedup_low=None,
        speedup_high=None,
        speedup_source=Source.MODELLED,
        probability_of_gain=None,
        break_even_acceptance_length=None,
        crossover_load=None,
        reasons=(),
    )


def decide(pricing: Pricing) -> Choice:
    """The advice at the usual load. Abstains (`enable` null) where the interval straddles the worthwhile gain."""
    running = pricing.running
    if pricing.plan(NO_SPECULATION, 0).target_fits is False:
        # Not an answer about speculation: nothing can be served here, with or without it.
        settles = "more GPUs with a larger tensor_parallel_size, or a smaller or quantized target"
        cannot = _off(pricing).model_copy(update={"enable": None, "would_settle": settles})
        return Choice(cannot, None, blocked="target")
    best = best_cell(pricing, running)
    if best is None:
        return Choice(_off(pricing), None)
    blocked = _blocked(pricing, best)
    if blocked:
        return Choice(_off(pricing), best, blocked=blocked)
    candidate = best.candidate
    enable = None if pricing.disturbed(candidate) else _verdict(pricing, best)
    cross = crossover(pricing, candidate)
    schedule: tuple[Band, ...] | None = None
    note = ""
    if enable:
        honoured, note = schedule_honoured(pricing, candidate)
        if honoured:
            schedule = build_schedule(pricing, candidate, best.k, cross)
    busy_load = pricing.traffic.running_p95
    busy = pricing.at(candidate, best.k, max(1, min(pricing.max_running, round(busy_load)))) if busy_load else None
    off = enable is False
    decision = Decision(
        enable=enable,
        method=None if off else candidate.method,
        draft=None if off or candidate.draft is None else candidate.draft.id,
        k=None if off else best.k,
        settings={} if off else candidate.settings,
        schedule=schedule,
        running=running,
        speedup=best.speedup.value,
        speedup_low=best.speedup.low,
        speedup_high=best.speedup.high,
        speedup_source=best.speedup.source,
        probability_of_gain=best.probability_of_gain,
        break_even_acceptance_length=break_even_length(pricing, candidate, best.k, running),
        crossover_load=cross,
        crossover_searched_to=pricing.max_running,
        reasons=(),
        would_settle=would_settle(pricing, best) if enable is None else None,
    )
    return Choice(decision, best, note if method(candidate.method).drafter != "none" else "", busy)
