"""Where the time of a step goes, for each k."""

from __future__ import annotations

from advisor.report.charts.frame import Spec, framed, stacked_bars, tooltip
from advisor.report.curves import Curve
from advisor.report.wording import number, plain, requests


def step_chart(curve: Curve) -> Spec | None:
    """Draft, verify and overhead time of one step for each k at the decided load, and what a token then costs."""
    cells = [c for k in curve.shown_ks(8) if (c := curve.at(curve.decided_load, k)) is not None]
    if not cells:
        return None
    base = cells[0].baseline_step_ms.value
    bars = [("without", 0.0, base, 0.0, 1.0)]
    bars += [(f"k={c.k}", c.draft_ms, c.verify_ms, c.overhead_ms, c.acceptance_length.value) for c in cells]
    rows: list[Spec] = []
    ends: list[Spec] = []
    for name, draft, verify, overhead, length in bars:
        start = 0.0
        for part, size in (("draft", draft), ("verify", verify), ("overhead", overhead)):
            rows.append({"step": name, "part": part, "from": start, "to": start + size, "words": f"{size:.2f} ms"})
            start += size
        per_token = start / length if length > 0 else float("inf")
        ends.append({"step": name, "to": start, "words": f"{number(per_token)} step ms per token", "best": False})
    head = curve.headline
    for end in ends:
        end["best"] = head is not None and end["step"] == f"k={head.k}"
    most = max(sum(bar[1:4]) for bar in bars)
    x = {
        "type": "quantitative",
        # Room for the words beside the longest bar, whatever the width.
        "scale": {"domainMin": 0, "domainMax": {"expr": f"{most:.6g} * width / max(60, width - 130)"}, "nice": False},
        "axis": {"title": "milliseconds of one step", "tickCount": 5},
    }
    named, layer = stacked_bars(
        "step",
        [name for name, *_ in bars],
        x,
        {"draft": "var(--p-draft)", "verify": "var(--p-target)", "overhead": "var(--p-overhead)"},
        tooltip(step="step", part="part", words="time"),
    )
    return framed(
        34 * len(bars) + 10,
        step_sentence(curve),
        data={"values": rows},
        layer=[
            layer,
            {
                "data": {"values": ends},
                "mark": {"type": "text", "align": "left", "dx": 6, "tooltip": None},
                "encoding": {
                    "y": named,
                    "x": {**x, "field": "to"},
                    "text": {"field": "words"},
                    "fill": {"condition": {"test": "datum.best", "value": "var(--accent)"}, "value": "var(--soft)"},
                },
            },
        ],
    )


def step_sentence(curve: Curve) -> str:
    """What the step-time chart shows, in words."""
    head = curve.headline
    if head is None or head.acceptance_length.value <= 0:
        return ""
    per_token = head.step_ms.value / head.acceptance_length.value
    return (
        f"{plain(curve.label)}: at {requests(head.running)} a step with k = {head.k} takes "
        f"{number(head.step_ms.value)} ms instead of {number(head.baseline_step_ms.value)} ms and gives "
        f"{number(head.acceptance_length.value)} tokens instead of 1: {number(per_token)} step ms per token"
        + "".join(f"; {plain(note)}" for note in head.notes) + "."
    )
