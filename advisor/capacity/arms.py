"""One candidate, or none, planned for: latencies against the rate, the highest rate, the fleet, where it hurts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from advisor.capacity.arrivals import length_quantile
from advisor.capacity.bounds import MeanValues, saturation_rps
from advisor.capacity.document import ArmPlan, ContextRoom, LoadPoint, Role
from advisor.capacity.engine import engine_model
from advisor.capacity.fleet import GROWTH, fleet_for, usd_per_million
from advisor.capacity.rates import Effort, Stream, highest_rate, load_point, rate_ratio, requests_for, saturated_rps
from advisor.capacity.simulation import COMPILED_FROM, EngineModel, numba_installed
from advisor.cost.memory import plan_memory
from advisor.decision import Choice, best_cell
from advisor.intervals import Z80, log_sd_of
from advisor.prediction import Pricing
from advisor.schedule import Band, build_schedule, crossover, schedule_honoured
from advisor.situation import Situation
from profiles.catalog.prices import Price
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.methods import method
from profiles.schema import Quantity

_SHARES = (0.1, 0.3, 0.5, 0.7, 0.85, 1.0)
"""Rates that are simulated, as shares of the highest saturation rate of all arms."""

_SIMULATIONS = 12
"""How many an arm takes, about."""
_MOST_PLAIN = 15_000_000
"""Decode steps, summed over requests, that plain Python gets through in a few seconds."""


@dataclass(frozen=True)
class Arm:
    """One thing to plan for, before anything is simulated."""

    candidate: Candidate
    k: int
    role: Role
    schedule: tuple[Band, ...] | None
    model: EngineModel


@dataclass(frozen=True)
class Demand:
    """What the arms are planned for."""

    stream: Stream
    usual_rate_rps: float | None
    peak_rate_rps: float | None
    price: Price | None
    effort: Effort


def gpus_per_replica(situation: Situation) -> int:
    """GPUs of one engine; data parallel ones are replicas."""
    engine = situation.deployment.engine
    return engine.tensor_parallel_size * engine.pipeline_parallel_size


def arms_of(pricing: Pricing, choice: Choice, named: Sequence[tuple[str, int | None]], stream: Stream) -> list[Arm]:
    """The null candidate, the decision's, and those named; each once."""
    wanted: list[tuple[Candidate, int, Role, tuple[Band, ...] | None]] = [(NO_SPECULATION, 0, "null", None)]
    best = choice.best
    if best is not None and choice.blocked in ("", "slo"):
        role: Role = {True: "recommended", None: "undecided", False: "not recommended"}[  # type: ignore[assignment]
            choice.decision.enable]
        wanted.append((best.candidate, best.k, role, choice.decision.schedule))
    for label, k in named:
        candidate = next(c for c in (NO_SPECULATION, *pricing.candidates) if c.label == label)
        if method(candidate.method).drafter == "none":
            continue
        cell = best_cell(pricing, pricing.running, (candidate,))
        chosen = k if k is not None else (cell.k if cell is not None else candidate.k[0])
        if not any(c.label == label and at == chosen for c, at, _, _ in wanted):
            wanted.append((candidate, chosen, "named", None))
    return [
        Arm(c, k, role, schedule, engine_model(pricing, c, k, schedule, stream.prompt, stream.output))
        for c, k, role, schedule in wanted
        if c is NO_SPECULATION or pricing.allows(c, k)
    ]


def plan_arms(pricing: Pricing, arms: Sequence[Arm], demand: Demand) -> tuple[ArmPlan, ...]:
    """Every arm planned for at the same rates and with the same requests, the null candidate first."""
    stream = demand.stream
    # What fits into the smallest cache, so that all are asked the same.
    smallest = min((arm.model.kv_tokens for arm in arms if arm.model.kv_tokens is not None), default=None)
    if smallest is not None:
        room = smallest // 16 * 16 - max(max(arm.model.k_of) for arm in arms)
        stream = replace(stream, longest=min(room, stream.longest) if stream.longest is not None else room)
    demand = replace(demand, stream=stream)
    saturations = [saturated_rps(arm.model, stream, demand.effort) for arm in arms]
    grid = [share * max(saturations) for share in _SHARES]
    planned: list[ArmPlan] = []
    for arm, saturation in zip(arms, saturations, strict=True):
        found = _plan_arm(pricing, arm, saturation, grid, demand)
        planned.append(found if arm.role == "null" else _with_hurt(pricing, arm, found, planned[0]))
    return tuple(planned)


