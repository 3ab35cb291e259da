"""From simulations to answers: latencies grow with the rate, and the highest rate keeps what is asked."""

from __future__ import annotations

import pytest

from advisor.capacity.arrivals import from_trace
from advisor.capacity.bounds import mean_values, saturation_rps
from advisor.capacity.document import LoadPoint
from advisor.capacity.rates import DEFAULT_EFFORT, Effort, Stream, highest_rate, load_point, rate_ratio, saturated_rps
from profiles.workload import Lengths
from tests.advisor.capacity.engines import engine

STREAM = Stream(Lengths(mean=200, p95=400), Lengths(mean=60, p95=120))
MODEL = engine(per_request_ms=0.3, seqs=32)


def _at(rate: float) -> LoadPoint:
    return load_point(MODEL, STREAM, rate, DEFAULT_EFFORT, saturated_rps(MODEL, STREAM, DEFAULT_EFFORT))


def test_latency_and_load_grow_with_the_rate() -> None:
    points = [_at(rate) for rate in (2.0, 10.0, 25.0)]
    assert [p.sustained for p in points] == [True] * 3
    assert points[0].tpot_ms < points[1].tpot_ms < points[2].tpot_ms
    assert points[0].running < points[1].running < points[2].running
    assert points[1].ttft_ms < points[2].ttft_ms
    assert all(p.ttft_ms <= p.ttft_p95_ms and p.tpot_ms <= p.tpot_p95_ms for p in points)


def test_throughput_is_what_arrives_while_the_engine_keeps_up() -> None:
    assert _at(10.0).output_tokens_per_s == pytest.approx(600.0, rel=0.05)


def test_a_short_run_sees_what_a_long_one_sees() -> None:
    saturation = saturated_rps(MODEL, STREAM, DEFAULT_EFFORT)
    short, long = (load_point(MODEL, STREAM, 0.7 * saturation, Effort(times=times), saturation) for times in (1, 12))
    assert short.tpot_ms == pytest.approx(long.tpot_ms, rel=0.06)
    assert short.running == pytest.approx(long.running, rel=0.15)
    assert short.output_tokens_per_s == pytest.approx(long.output_tokens_per_s, rel=0.06)


def test_requests_under_way_are_longer_than_those_that_arrive_and_hold_their_past() -> None:
    found = STREAM.under_way(4000, 0)
    assert (found.cached_tokens == found.prompt_tokens - 1).all()
    # Mean residual of a length-biased pick: E[o^2] / 2 E[o].
    outputs = STREAM.at(1.0, 4000, 0).output_tokens.astype(float)
    assert found.output_tokens.mean() == pytest.approx(0.5 * (outputs**2).mean() / outputs.mean(), rel=0.06)


def test_mean_values_foresee_the_simulation_at_half_the_load() -> None:
    rate = 0.5 * saturation_rps(MODEL, STREAM.mean)
    seen, simulated = mean_values(MODEL, STREAM.mean, rate), _at(rate)
    assert simulated.running == pytest.approx(seen.running, rel=0.15)
    assert simulated.tpot_ms == pytest.approx(seen.tpot_ms, rel=0.15)


def test_a_rate_beyond_saturation_is_not_sustained() -> None:
    assert not _at(1.2 * saturated_rps(MODEL, STREAM, DEFAULT_EFFORT)).sustained


def test_the_highest_rate_meets_the_slo_and_the_next_does_not() -> None:
    saturation = saturated_rps(MODEL, STREAM, DEFAULT_EFFORT)

    def meets(point: LoadPoint) -> bool:
        return point.sustained and point.tpot_ms <= 15.0

    best = highest_rate([_at(share * saturation) for share in (0.2, 0.5, 0.9)], _at, meets, saturation, rounds=6)
    assert meets(_at(best))
    assert not meets(_at(1.08 * best))


def test_an_slo_that_no_rate_meets_gives_none() -> None:
    assert highest_rate([_at(2.0)], _at, lambda point: point.tpot_ms <= 5.0, 40.0) == 0.0


def test_without_slo_the_highest_rate_is_near_but_not_above_saturation() -> None:
    saturation = saturated_rps(MODEL, STREAM, DEFAULT_EFFORT)
    best = highest_rate([_at(0.5 * saturation)], _at, lambda point: point.sustained, saturation)
    assert 0.85 * saturation < best <= saturation


def test_a_slower_engine_serves_less_by_mean_values() -> None:
    slower = rate_ratio(MODEL, STREAM, 1.25, lambda seen: True)
    assert slower == pytest.approx(1 / 1.25, rel=0.02)
    assert rate_ratio(MODEL, STREAM, 1.25, lambda seen: seen.tpot_ms <= 15.0) < slower


def test_requests_are_cut_to_what_the_engine_takes() -> None:
    stream = Stream(Lengths(mean=500), Lengths(mean=200), longest=600)
    arrivals = stream.at(1.0, 500, 0)
    assert (arrivals.prompt_tokens + arrivals.output_tokens).max() <= 600


def test_a_trace_is_repeated_at_the_asked_rate() -> None:
    trace = from_trace([0.0, 1.0, 4.0], [10, 20, 30], [5, 6, 7])
    arrivals = Stream(Lengths(mean=20), Lengths(mean=6), trace=trace).at(3.0, 30, 0)
    assert len(arrivals) == 30
    assert arrivals.rate_rps == pytest.approx(3.0, rel=0.05)
    assert arrivals.output_tokens.tolist() == [5, 6, 7] * 10


def test_short_memory_shows_as_preemptions_or_fewer_running() -> None:
    tight = engine(per_request_ms=0.3, seqs=32, kv_tokens=2400)
    free, held = (saturated_rps(model, STREAM, DEFAULT_EFFORT) for model in (MODEL, tight))
    assert held < 0.8 * free
