"""The terminal's plot: every load has its dot, intervals hold it, and break-even lies where 1.00 is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.report import render
from advisor.report.curves import Curve, curves
from advisor.report.plot import load_plot, points
from tests.advisor.report import synthetic_record as synthetic


def curve_of(values: list[tuple[float, float]]) -> Curve:
    """A curve of one k with these (speed-up, half-width of the interval) at loads 1, 2, 4, ..."""
    first = curves(synthetic.enabled())[0]
    cell = first.cells[(1, 3)]
    cells = {}
    for power, (value, half) in enumerate(values):
        speedup = cell.speedup.model_copy(update={"value": value, "low": value - half, "high": value + half})
        cells[(2**power, 3)] = cell.model_copy(update={"running": 2**power, "speedup": speedup})
    return Curve(first.label, first.candidate, True, cells, 1, 3)


@given(st.lists(st.tuples(st.floats(0.2, 9), st.floats(0, 0.2)), min_size=2, max_size=9))
def test_each_load_is_one_dot_within_its_bar_and_the_plot_keeps_its_size(values: list[tuple[float, float]]) -> None:
    lines = load_plot(curve_of(values))
    assert max(map(len, lines)) <= 64
    assert len(lines) == 10
    assert sum(line.count("●") for line in lines) == len(values)
    assert sum("1.00 ┤" in line and "┄" in line for line in lines) == 1


def test_gains_stand_above_break_even_and_losses_below() -> None:
    lines = load_plot(curve_of([(2.0, 0.0), (0.5, 0.0)]))
    even = next(i for i, line in enumerate(lines) if "┄" in line)
    gain, loss = (next(i for i, line in enumerate(lines) if where(line)) for where in (
        lambda line: "●" in line[:20], lambda line: "●" in line[20:]))
    assert gain < even < loss


def test_one_load_alone_is_no_plot() -> None:
    assert load_plot(curve_of([(2.0, 0.1)])) == ()


@pytest.mark.parametrize("make", [synthetic.enabled, synthetic.off, synthetic.abstained])
def test_the_terminal_shows_it_within_its_width_and_markdown_does_not(make) -> None:
    record = make()
    text = render(record, "text", width=60)
    section = text[text.index("Speed-up against load") :]
    assert section.count("●") == len(points(curves(record)[0])) + 1
    assert max(len(line) for line in load_plot(curves(record)[0], 58)) <= 58
    assert "●" not in render(record, "markdown")