def within_reason(effort: Effort, arms: Sequence[Arm], stream: Stream) -> Effort:
    """The effort for a whole plan: compiled where that pays, and less of it where long outputs would take minutes of
    plain Python."""
    work = sum(
        _SIMULATIONS * requests_for(arm.model, stream, 0.5 * saturation_rps(arm.model, stream.mean), effort.times)
        * stream.mean.output_tokens / arm.model.acceptance_length(1)
        for arm in arms
    )
    compiled = effort.compiled if effort.compiled is not None else numba_installed() and work > COMPILED_FROM
    if compiled or work <= _MOST_PLAIN:
        return replace(effort, compiled=compiled)
    return replace(effort, times=effort.times * max(0.2, _MOST_PLAIN / work), compiled=False)


def _plan_arm(pricing: Pricing, arm: Arm, saturation: float, grid: Sequence[float], demand: Demand) -> ArmPlan:
    objective = pricing.situation.deployment.objective
    stream = demand.stream

    def at(rate: float) -> LoadPoint:
        return load_point(arm.model, stream, rate, demand.effort, saturation)

    def meets(point: LoadPoint) -> bool:
        return point.sustained and _within(point.ttft_ms, objective.ttft_ms) and _within(point.tpot_ms,
                                                                                        objective.tpot_ms)

    # Far beyond saturation there is nothing to see, and much to simulate.
    curve = tuple(at(rate) for rate in grid if rate <= 1.3 * saturation)
    highest = highest_rate(curve, at, meets, saturation)
    quantity = _with_interval(pricing, arm, stream, highest)
    per_replica = gpus_per_replica(pricing.situation)
    output = stream.mean.output_tokens
    usual, peak = demand.usual_rate_rps, demand.peak_rate_rps
    fleets = () if peak is None else tuple(
        fleet for growth in GROWTH
        if (fleet := fleet_for(growth, peak, usual, output, quantity, per_replica, demand.price)) is not None
    )
    at_usual = at_peak = None
    if fleets:
        shared = fleets[0].replicas
        at_peak = at(fleets[0].peak_rate_rps / shared)
        same = usual is None or math.isclose(usual, fleets[0].peak_rate_rps)
        at_usual = at_peak if same else at((usual or 0.0) / shared)
    contexts = _contexts(pricing, arm, stream)
    p95 = next((room.context_tokens for room in contexts if room.percentile == "p95"), None)
    kv = arm.model.kv_tokens
    headroom = None
    if kv is not None and at_peak is not None and p95 is not None:
        headroom = 1.0 - at_peak.running * p95 / kv
    return ArmPlan(
        label=arm.candidate.label,
        role=arm.role,
        k=arm.k,
        schedule=arm.schedule,
        acceptance_length=pricing.length(arm.candidate, arm.k),
        kv_tokens=kv,
        contexts=contexts,
        curve=curve,
        saturation_rate_rps=saturation,
        saturation_bound_rps=saturation_rps(arm.model, stream.mean),
        highest_rate_rps=quantity,
        limited_by=_limited_by(highest, curve, objective.ttft_ms, objective.tpot_ms),
        at_usual=at_usual,
        at_peak=at_peak,
        kv_headroom_at_p95=headroom,
        usd_per_million_output_tokens=usd_per_million(demand.price, per_replica, highest * output),
        fleets=fleets,
    )


def _within(value: float, limit: float | None) -> bool:
    return limit is None or value <= limit


def _limited_by(highest: float, curve: Sequence[LoadPoint], ttft: float | None, tpot: float | None
                ) -> Literal["ttft", "tpot", "throughput", "slo unreachable"]:
    """What the first simulated rate beyond the highest breaks."""
    if highest <= 0:
        return "slo unreachable"
    beyond = next((p for p in curve if p.arrival_rate_rps > highest * 1.001), None)
    if beyond is None or (_within(beyond.tpot_ms, tpot) and _within(beyond.ttft_ms, ttft)):
        return "throughput"
    return "ttft" if _within(beyond.tpot_ms, tpot) else "tpot"


