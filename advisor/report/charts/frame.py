"""What all charts share: the frame, the fonts and the page's colours."""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
MOST_LINES = 6
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def framed(height: int, description: str, **rest: Any) -> Spec:
    """A chart as wide as its container, in the page's colours."""
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding", "resize": True},
        "description": description,
        "background": None,
        **rest,
        "config": {
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": "var(--soft)",
                "titleColor": "var(--soft)",
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
                "gridColor": "var(--line)",
                "domainColor": "var(--line-strong)",
                "tickColor": "var(--line-strong)",
                "titlePadding": 8,
            },
            "legend": {
                "orient": "top",
                "direction": "horizontal",
                "title": None,
                "labelColor": "var(--ink)",
                "labelFontSize": 12,
                "symbolSize": 90,
                "symbolStrokeWidth": 2,
                "symbolOpacity": 1,
                "unselectedOpacity": 0.8,
                "labelLimit": 260,
                "columnPadding": 14,
                "offset": 8,
            },
            "text": {"fill": "var(--ink)", "fontSize": 12},
        },
    }
