"""Traffic: lengths as stated, rates met exactly, traces as recorded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.capacity.arrivals import draw_lengths, from_process, from_trace, length_quantile, log_sd_of_lengths
from profiles.workload import Lengths


def test_lengths_have_the_stated_mean_and_come_near_the_stated_percentiles() -> None:
    # A log-normal with a spread of 0.8: the percentiles that belong to its mean.
    mean, spread = 1000.0, 0.8
    lengths = Lengths(mean=mean, p50=mean * math.exp(-0.32), p95=mean * math.exp(1.6449 * spread - 0.32))
    drawn = draw_lengths(lengths, 4000, np.random.default_rng(0))
    assert log_sd_of_lengths(lengths) == pytest.approx(spread, rel=0.01)
    assert drawn.mean() == pytest.approx(mean, rel=0.005)
    assert np.quantile(drawn, 0.95) == pytest.approx(lengths.p95, rel=0.02)
    assert length_quantile(lengths, 0.95) == lengths.p95
    assert length_quantile(lengths, 0.99) == pytest.approx(mean * math.exp(2.3263 * spread - 0.32), rel=0.01)


@pytest.mark.parametrize("n", [240, 1000, 4096, 6000, 50_000])
def test_the_mean_does_not_depend_on_how_many_are_drawn(n: int) -> None:
    drawn = draw_lengths(Lengths(mean=384), n, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(384, rel=0.005)
    assert np.median(drawn) == pytest.approx(384 * math.exp(-0.5 * 0.7**2), rel=0.02)


@settings(deadline=None)
@given(mean=st.floats(1, 1e5), n=st.integers(1, 300), seed=st.integers(0, 99))
def test_lengths_are_whole_and_at_least_one(mean: float, n: int, seed: int) -> None:
    drawn = draw_lengths(Lengths(mean=mean), n, np.random.default_rng(seed))
    assert len(drawn) == n
    assert drawn.min() >= 1
    assert drawn.dtype == np.int64


def test_no_drawn_length_is_beyond_the_longest_seen_and_the_mean_stays() -> None:
    drawn = draw_lengths(Lengths(mean=100, max=250), 2000, np.random.default_rng(0))
    assert drawn.max() <= 250
    assert drawn.mean() == pytest.approx(100, rel=0.01)


@settings(deadline=None)
@given(rate=st.floats(0.01, 1000), n=st.integers(2, 400), burstiness=st.floats(0.1, 10))
def test_the_rate_is_met_exactly(rate: float, n: int, burstiness: float) -> None:
    arrivals = from_process(rate, n, Lengths(mean=50), Lengths(mean=10), burstiness=burstiness)
    assert arrivals.rate_rps == pytest.approx(rate)
    assert (np.diff(arrivals.arrival_s) >= 0).all()


def test_a_seed_gives_the_same_requests_at_every_rate() -> None:
    slow, fast = (from_process(rate, 50, Lengths(mean=50), Lengths(mean=10), seed=7) for rate in (1.0, 10.0))
    assert slow.output_tokens.tolist() == fast.output_tokens.tolist()
    assert np.allclose(slow.arrival_s, 10 * fast.arrival_s)


def test_less_burstiness_than_one_makes_gaps_more_uneven() -> None:
    spread = [
        float(np.std(np.diff(from_process(1.0, 3000, Lengths(mean=9), Lengths(mean=9), burstiness=b).arrival_s)))
        for b in (0.25, 1.0, 4.0)
    ]
    assert spread[0] == pytest.approx(2.0, rel=0.15)
    assert spread[1] == pytest.approx(1.0, rel=0.1)
    assert spread[2] == pytest.approx(0.5, rel=0.1)


def test_a_trace_is_sorted_and_may_be_sped_up() -> None:
    trace = from_trace([12.0, 10.0, 14.0], [5, 0, 7], [1, 2, 3], speed=2.0, cached_share=0.5)
    assert trace.arrival_s.tolist() == [0.0, 1.0, 2.0]
    assert trace.prompt_tokens.tolist() == [1, 5, 7]
    assert trace.output_tokens.tolist() == [2, 1, 3]
    assert trace.cached_tokens.tolist() == [0, 2, 3]


def test_a_trace_of_unequal_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="same number"):
        from_trace([0.0, 1.0], [5], [1, 2])