def _with_interval(pricing: Pricing, arm: Arm, stream: Stream, highest: float) -> Quantity:
    """The highest rate with the interval that the uncertainty of step time and acceptance gives it: mean values say
    how far it moves with an engine that is so much slower or faster."""
    cell = pricing.at(arm.candidate, arm.k, pricing.running)
    base = log_sd_of(cell.baseline_step_ms.low, cell.baseline_step_ms.high)
    own = 0.0 if arm.role == "null" else log_sd_of(cell.speedup.low, cell.speedup.high)
    spread = math.exp(Z80 * math.hypot(base, own))
    objective = pricing.situation.deployment.objective

    def meets(seen: MeanValues) -> bool:
        return _within(seen.ttft_ms, objective.ttft_ms) and _within(seen.tpot_ms, objective.tpot_ms)

    slower = rate_ratio(arm.model, stream, spread, meets)
    faster = rate_ratio(arm.model, stream, 1.0 / spread, meets)
    source = cell.tokens_per_s.source
    return Quantity(value=highest, low=highest * min(1.0, slower), high=highest * max(1.0, faster), source=source,
                    note="step time and acceptance; 80 %")


def _contexts(pricing: Pricing, arm: Arm, stream: Stream) -> tuple[ContextRoom, ...]:
    """Requests at once, at the mean and the percentiles of the lengths: a percentile's prompt with its output."""
    import numpy as np

    lengths: dict[str, float] = {"mean": stream.mean.prompt_tokens + stream.mean.output_tokens}
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        if stream.trace is not None:
            lengths[name] = float(np.quantile(stream.trace.prompt_tokens + stream.trace.output_tokens, q))
        else:
            lengths[name] = length_quantile(stream.prompt, q) + length_quantile(stream.output, q)
    most, loaded = arm.model.max_num_seqs, max(arm.model.k_of)
    rooms = []
    for name, tokens in lengths.items():
        held = min(tokens, float(stream.longest)) if stream.longest is not None else tokens
        plan = plan_memory(pricing.situation, arm.candidate, loaded, tokens=held)
        room = plan.max_concurrency_without if arm.candidate.method == "none" else plan.max_concurrency_with
        room = None if room is None else min(float(most), room)
        rooms.append(ContextRoom(percentile=name, context_tokens=held, max_concurrency=room))
    return tuple(rooms)


def _with_hurt(pricing: Pricing, arm: Arm, found: ArmPlan, null: ArmPlan) -> ArmPlan:
    """Where a candidate starts to hurt, and the schedule that avoids it."""
    cross = crossover(pricing, arm.candidate)
    honoured, note = schedule_honoured(pricing, arm.candidate)
    schedule = arm.schedule or build_schedule(pricing, arm.candidate, arm.k, cross)
    return found.model_copy(update={
        "hurts_from_running": cross,
        "hurts_from_rate_rps": _crossing(null.curve, found.curve),
        "avoiding_schedule": schedule,
        "schedule_note": "" if honoured else note,
    })


def _crossing(null: Sequence[LoadPoint], own: Sequence[LoadPoint]) -> float | None:
    """The first rate from which on a request takes longer with the candidate, between simulated rates by the
    logarithm of the ratio; None where it never does while both keep up."""
    base = {point.arrival_rate_rps: point for point in null if point.latency_s > 0}
    ratios = [(p.arrival_rate_rps, math.log(p.latency_s / base[p.arrival_rate_rps].latency_s)) for p in own
              if p.latency_s > 0 and p.arrival_rate_rps in base and (p.sustained or base[p.arrival_rate_rps].sustained)]
    if ratios and all(ratio > 0 for _, ratio in ratios):
        return ratios[0][0]
    last = None
    for (low, before), (high, after) in itertools.pairwise(ratios):
        if before <= 0 < after:
            last = low + (high - low) * before / (before - after)
        elif before > 0 >= after:
            last = None
    return last
