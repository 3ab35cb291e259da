"""The plan: what the null candidate, the recommended one and any named ones mean in rates, GPUs and money."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from advisor.capacity.arms import Demand, arms_of, gpus_per_replica, plan_arms, within_reason
from advisor.capacity.arrivals import Arrivals, length_quantile, log_sd_of_lengths
from advisor.capacity.document import Abstention, ArmPlan, CapacityPlan, Traffic, Variant
from advisor.capacity.rates import DEFAULT_EFFORT, Effort, Stream
from advisor.cost.machine import engine_limits
from advisor.decision import decide
from advisor.prediction import Pricing, price
from advisor.saturation import full_replica_sentence
from advisor.situation import Situation
from advisor.workload_load import ASSUMED
from profiles.catalog.prices import PriceTable
from profiles.deployment import NO_SPECULATION
from profiles.workload import Lengths


@dataclass(frozen=True)
class Question:
    """What is asked besides the situation."""

    prices: PriceTable
    peak_rate_rps: float | None = None
    """Requests per second of the whole deployment at its busiest time; None takes it from the workload."""
    usual_rate_rps: float | None = None
    """Stated where it is known already; None takes it from the workload."""
    burstiness: float = 1.0
    named: tuple[tuple[str, int | None], ...] = ()
    """Labels of further candidates, each with its k or None for the best one."""
    trace: Arrivals | None = None
    trace_name: str = ""
    effort: Effort = DEFAULT_EFFORT


@dataclass(frozen=True)
class _Rates:
    usual: float | None
    peak: float | None
    assumptions: tuple[str, ...]
    abstained: tuple[Abstention, ...]


def capacity_plan(situation: Situation, question: Question) -> CapacityPlan:
    """The plan for one situation, without what-ifs. The same arguments always give the same plan.

    Parts that the inputs cannot carry are left out and named in `abstained`; `arms` is empty where nothing can be
    simulated.
    """
    pricing = price(situation)
    choice = decide(pricing)
    limits = engine_limits(situation)
    deployment = situation.deployment
    stream = _stream(pricing, question)
    price_found = question.prices.of(situation.gpu.name if situation.gpu is not None else situation.runner)
    rates = _rates(pricing, question)
    abstained = [*rates.abstained]
    said: list[str] = []
    unknown_hardware = situation.gpu is None and situation.runner != "cpu"
    cannot = _cannot_run(pricing, stream, unknown_hardware)
    if cannot is not None:
        abstained = [cannot]
        arms: tuple[ArmPlan, ...] = ()
    else:
        wanted = arms_of(pricing, choice, question.named, stream)
        effort = within_reason(question.effort, wanted, stream)
        arms = plan_arms(pricing, wanted, Demand(stream, rates.usual, rates.peak, price_found, effort))
        if effort.times < question.effort.times:
            said.append(f"{100 * effort.times / question.effort.times:.0f} % of the usual requests are simulated: so "
                        "long outputs take plain Python minutes, and seconds with the extra `plan` (numba)")
    if price_found is None and arms:
        abstained.append(Abstention(
            about="money", why="the price table has no price for this hardware",
            would_settle="--prices FILE, or --price USD for one GPU and hour",
        ))
    best = choice.best
    taken = choice.decision.enable is True and best is not None
    return CapacityPlan(
        target=situation.target.id,
        gpu=situation.gpu.name if situation.gpu is not None else ("cpu" if situation.runner == "cpu" else "unknown"),
        gpus_per_replica=gpus_per_replica(situation),
        vllm_version=situation.release.version,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        traffic=Traffic(
            usual_rate_rps=rates.usual, peak_rate_rps=rates.peak, prompt_tokens=stream.mean.prompt_tokens,
            output_tokens=stream.mean.output_tokens, prefix_cache_hit_rate=stream.cached_share,
            burstiness=question.burstiness, source=question.trace_name if question.trace is not None else "process",
        ),
        ttft_ms=deployment.objective.ttft_ms,
        tpot_ms=deployment.objective.tpot_ms,
        recommended=best.label if taken and best is not None else "none",
        decided=choice.decision.enable is not None,
        price=price_found.described if price_found is not None else "none",
        arms=arms,
        abstained=tuple(abstained),
        assumptions=(*pricing.assumptions, *rates.assumptions, *_length_assumptions(stream), *said, *situation.notes),
        warnings=tuple(_warnings(pricing, stream, [label for label, _ in question.named], arms)),
        cost_source=pricing.cost.description,
        seed=question.effort.seed,
    )


def variant_of(plan: CapacityPlan, change: str, notes: Sequence[str]) -> Variant:
    """A plan made for a changed situation, as a what-if of another."""
    return Variant(change=change, recommended=plan.recommended, arms=plan.arms, gpus_per_replica=plan.gpus_per_replica,
                   price=plan.price, notes=tuple(notes), abstained=plan.abstained)


# --- traffic -------------------------------------------------------------------------------------------------------
def _lengths(pricing: Pricing, kind: Literal["prompt_tokens", "output_tokens"]) -> Lengths:
    """The stated lengths with their percentiles, else the recorded ones, else the mean the prices are made for."""
    situation = pricing.situation
    recorded = next((e.requests for e in reversed(situation.evidence) if e.requests is not None), None)
    mean = pricing.traffic.prompt_tokens if kind == "prompt_tokens" else pricing.traffic.output_tokens
    for found in (getattr(situation.deployment.workload, kind), getattr(recorded, kind, None),
                  getattr(situation.server, kind, None)):
        if isinstance(found, Lengths):
            return found
    return Lengths(mean=mean)


def _stream(pricing: Pricing, question: Question) -> Stream:
    traffic, engine = pricing.traffic, pricing.situation.deployment.engine
    share = 1.0 - traffic.uncached_prompt_tokens / traffic.prompt_tokens
    trace = question.trace
    if trace is not None and share > 0:
        trace = replace(trace, cached_tokens=(trace.prompt_tokens * share).astype(trace.prompt_tokens.dtype))
    # Rope scaling among the further options may stretch the window that the target was trained for.
    window = pricing.situation.target.max_position_embeddings if not engine.extra_args else None
    return Stream(
        _lengths(pricing, "prompt_tokens"), _lengths(pricing, "output_tokens"), cached_share=share,
        burstiness=question.burstiness, trace=trace, longest=engine.max_model_len or window,
    )


def _length_assumptions(stream: Stream) -> list[str]:
    if stream.trace is not None:
        return []
    bare = [name for name, lengths in (("prompt", stream.prompt), ("output", stream.output))
            if log_sd_of_lengths(lengths) is None]
    if not bare:
        return []
    return [f"{' and '.join(bare)} lengths are known as a mean only: they are assumed log-normal, with a p95 of about "
            "2.5 times the mean"]


def _rates(pricing: Pricing, question: Question) -> _Rates:
    """Usual and peak arrivals of the whole deployment: stated, recorded, or by Little's law from the concurrency."""
    workload = pricing.situation.deployment.workload
    recorded = next((e.requests for e in reversed(pricing.situation.evidence) if e.requests is not None), None)
    assumptions: list[str] = []
    server = pricing.situation.server
    usual = question.usual_rate_rps or workload.arrival_rate_rps
    if usual is None and question.trace is not None and math.isfinite(question.trace.rate_rps):
        usual = question.trace.rate_rps
    if usual is None and workload.concurrency is None:
        if server is not None and server.request_rate_rps is not None and server.request_rate_rps.value > 0:
            usual = server.request_rate_rps.value
            assumptions.append(f"{usual:.3g} requests per second, as the server shows (recorded)")
        elif recorded is not None and recorded.arrival_rate_rps:
            usual = recorded.arrival_rate_rps
            assumptions.append(f"{usual:.3g} requests per second, as recorded")
    if usual is None:
        assumed = pricing.traffic.sources.get("concurrency") == ASSUMED
        if assumed and question.peak_rate_rps is None:
            return _Rates(None, None, (), (Abstention(
                about="replicas, GPUs and money per month",
                why="nothing states how many requests arrive",
                would_settle="workload.arrival_rate_rps or workload.concurrency in the deployment, --peak, or evidence "
                             "of recorded requests",
            ),))
        if not assumed:
            # More than fit wait, and those that wait do not arrive any faster.
            each = min(float(pricing.running), pricing.limit(NO_SPECULATION))
            running = each * pricing.situation.deployment.engine.data_parallel_size
            running = min(running, pricing.traffic.running or running)
            usual = running / (pricing.request(NO_SPECULATION, 0, each).total_ms / 1000.0)
            assumptions.append(f"{running:g} running {'request is' if running == 1 else 'requests are'} {usual:.3g} "
                               "arriving per second without speculation (modelled, by Little's law)")
    peak = question.peak_rate_rps
    if peak is None and usual is not None:
        ratio = _peak_to_mean(pricing)
        if ratio is not None:
            assumptions.append(f"no peak is stated: {ratio:.2f} times the usual rate is assumed, as the p95 of "
                               "concurrency is to its mean")
        else:
            assumptions.append("no peak is stated (--peak): the usual rate is assumed for it")
        peak = usual * (ratio or 1.0)
    return _Rates(usual, peak, tuple(assumptions), ())


