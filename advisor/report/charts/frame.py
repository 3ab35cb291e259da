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
                # As many beside each other as a narrow screen holds.
                "columns": {"expr": "max(1, floor(width / 125))"},
                "title": None,
                "labelColor": "var(--ink)",
                "labelFontSize": 12,
                "symbolSize": 90,
                "symbolStrokeWidth": 2,
                "symbolOpacity": 1,
                "unselectedOpacity": 0.8,
                "labelLimit": 290,
                "columnPadding": 14,
                "offset": 8,
            },
            "text": {"fill": "var(--ink)", "fontSize": 12},
        },
    }


def tooltip(**titles: str) -> list[Spec]:
    """What the pointer shows: fields of the rows with the words before them, in this order."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def by_name(field: str, names: list[str]) -> tuple[Spec, Spec]:
    """Colour and shape of each of up to MOST_LINES names, in their order, with one name a line in the legend."""
    base = {"field": field, "type": "nominal", "sort": names, "legend": {"direction": "vertical", "columns": 1}}
    color = {**base, "scale": {"domain": names, "range": [f"var(--c{i})" for i in range(len(names))]}}
    return color, {**base, "scale": {"domain": names, "range": SHAPES[: len(names)]}}


def line_with_points(channels: Spec, shape: Spec, told: list[Spec]) -> list[Spec]:
    """A line, and a point at each of its values that tells what it is; `channels` (x, y, colour) are of both."""
    return [
        {"mark": {"type": "line", "strokeWidth": 2.25, "tooltip": None}, "encoding": channels},
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {**channels, "shape": shape, "tooltip": told},
        },
    ]


def stacked_bars(field: str, names: list[str], x: Spec, colors: dict[str, str], told: list[Spec]) -> tuple[Spec, Spec]:
    """Horizontal bars put together from parts: the channel that names them, for marks beside them, and their layer.

    A row is one part of one bar: its bar's name (`field`), its `part` (a key of `colors`), and where it lies (`from`,
    `to`, in the unit of `x`).
    """
    y = {
        "field": field,
        "type": "nominal",
        "sort": names,
        "scale": {"paddingInner": 0.3},
        "axis": {"title": None, "domain": False, "ticks": False, "labelPadding": 6, "labelColor": "var(--ink)"},
    }
    parts = list(colors)
    color = {"field": "part", "type": "nominal", "scale": {"domain": parts, "range": list(colors.values())}}
    layer = {
        "mark": {"type": "bar", "stroke": "var(--paper)", "strokeWidth": 1},
        "encoding": {
            "y": y,
            "x": {**x, "field": "from"},
            "x2": {"field": "to"},
            "color": {**color, "sort": parts},
            "tooltip": told,
        },
    }
    return y, layer
