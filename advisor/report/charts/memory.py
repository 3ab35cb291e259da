"""The memory of one GPU, without and with speculation."""

from __future__ import annotations

from advisor.record import Memory
from advisor.report.charts.frame import Spec, framed, stacked_bars, tooltip
from advisor.report.tables import memory_parts
from advisor.report.wording import gib

COLORS = {
    "target weights": "var(--p-target)",
    "draft weights": "var(--p-draft)",
    "overhead": "var(--p-overhead)",
    "KV cache": "var(--p-kv)",
    "not usable": "var(--p-rest)",
    "not used": "var(--p-rest)",
}


def memory_chart(memory: Memory, alone: bool = False) -> Spec | None:
    """One GPU's memory without and with the draft; `alone`: no candidate can run, so there is no bar with one."""
    bars = memory_parts(memory, alone)
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
                    "label": gib(part.gib) if wide and COLORS[part.name] != COLORS["not usable"] else "",
                }
            )
            start += part.gib
    shown = {part.name for part in bars[0][1]}
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, whole], "nice": False},
        "axis": {"title": "GiB of one GPU", "tickCount": 8},
    }
    named, layer = stacked_bars(
        "bar",
        [name for name, _ in bars],
        x,
        {part: color for part, color in COLORS.items() if part in shown},
        tooltip(bar="speculation", part="part", words="size"),
    )
    return framed(
        110,
        "Memory of one GPU without speculation." if alone else "Memory of one GPU without and with speculation.",
        data={"values": rows},
        layer=[
            layer,
            {
                "mark": {"type": "text", "fill": "var(--on-part)", "fontWeight": 600, "tooltip": None},
                "encoding": {"y": named, "x": {**x, "field": "middle"}, "text": {"field": "label"}},
            },
        ],
    )
