"""The memory of one GPU, without and with speculation."""

from __future__ import annotations

from advisor.record import Memory
from advisor.report.charts.frame import Spec, framed
from advisor.report.tables import memory_parts
from advisor.report.wording import gib


def memory_chart(memory: Memory) -> Spec | None:
    """One GPU's memory without and with the draft."""
    bars = memory_parts(memory)
    if not bars:
        return None
    rows = []
    whole = max((sum(part.gib for part in parts) for _, parts in bars), default=0.0)
    for name, parts in bars:
        start = 0.0
        for part in parts:
            wide = whole > 0 and part.gib / whole > 0.09
            rows.append(
                {
                    "bar": name,
                    "part": part.name,
                    "from": start,
                    "to": start + part.gib,
                    "middle": start + part.gib / 2,
                    "words": gib(part.gib),
                    "label": gib(part.gib) if wide and part.name != "not usable" else "",
                }
            )
            start += part.gib
    parts_shown = [part.name for part in bars[0][1]]
    colors = ["var(--p-target)", "var(--p-draft)", "var(--p-overhead)", "var(--p-kv)", "var(--p-rest)"][
        : len(parts_shown)
    ]
    y = {
        "field": "bar",
        "type": "nominal",
        "sort": ["without", "with"],
        "scale": {"paddingInner": 0.3},
        "axis": {"title": None, "domain": False, "ticks": False, "labelPadding": 6, "labelColor": "var(--ink)"},
    }
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, whole], "nice": False},
        "axis": {"title": "GiB of one GPU", "tickCount": 8},
    }
    return framed(
        110,
        "Memory of one GPU without and with speculation.",
        data={"values": rows},
        layer=[
            {
                "mark": {"type": "bar", "stroke": "var(--paper)", "strokeWidth": 1},
                "encoding": {
                    "y": y,
                    "x": {**x, "field": "from"},
                    "x2": {"field": "to"},
                    "color": {
                        "field": "part",
                        "type": "nominal",
                        "scale": {"domain": parts_shown, "range": colors},
                        "sort": parts_shown,
                    },
                    "tooltip": [
                        {"field": "bar", "title": "speculation"},
                        {"field": "part", "title": "part"},
                        {"field": "words", "title": "size"},
                    ],
                },
            },
            {
                "mark": {"type": "text", "fill": "var(--on-part)", "fontWeight": 600, "tooltip": None},
                "encoding": {"y": y, "x": {**x, "field": "middle"}, "text": {"field": "label"}},
            },
        ],
    )
