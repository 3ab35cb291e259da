"""Three-valued judgement: what it says changes only towards where the numbers move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.verdict import at_least, at_most, ceiling_of, floor_of, watch_needed
from profiles.schema import Quantity, Source

ORDER = {"broken": 0, "undecided": 1, "held": 2}
numbers = st.floats(0.1, 1e4)
inside = st.floats(-0.95, 0.95)
"""Where in an interval a bound lies."""


def q(value: float, half: float | None = None) -> Quantity:
    return Quantity(value=value, low=None if half is None else value - half,
                    high=None if half is None else value + half, source=Source.RECORDED)


@given(numbers, st.floats(0, 50), numbers, st.floats(0, 100))
def test_a_larger_finding_never_looks_worse(value: float, half: float, edge: float, more: float) -> None:
    assert ORDER[at_least(q(value + more, half), edge)] >= ORDER[at_least(q(value, half), edge)]
    assert ORDER[at_most(q(value + more, half), edge)] <= ORDER[at_most(q(value, half), edge)]


@given(numbers, st.floats(0.01, 50), inside, st.floats(0, 50))
def test_a_wider_interval_never_decides_what_a_narrow_one_left_open(value: float, half: float, share: float,
                                                                    more: float) -> None:
    edge = value + share * half
    assert at_least(q(value, half), edge) == "undecided"
    assert at_least(q(value, half + more), edge) == "undecided"


@given(numbers, st.floats(0, 1000), st.floats(0, 0.9))
def test_a_promise_kept_to_the_letter_is_held(value: float, half: float, slack: float) -> None:
    promised = q(value, half)
    assert at_least(q(value), floor_of(promised, slack)) == "held"
    assert at_most(q(value), ceiling_of(promised, slack)) == "held"


@given(numbers, st.floats(0.01, 50), inside)
def test_watching_as_long_as_advised_would_decide(value: float, half: float, share: float) -> None:
    edge = value + share * half
    factor = watch_needed(q(value, half), edge)
    if factor is None:
        assert abs(share) < 0.04, "only where the value lies on its bound"
    else:
        assert at_least(q(value, 0.999 * half / factor**0.5), edge) != "undecided"


def test_a_value_on_its_bound_gets_no_time_to_watch() -> None:
    assert watch_needed(q(2.0, 0.5), 2.0) is None
    assert watch_needed(q(2.0), 2.5) is None


@pytest.mark.parametrize(("value", "verdict"), [(0.96, "held"), (0.94, "broken")])
def test_a_shortfall_below_the_worthwhile_gain_breaks_nothing(value: float, verdict: str) -> None:
    assert at_least(q(value), floor_of(q(1.0), 0.05)) == verdict
