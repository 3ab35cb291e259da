"""Percentiles and spread out of buckets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.server.histogram import Histogram, lengths, mean_ms
from tests.probes.server import synthetic_pages as syn

EDGES = (*(float(e) for e in syn.LENGTH_EDGES), math.inf)


def observed(values: list[float]) -> Histogram:
    return Histogram({edge: float(sum(v <= edge for v in values)) for edge in EDGES}, len(values), sum(values))


def test_equal_lengths_give_that_length_back_not_the_middle_of_their_bucket() -> None:
    histogram = observed([512.0] * 600)
    assert histogram.percentile(0.5) == pytest.approx(512)
    assert histogram.percentile(0.99) == pytest.approx(512, rel=0.03)


def test_even_values_are_interpolated_linearly() -> None:
    histogram = observed([float(v) for v in range(501, 1001)])
    assert histogram.percentile(0.5) == pytest.approx(750, abs=2)
    assert histogram.percentile(0.9) == pytest.approx(950, abs=2)


def test_nothing_observed_has_no_percentile_and_no_lengths() -> None:
    empty = observed([])
    assert empty.percentile(0.5) is None
    assert lengths(empty) is None
    assert mean_ms(empty, "") is None


def test_values_above_the_last_edge_stand_at_that_edge_and_give_no_interval() -> None:
    histogram = observed([10_000.0] * 5)
    assert histogram.percentile(0.99) == 2000
    quantity = mean_ms(histogram, "x")
    assert quantity is not None
    assert quantity.low is None


def test_the_difference_of_two_is_what_came_in_between() -> None:
    before, after = [20.0] * 5, [20.0] * 5 + [400.0] * 3
    between = observed(after).minus(observed(before))
    assert (between.count, between.mean) == (3, 400)
    assert between.buckets() == [(200.0, 500.0, 3.0)]


@given(st.lists(st.floats(1, 1999), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_percentile_lies_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    true = sorted(values)[max(math.ceil(share * len(values) - 1e-9) - 1, 0)]
    upper = min(e for e in EDGES if e >= true)
    lower = max((e for e in EDGES if e < true), default=0.0)
    found = observed(values).percentile(share)
    assert found is not None
    assert lower - 1e-6 <= found <= upper + 1e-6


@given(st.lists(st.floats(1, 1999), min_size=1, max_size=60))
def test_percentiles_rise(values: list[float]) -> None:
    histogram = observed(values)
    found = [histogram.percentile(s) or 0.0 for s in (0.1, 0.5, 0.9, 0.95, 0.99)]
    assert found == sorted(found)


@given(st.lists(st.floats(0.002, 9), min_size=2, max_size=60))
def test_the_interval_of_a_mean_holds_it(values: list[float]) -> None:
    edges = (*syn.SECOND_EDGES, math.inf)
    histogram = Histogram({e: float(sum(v <= e for v in values)) for e in edges}, len(values), sum(values))
    quantity = mean_ms(histogram, "x")
    assert quantity is not None
    assert quantity.low is not None
    assert quantity.high is not None
    assert quantity.low <= quantity.value <= quantity.high
    assert quantity.n == len(values)
