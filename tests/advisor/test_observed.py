"""Acceptance and load from a server's counters: intervals that shrink with what is behind them, and never too far."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.observed import expected_range, gauge_load, observed_acceptance, observed_load, unused_evidence
from profiles.evidence import Evidence, Implausibility, ServerEvidence
from profiles.schema import Quantity, Source
from profiles.traffic import RequestsEvidence
from tests.advisor import synthetic_readings as syn

falling = st.lists(st.floats(0, 1), min_size=1, max_size=8).map(lambda rates: tuple(sorted(rates, reverse=True)))


@given(falling, st.floats(1, 1e6), st.one_of(st.none(), st.floats(0, 50)))
def test_the_interval_holds_the_length_and_stays_within_what_a_step_can_give(positions: tuple[float, ...],
                                                                             drafts: float,
                                                                             dispersion: float | None) -> None:
    found = observed_acceptance(syn.evidence(speculation=syn.counters(positions, drafts, dispersion=dispersion)), True)
    assert found is not None
    length = found.length
    assert length.low is not None
    assert length.high is not None
    assert length.value == pytest.approx(1 + sum(positions))
    assert 1 <= length.low <= length.value <= length.high + 1e-9
    assert length.high <= len(positions) + 1 + 1e-9


@given(falling, st.floats(20, 1e5), st.floats(1.5, 100))
def test_more_drafts_of_the_same_kind_never_widen_the_interval(positions: tuple[float, ...], drafts: float,
                                                               times: float) -> None:
    few = observed_acceptance(syn.evidence(speculation=syn.counters(positions, drafts)), True)
    many = observed_acceptance(syn.evidence(speculation=syn.counters(positions, drafts * times)), True)
    assert few is not None
    assert many is not None

    def width(found: Quantity) -> float:
        return (found.high or 0) - (found.low or 0)

    assert width(many.length) <= width(few.length) + 1e-9


def test_requests_that_differ_widen_the_interval_as_much_as_their_spread() -> None:
    def half(dispersion: float | None) -> float:
        found = observed_acceptance(
            syn.evidence(speculation=syn.counters((0.6, 0.3), 100_000, dispersion=dispersion)), True)
        assert found is not None
        return found.length.value - (found.length.low or 0)

    assert half(4.0) == pytest.approx(2 * half(1.0))
    assert half(0.2) == half(1.0), "a window that looks too even by chance is no better known"
    assert half(None) > half(4.0), "unknown is taken as drafts of one request resembling each other"


def test_steps_without_a_draft_count_as_one_token_where_the_method_may_have_none() -> None:
    speculation = syn.counters((0.5, 0.25), 1000)
    server = syn.evidence(speculation=speculation, output_tokens_total=2000 + 750 + 50, requests_total=50)
    every = observed_acceptance(server, True)
    lookup = observed_acceptance(server, False)
    assert every is not None
    assert lookup is not None
    assert every.length.value == pytest.approx(1.75)
    assert lookup.length.value == pytest.approx(1 + 750 / 2000)
    assert lookup.positions == pytest.approx((0.25, 0.125))


@pytest.mark.parametrize("server", [
    syn.evidence(),
    syn.evidence(speculation=syn.counters((0.5,), 0)),
    syn.evidence(speculation=syn.counters((0.5,), 100, in_window=False)),
], ids=["off", "nothing drafted", "nothing drafted in the window"])
def test_without_a_draft_in_the_window_there_is_no_acceptance(server: ServerEvidence) -> None:
    assert observed_acceptance(server, True) is None


def test_load_is_the_requests_of_a_mean_step_where_steps_are_counted() -> None:
    found = observed_load(syn.evidence(load=4.0, speculation=syn.counters((0.5,), 16_000)))
    assert found is not None
    assert found.value == pytest.approx(4.0)


def test_load_is_the_gauge_per_engine_where_steps_are_not_counted() -> None:
    running = Quantity(value=8, low=4, high=12, n=9, source=Source.RECORDED)
    found = observed_load(syn.evidence(engine_steps=None, running=running, engines=2))
    assert found is not None
    assert found.value == 4
    assert found.low is not None
    assert found.high is not None
    assert 2 < found.low < 4 < found.high < 6


def test_one_scrape_of_a_gauge_has_no_interval() -> None:
    found = gauge_load(syn.evidence(running=Quantity(value=8, n=1, source=Source.RECORDED)))
    assert found is not None
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("n", "tabled"), [(2, 1.128), (5, 2.326), (10, 3.078), (20, 3.735)])
def test_the_expected_range_of_a_sample_is_the_tabled_one(n: int, tabled: float) -> None:
    assert expected_range(n) == pytest.approx(tabled, rel=0.05)


def test_counts_that_cannot_be_are_no_acceptance_and_no_load() -> None:
    wrong = Implausibility(code="acceptance_above_one", arm="the server", message="more", severity="error")
    server = syn.evidence(speculation=syn.counters((0.5, 0.2), 1000.0))
    assert observed_acceptance(server, True) is not None
    told = server.model_copy(update={"implausible": (wrong,), "engine_steps": 10.0})
    assert observed_acceptance(told, True) is None
    assert observed_load(told) == gauge_load(told)


def logged(**engine: object) -> Evidence:
    return Evidence.model_validate({
        "collected_at": "2026-11-30T12:00:00Z", "tool_version": "0", "command": "test", "kind": "requests",
        "requests": RequestsEvidence(requests=9, engine=engine or None)})


def test_recorded_requests_that_do_not_decide_are_said() -> None:
    assert unused_evidence([logged()]) == []
    assert "2 evidence files hold recorded requests" in unused_evidence([logged(), logged()])[0]


def test_the_speculation_of_a_log_is_said_to_decide_nothing() -> None:
    (said,) = unused_evidence([logged(speculation={"acceptance_length": 2.1})])
    assert "2.10 tokens per step" in said
    assert "probe server" in said
    assert unused_evidence([logged(speculation={"acceptance_length": None})]) == []