def _peak_to_mean(pricing: Pricing) -> float | None:
    """How many times the mean the p95 of concurrency is: stated or recorded; None where neither."""
    workload = pricing.situation.deployment.workload
    recorded = next((e.requests for e in reversed(pricing.situation.evidence) if e.requests is not None), None)
    if workload.concurrency_p95 and pricing.traffic.running:
        return max(1.0, workload.concurrency_p95 / pricing.traffic.running)
    seen = recorded.concurrency if recorded is not None else {}
    mean, p95 = seen.get("mean"), seen.get("p95")
    if isinstance(mean, (int, float)) and isinstance(p95, (int, float)) and mean > 0:
        return max(1.0, float(p95) / float(mean))
    return None


def _cannot_run(pricing: Pricing, stream: Stream, unknown_hardware: bool) -> Abstention | None:
    """Why nothing can be simulated at all; None where something can."""
    if unknown_hardware:
        return Abstention(about="everything", why="the hardware is unknown, so that any step time would be a guess",
                          would_settle="hardware.gpu in the deployment, or a trial on this machine")
    memory = pricing.plan(NO_SPECULATION, 0)
    if memory.target_fits is False:
        return Abstention(about="everything", why="the target with the KV of one request does not fit into the memory",
                          would_settle="more GPUs (tensor_parallel_size), a smaller target, or a quantized one")
    longest = stream.longest
    if longest is not None and longest < stream.mean.prompt_tokens + stream.mean.output_tokens:
        return Abstention(
            about="everything",
            why=f"mean prompt and output are {stream.mean.prompt_tokens + stream.mean.output_tokens:.0f} tokens, "
                f"the engine takes {longest} in one request",
            would_settle="a max_model_len that the workload's requests fit into",
        )
    return None


def _warnings(pricing: Pricing, stream: Stream, named: Sequence[str], arms: Sequence[ArmPlan]) -> list[str]:
    planned = {arm.label for arm in arms}
    found = [f"{label} is not planned for: {pricing.unusable.get(label, 'it does not fit into the memory')}"
             for label in named if arms and label not in planned]
    if pricing.capped:
        found.append(pricing.capped)
    full = full_replica_sentence(pricing) if arms else None
    found += [full] if full is not None else []
    smallest = min((arm.kv_tokens for arm in arms if arm.kv_tokens is not None), default=None)
    longest = length_quantile(stream.prompt, 0.99) + length_quantile(stream.output, 0.99)
    if smallest is not None and smallest < longest:
        found.append(f"a KV cache of {smallest} tokens does not hold the longest requests (p99: {longest:.0f} tokens): "
                     "they are cut to it")
    if arms and pricing.plan(NO_SPECULATION, 0).kv_tokens_without is None:
        found.append("the room of the KV cache is unknown: the simulation does not limit it")
    return found

