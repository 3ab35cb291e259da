"""Speed-up against load, a line for each k."""

from __future__ import annotations

from advisor.record import Record
from advisor.report.charts.frame import MOST_LINES, SHAPES, Spec, framed, tooltip
from advisor.report.content import crossover_of, crossover_words
from advisor.report.curves import Curve, stated
from advisor.report.wording import chance_words, percent, requests, span, times
from advisor.spoken_figures import source_said


def load_chart(record: Record, curve: Curve) -> Spec | None:
    """Speed-up against load, a line for each k with its interval, break-even, the worthwhile gain and the crossover."""
    ks = curve.shown_ks(MOST_LINES)
    rows: list[Spec] = [
        {
            "load": load,
            "k": f"k={k}",
            "speedup": cell.speedup.value,
            "low": cell.speedup.value if cell.speedup.low is None else cell.speedup.low,
            "high": cell.speedup.value if cell.speedup.high is None else cell.speedup.high,
            "words": times(cell.speedup.value),
            "interval": span(cell.speedup.low, cell.speedup.high),
            "chance": percent(cell.probability_of_gain),
            "source": source_said(cell.speedup.source, cell.from_trial),
        }
        for load in curve.loads
        for k in ks
        if (cell := curve.at(load, k)) is not None
    ]
    head = curve.headline
    if not rows or head is None:
        return None
    names = [f"k={k}" for k in ks]
    colors = [f"var(--k{index})" for index in range(len(ks))]
    colors[ks.index(head.k)] = "var(--accent)"
    gain = record.deployment.objective.worthwhile_gain
    pick = f"k={head.k}"
    x_domain = [min(curve.loads) * 0.93, max(curve.loads) * 1.12]
    crossover = crossover_of(record, curve)
    # The lines are named at the end where the curves are further from them.
    far = [
        max(abs(r["speedup"] - 1.0) for r in rows if r["load"] == load) for load in (curve.loads[0], curve.loads[-1])
    ]
    quiet = (x_domain[0], "left") if far[0] >= far[1] else (x_domain[1], "right")
    x = {
        "field": "load",
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "domain": x_domain, "nice": False},
        "axis": {
            "values": list(curve.loads),
            "format": "d",
            "title": "load (running requests)",
            "grid": False,
            "labelOverlap": True,
        },
    }
    y = {
        "type": "quantitative",
        "scale": {"zero": False, "nice": True},
        "axis": {"title": "speed-up, end to end", "format": ".2~f"},
    }
    color = {"field": "k", "type": "nominal", "scale": {"domain": names, "range": colors}, "sort": names}
    shape = {"field": "k", "type": "nominal", "scale": {"domain": names, "range": SHAPES[: len(ks)]}, "sort": names}
    picked = {"param": "pick", "empty": True}
    marks: list[Spec] = [
        {
            "mark": {"type": "area", "interpolate": "monotone", "line": False, "tooltip": None},
            "encoding": {
                "y": {**y, "field": "low"},
                "y2": {"field": "high"},
                "color": color,
                "fillOpacity": {"condition": {**picked, "value": 0.2}, "value": 0.0},
            },
        },
        {
            "mark": {"type": "line", "interpolate": "monotone", "tooltip": None},
            "encoding": {
                "y": {**y, "field": "speedup"},
                "color": color,
                "strokeWidth": {"condition": {**picked, "value": 3}, "value": 1.75},
            },
        },
        {
            "params": [
                {"name": "pick", "select": {"type": "point", "fields": ["k"]}, "bind": "legend", "value": [{"k": pick}]}
            ],
            "mark": {"type": "point", "filled": True, "opacity": 1},
            "encoding": {
                "y": {**y, "field": "speedup"},
                "color": color,
                "shape": shape,
                "size": {"condition": {**picked, "value": 70}, "value": 34},
                "tooltip": tooltip(
                    load="load",
                    k="k",
                    words="speed-up",
                    interval="80 % interval",
                    chance=chance_words(record),
                    source="source",
                ),
            },
        },
    ]
    lines = [
        _level(1.0, "break-even", "var(--ink)", [], *quiet),
        *([_level(1.0 + gain, f"worthwhile, +{percent(gain)}", "var(--good)", [5, 4], *quiet)] if gain else []),
        _mark_load(record.decision.running, "decided for", "var(--soft)", [2, 3], "bottom", x_domain),
    ]
    if crossover is not None and crossover != min(curve.loads):
        lines.append(_mark_load(crossover, "crossover", "var(--bad)", [6, 3], "top", x_domain))
    # Rules under the curves, their names over them.
    layers = [rule for line in lines for rule in line[:1]] + marks + [text for line in lines for text in line[1:]]
    for layer in layers:
        encoding = {"x": x, **layer["encoding"]}
        layer["encoding"] = {channel: value for channel, value in encoding.items() if value is not None}
    return framed(
        340,
        load_sentence(record, curve),
        data={"values": rows},
        layer=layers,
        # The three marks share one legend; the reference lines keep their own colours.
        resolve={"scale": {"color": "shared"}},
    )


