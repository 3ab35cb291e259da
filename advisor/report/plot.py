"""Speed-up against load as a small plot of characters, for terminals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.report.curves import Curve


@dataclass(frozen=True)
class Point:
    """The chosen k of one load: its speed-up with the interval."""

    load: int
    k: int
    value: float
    low: float
    high: float


def points(curve: Curve) -> tuple[Point, ...]:
    """The chosen k of every load; loads at which nothing was priced are left out."""
    found = []
    for load in curve.loads:
        best = curve.best(load)
        if best is not None:
            q = best.speedup
            low, high = (q.value if end is None else end for end in (q.low, q.high))
            found.append(Point(load, best.k, q.value, low, high))
    return tuple(found)


def load_plot(curve: Curve, width: int = 64, height: int = 9) -> tuple[str, ...]:
    """Lines of at most `width` columns, `height` of them plot and one the axis; empty with fewer than two loads.

    A dot is the chosen k of a load, a bar its interval, dashes are break-even; loads are spaced by their logarithm.
    """
    shown = points(curve)
    if len(shown) < 2:
        return ()
    low = min(1.0, *(p.low for p in shown))
    high = max(1.0, *(p.high for p in shown))
    room = width - 7
    span = (high - low) or 1.0
    first, last = math.log(shown[0].load), math.log(shown[-1].load)

    def row(value: float) -> int:
        return round((high - value) / span * (height - 1))

    def column(load: int) -> int:
        return 1 + round((math.log(load) - first) / (last - first) * (room - 4))

    grid = [[" "] * room for _ in range(height)]
    even = row(1.0)
    grid[even] = ["┄"] * room
    for point in shown:
        at = column(point.load)
        for line in range(row(point.high), row(point.low) + 1):
            grid[line][at] = "│"
        grid[row(point.value)][at] = "●"
    labels = {0: f"{high:.2f}", height - 1: f"{low:.2f}", even: "1.00"}
    out = [f"{labels.get(line, ''):>5} ┤{''.join(cells).rstrip()}" for line, cells in enumerate(grid)]
    axis = [" "] * room
    free = 0
    for point in shown:
        text, at = f"{point.load}", column(point.load)
        if at >= free and at + len(text) <= room:
            axis[at : at + len(text)] = text
            free = at + len(text) + 1
    out.append(f"{'load':>5}  {''.join(axis).rstrip()}")
    return tuple(out)
