"""The tables of a capacity plan as the report shows it; `specadvise plan` prints the whole."""

from __future__ import annotations

from advisor.capacity.document import CapacityPlan
from advisor.capacity.words import AT_ITS_OWN_LOAD, full_name, rates_said, why_k
from advisor.report.tables import Table
from advisor.report.wording import number, percent, plain


def latency_table(plan: CapacityPlan) -> Table:
    """Every simulated rate of every arm: first token, output token, throughput."""
    rows = [
        (
            full_name(arm),
            f"{point.arrival_rate_rps:.3g}",
            *(
                (number(point.ttft_ms), number(point.ttft_p95_ms), number(point.tpot_ms), number(point.tpot_p95_ms))
                if point.sustained
                else ("queue grows", "–", "–", "–")
            ),
            number(point.output_tokens_per_s),
            number(point.running),
        )
        for arm in plan.arms
        for point in arm.curve
    ]
    columns = ("arm", "requests/s", "TTFT ms", "p95", "TPOT ms", "p95 ", "output tokens/s", "running")
    return Table(columns, tuple(rows), frozenset(range(1, len(columns))))


def fleet_table(plan: CapacityPlan) -> Table:
    """Replicas, GPUs and money of every arm, by growth of the peak."""
    rows = [
        (
            full_name(arm),
            f"{fleet.growth:g}",
            f"{fleet.replicas}",
            f"{fleet.replicas_low}–{fleet.replicas_high}",
            number(fleet.gpus),
            "–" if fleet.usd_per_month is None else f"${fleet.usd_per_month:,.0f}",
            "–" if fleet.usd_per_million_output_tokens is None else f"${fleet.usd_per_million_output_tokens:.3g}",
            percent(fleet.headroom),
        )
        for arm in plan.arms
        for fleet in arm.fleets
    ]
    columns = ("arm", "times the peak", "replicas", "80 % interval", "GPUs", "a month", "a million output tokens",
               "left free")
    return Table(columns, tuple(rows), frozenset(range(1, len(columns))))


def capacity_notes(plan: CapacityPlan) -> tuple[str, ...]:
    """What the plan could not answer, why each arm has its k, what it warns of, assumes, and rests on."""
    said = [f"{part.about}: not answered, because {part.why}; what would: {part.would_settle}"
            for part in plan.abstained]
    said += [f"{full_name(arm)}: {why_k(arm)}" for arm in plan.arms if arm.role != "null"]
    said += [AT_ITS_OWN_LOAD] if plan.arms[1:] else []
    said += [rates] if (rates := rates_said(plan)) else []
    said += [*plan.warnings, *plan.assumptions]
    said += [f"price: {plan.price}", f"step times: {plan.cost_source}",
             f"a simulation of continuous batching, seed {plan.seed}; replicas share arrivals evenly"]
    return tuple(plain(text) for text in said)
