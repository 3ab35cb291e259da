"""Per-position acceptance of each candidate."""

from __future__ import annotations

from advisor.record import Record
from advisor.report.charts.frame import MOST_LINES, Spec, by_name, framed, line_with_points, tooltip
from advisor.report.curves import Curve
from advisor.report.tables import found_words
from advisor.report.wording import distinct, percent, plain


def position_chart(record: Record, found: tuple[Curve, ...]) -> Spec | None:
    """Per-position acceptance of each candidate with its interval."""
    labels = [curve.label for curve in found if curve.label in record.per_position]
    labels = (labels + [label for label in record.per_position if label not in labels])[:MOST_LINES]
    names = distinct([plain(label) for label in labels])
    rows = [
        {
            "candidate": name,
            "position": index + 1,
            "accepted": q.value,
            "low": q.value if q.low is None else max(0.0, q.low),
            "high": q.value if q.high is None else min(1.0, q.high),
            "words": percent(q.value),
            "interval": "–" if q.low is None or q.high is None else f"{100 * q.low:.0f}–{100 * q.high:.0f} %",
            "source": q.source.value,
        }
        for name, label in zip(names, labels, strict=True)
        for index, q in enumerate(record.per_position[label])
    ]
    if not rows:
        return None
    color, shape = by_name("candidate", names)
    x = {
        "field": "position",
        "type": "ordinal",
        "axis": {"title": "position in the draft", "labelAngle": 0, "grid": False},
    }
    y = {
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "axis": {"title": "share of steps accepted so far", "format": ".0%", "tickCount": 5},
    }
    return framed(
        260,
        position_sentence(record, found),
        data={"values": rows},
        encoding={"x": x},
        layer=[
            {
                "mark": {"type": "area", "fillOpacity": 0.16, "tooltip": None},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": color},
            },
            *line_with_points(
                {"y": {**y, "field": "accepted"}, "color": color},
                shape,
                tooltip(
                    candidate="candidate",
                    position="position",
                    words="accepted",
                    interval="80 % interval",
                    source="source",
                ),
            ),
        ],
    )


def position_sentence(record: Record, found: tuple[Curve, ...]) -> str:
    """What the acceptance chart shows, in words."""
    label = next((c.label for c in found if c.label in record.per_position), next(iter(record.per_position), ""))
    positions = record.per_position.get(label, ())
    if not positions:
        return ""
    found_at_all = found_words(record, label)
    words = f"{plain(label)}: " + (
        found_at_all or f"{percent(positions[0].value)} of drafts have their first token accepted")
    if len(positions) > 1:
        words += f", {percent(positions[-1].value)} all {len(positions)}" + (" (of all steps)" if found_at_all else "")
    words += "".join(f"; {plain(other)}: {said}" for other in record.per_position
                     if other != label and (said := found_words(record, other)))
    return words + "."
