"""A capacity plan: latencies against the arrival rate of one replica, and the fleet against growth."""

from __future__ import annotations

from typing import Literal

from advisor.capacity.document import ArmPlan, CapacityPlan
from advisor.capacity.words import full_name
from advisor.report.charts.frame import MOST_LINES, Spec, by_name, framed, line_with_points, tooltip
from advisor.report.wording import distinct, number

Latency = Literal["ttft_ms", "tpot_ms"]
TITLES: dict[Latency, str] = {"ttft_ms": "time to first token", "tpot_ms": "time per output token"}


def latency_chart(plan: CapacityPlan, what: Latency) -> Spec | None:
    """Mean and p95 of a latency against the arrival rate of one replica, where the engine keeps up, and the SLO."""
    arms = plan.arms[:MOST_LINES]
    names = _names(arms)
    rows: list[Spec] = [
        {
            "arm": name,
            "rate": point.arrival_rate_rps,
            "at": number(point.arrival_rate_rps),
            "mean": getattr(point, what),
            "p95": getattr(point, what.replace("_ms", "_p95_ms")),
            "words": f"{number(getattr(point, what))} ms",
            "high": f"{number(getattr(point, what.replace('_ms', '_p95_ms')))} ms",
            "running": number(point.running),
        }
        for name, arm in zip(names, arms, strict=True)
        for point in arm.curve
        if point.sustained
    ]
    if not rows:
        return None
    slo = getattr(plan, what)
    x = {"field": "rate", "type": "quantitative", "axis": {"title": "requests per second, one replica", "grid": False}}
    y = {"type": "quantitative", "axis": {"title": f"{TITLES[what]}, ms", "tickCount": 5}}
    color, shape = by_name("arm", names)
    layer: list[Spec] = [
        {
            "mark": {"type": "line", "strokeWidth": 1.25, "strokeDash": [3, 3], "tooltip": None},
            "encoding": {"x": x, "y": {**y, "field": "p95"}, "color": color},
        },
        *line_with_points(
            {"x": x, "y": {**y, "field": "mean"}, "color": color},
            shape,
            tooltip(arm="arm", at="requests/s", words="mean", high="p95", running="running"),
        ),
    ]
    if slo is not None:
        mark = {"values": [{"slo": slo, "rate": min(r["rate"] for r in rows), "words": f"SLO {number(slo)} ms"}]}
        at = {"field": "slo", "type": "quantitative"}
        layer += [
            {
                "data": mark,
                "mark": {"type": "rule", "stroke": "var(--bad)", "strokeDash": [6, 3], "tooltip": None},
                "encoding": {"y": at},
            },
            {
                "data": mark,
                "mark": {"type": "text", "align": "left", "dy": -7, "fill": "var(--bad)", "tooltip": None},
                "encoding": {"x": x, "y": at, "text": {"field": "words"}},
            },
        ]
    return framed(240, latency_sentence(plan, what), data={"values": rows}, layer=layer)


def latency_sentence(plan: CapacityPlan, what: Latency) -> str:
    """What a latency chart shows, in words: every arm at the highest rate that all of them keep up with."""
    slo = getattr(plan, what)
    limit = f" The SLO is {number(slo)} ms." if slo is not None else ""
    kept = [{p.arrival_rate_rps: p for p in arm.curve if p.sustained} for arm in plan.arms]
    shared = set.intersection(*(set(points) for points in kept)) if kept else set()
    if not shared:
        return f"No rate that was simulated is one that every arm keeps up with.{limit}"
    rate = max(shared)
    said = [f"{full_name(arm)} {number(getattr(points[rate], what))} ms"
            for arm, points in zip(plan.arms, kept, strict=True)]
    highest = "" if len(plan.arms) == 1 else " and the highest simulated that every arm keeps up with"
    return (f"{TITLES[what].capitalize()} at {number(rate)} requests per second, of one replica{highest}, mean: "
            f"{'; '.join(said)}.{limit}")


def fleet_chart(plan: CapacityPlan) -> Spec | None:
    """Replicas against growth of the peak, with the interval of the highest rate."""
    arms = plan.arms[:MOST_LINES]
    names = _names(arms)
    rows: list[Spec] = [
        {
            "arm": name,
            "growth": f"{fleet.growth:g}",
            "order": fleet.growth,
            "replicas": fleet.replicas,
            "low": fleet.replicas_low,
            "high": fleet.replicas_high,
            "spread": f"{fleet.replicas_low} to {fleet.replicas_high}",
            "month": "–" if fleet.usd_per_month is None else f"${fleet.usd_per_month:,.0f}",
        }
        for name, arm in zip(names, arms, strict=True)
        for fleet in arm.fleets
    ]
    if not rows:
        return None
    color, _ = by_name("arm", names)
    x = {
        "field": "growth",
        "type": "ordinal",
        "sort": list(dict.fromkeys(row["growth"] for row in sorted(rows, key=lambda row: row["order"]))),
        "axis": {"title": "times the peak", "labelAngle": 0, "grid": False},
    }
    y = {"type": "quantitative", "axis": {"title": "replicas", "tickMinStep": 1, "format": "d"}}
    offset = {"field": "arm", "sort": names}
    return framed(
        240,
        fleet_sentence(plan),
        data={"values": rows},
        layer=[
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "x": x,
                    "xOffset": offset,
                    "y": {**y, "field": "replicas"},
                    "color": color,
                    "tooltip": tooltip(
                        arm="arm", growth="times the peak", replicas="replicas", spread="80 % interval", month="a month"
                    ),
                },
            },
            {
                "mark": {"type": "rule", "stroke": "var(--ink)", "tooltip": None},
                "encoding": {"x": x, "xOffset": offset, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
        ],
    )


def fleet_sentence(plan: CapacityPlan) -> str:
    """Replicas and money at the stated peak, in words."""
    said = []
    for arm in plan.arms:
        if arm.fleets:
            fleet = arm.fleets[0]
            money = "" if fleet.usd_per_month is None else f", ${fleet.usd_per_month:,.0f} a month"
            said.append(f"{full_name(arm)}: {fleet.replicas} ({fleet.replicas_low} to {fleet.replicas_high}){money}")
    if not said:
        return "How many replicas the peak takes is not answered."
    peak = plan.traffic.peak_rate_rps
    at = "" if peak is None else f" of {number(peak)} requests per second"
    return f"Replicas for the peak{at}: {'; '.join(said)}."


def left_out(plan: CapacityPlan) -> str:
    """What of a plan its charts do not draw; empty where they draw it all."""
    return "" if len(plan.arms) <= MOST_LINES else (
        f" The chart draws the first {MOST_LINES} of {len(plan.arms)}, the table has all.")


def _names(arms: tuple[ArmPlan, ...]) -> list[str]:
    return distinct([full_name(arm) for arm in arms])
