"""What draft would pay: speed-up over draft size and acceptance length."""

from __future__ import annotations

from advisor.record import Record
from advisor.report.charts.frame import Spec, framed, tooltip
from advisor.report.drafts import draft_map_sentence, row_name
from advisor.report.wording import times

_CLASSES = ("loses", "below the gain wanted", "pays")


def draft_chart(record: Record) -> Spec | None:
    """A tile for each draft and acceptance length, coloured by what it would do here; None without a map."""
    found = record.draft_map
    if found is None or not any(row.fits for row in found.rows):
        return None
    wanted = 1.0 + record.deployment.objective.worthwhile_gain
    rows = [
        {
            "draft": row_name(row),
            "length": f"{length:g}",
            "speedup": speed,
            "label": f"{speed:.2f}",
            "words": times(speed),
            "k": k,
            "verdict": _CLASSES[0] if speed <= 1.0 else _CLASSES[1] if speed < wanted else _CLASSES[2],
        }
        for row in found.rows
        for length, speed, k in zip(found.acceptance_lengths, row.speedup, row.k, strict=True)
        if speed is not None
    ]
    order = [row_name(row) for row in found.rows]
    x = {
        "field": "length",
        "type": "ordinal",
        "sort": [f"{length:g}" for length in found.acceptance_lengths],
        "axis": {"title": f"acceptance length at k={found.reference_k}", "labelAngle": 0, "grid": False},
    }
    y = {"field": "draft", "type": "ordinal", "sort": order, "axis": {"title": None, "grid": False, "labelLimit": 220}}
    return framed(
        34 * len(order) + 60,
        draft_map_sentence(found),
        data={"values": rows},
        encoding={"x": x, "y": y},
        layer=[
            {
                "mark": {"type": "rect", "stroke": "var(--paper)", "strokeWidth": 2},
                "encoding": {
                    "color": {
                        "field": "verdict",
                        "type": "nominal",
                        "sort": list(_CLASSES),
                        "scale": {
                            "domain": list(_CLASSES),
                            "range": ["var(--p-draft)", "var(--p-overhead)", "var(--p-kv)"],
                        },
                    },
                    "tooltip": tooltip(draft="draft", length="acceptance length", words="speed-up", k="best k"),
                },
            },
            {
                "mark": {"type": "text", "fill": "var(--on-part)", "fontWeight": 600, "tooltip": None},
                "encoding": {"text": {"field": "label"}},
            },
        ],
    )