def _named(data: Spec, rule: Spec, label: Spec, color: str, line: Spec, place: Spec) -> list[Spec]:
    """A reference line and its name; the name is drawn on a halo of paper, to stay readable where curves cross it."""
    text = {"type": "text", "tooltip": None, **label}
    encoding = {**place, "text": {"field": "words"}}
    return [
        {"data": data, "mark": {"type": "rule", "stroke": color, "strokeWidth": 1.25, **rule}, "encoding": line},
        {
            "data": data,
            "mark": {**text, "stroke": "var(--paper)", "strokeWidth": 4, "strokeJoin": "round"},
            "encoding": encoding,
        },
        {"data": data, "mark": {**text, "fill": color}, "encoding": encoding},
    ]


def _level(value: float, words: str, color: str, dash: list[int], load: float, side: str) -> list[Spec]:
    """A horizontal line at a speed-up, named at one end."""
    data = {"values": [{"level": value, "load": load, "words": words}]}
    y = {"field": "level", "type": "quantitative"}
    label = {
        "align": side,
        "dx": 6 if side == "left" else -6,
        "baseline": "bottom" if dash else "top",
        "dy": -4 if dash else 5,
    }
    return _named(data, {"strokeDash": dash}, label, color, {"x": None, "y": y}, {"y": y})


def _mark_load(load: int, words: str, color: str, dash: list[int], where: str, domain: list[float]) -> list[Spec]:
    """A vertical line at a load, named at the top or the bottom; nothing where it is outside the loads looked at."""
    if not domain[0] <= load <= domain[1]:
        return []
    far = load > (domain[0] * domain[1]) ** 0.5
    label = {
        "align": "right" if far else "left",
        "dx": -6 if far else 6,
        "baseline": where,
        "dy": 2 if where == "top" else -4,
    }
    edge = {"value": 0} if where == "top" else {"value": "height"}
    return _named({"values": [{"load": load, "words": words}]}, {"strokeDash": dash}, label, color, {}, {"y": edge})


def load_sentence(record: Record, curve: Curve) -> str:
    """What the load chart shows, in words."""
    head, spoken = curve.headline, stated(record, curve)
    if head is None or spoken is None:
        return ""
    interval = span(spoken.low, spoken.high)
    words = f"At {requests(head.running)}, k = {head.k} gives {times(spoken.value)} ({interval})"
    most = curve.largest(curve.decided_load)
    if most is not None and round(most.speedup.value, 2) > round(head.speedup.value, 2):
        words += (f"; k = {most.k} has a larger estimate, {times(most.speedup.value)} (less sure, no more than noise "
                  "apart, or warned of by the checklist)")
    return f"{words}. Crossover: {crossover_words(record, curve)}."
