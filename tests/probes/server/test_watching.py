"""Following a server on a stated clock: intervals, gaps in the answers, and windows put together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.server.differences import server_evidence
from probes.server.reading import Scrape, read_metrics
from probes.server.scraping import Fetcher, ServerAddress
from probes.server.watching import MOST_MISSED, together, watch_server
from profiles.errors import ProbeError
from profiles.evidence import ServerEvidence, SpeculationCounters
from profiles.plausibility import judged_server
from tests.probes.server import synthetic_pages as syn


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Pages(Fetcher):
    """Hands out synthetic pages, one a scrape; None is a scrape without an answer. Counters grow by `drafts`."""

    def __init__(self, clock: Clock, answers: Sequence[bool], drafts: int = 100) -> None:
        super().__init__(None, {}, 1.0)
        self._clock, self._answers, self._drafts = clock, list(answers), drafts
        self.scrapes = 0

    def page(self, address: ServerAddress) -> Scrape:
        number, self.scrapes = self.scrapes, self.scrapes + 1
        if number < len(self._answers) and not self._answers[number]:
            raise ProbeError("no answer")
        drafts = self._drafts * self.scrapes
        text = syn.page(syn.v1_engine(running=4, outputs=[100.0] * self.scrapes, speculation={
            "drafts": drafts, "draft_tokens": 2 * drafts, "positions": [0.5 * drafts, 0.25 * drafts]}))
        return read_metrics(text, "page", at_s=self._clock())

    def version(self, address: ServerAddress, engine: str) -> str | None:
        return "0.32.0"


def test_each_interval_is_the_difference_since_the_one_before() -> None:
    clock = Clock()
    ticks = watch_server("http://h:1", 10.0, Pages(clock, []), sleep=clock.sleep, clock=clock)
    for tick in itertools.islice(ticks, 3):
        assert tick.seen is not None
        assert tick.seen.window_s == pytest.approx(10.0)
        assert tick.seen.engine_version == "0.32.0"
        assert tick.seen.speculation is not None
        assert tick.seen.speculation.drafts == 400
        assert tick.seen.speculation.acceptance_length == pytest.approx(1.75)


def test_traffic_of_an_interval_without_an_answer_is_in_the_next_one() -> None:
    clock = Clock()
    ticks = list(itertools.islice(
        watch_server("http://h:1", 1.0, Pages(clock, [True, True, False, True]), sleep=clock.sleep, clock=clock), 3))
    assert ticks[1].seen is None
    assert ticks[1].missed == "no answer"
    assert ticks[2].seen is not None
    assert ticks[2].seen.window_s == pytest.approx(2.0)
    assert ticks[2].seen.speculation is not None
    assert ticks[2].seen.speculation.drafts == 200


def test_a_server_that_stays_away_is_given_up_with_its_own_error() -> None:
    clock = Clock()
    ticks = watch_server("http://h:1", 1.0, Pages(clock, [True] + [False] * 20), sleep=clock.sleep, clock=clock)
    with pytest.raises(ProbeError, match="no answer"):
        list(ticks)
    first = watch_server("http://h:1", 1.0, Pages(clock, [False]), sleep=clock.sleep, clock=clock)
    with pytest.raises(ProbeError, match="no answer"):
        next(first)
    assert MOST_MISSED > 1


def window(drafts: float, requests: int, seconds: float) -> ServerEvidence:
    def page(n_drafts: float, n_requests: int) -> str:
        return syn.page(syn.v1_engine(running=4, outputs=[100.0] * n_requests, tpot=[0.02] * n_requests, speculation={
            "drafts": n_drafts, "draft_tokens": 2 * n_drafts, "positions": [0.5 * n_drafts, 0.25 * n_drafts]}))

    return server_evidence([read_metrics(page(10, 2), "a"), read_metrics(page(10 + drafts, 2 + requests), "b")],
                           url="http://h:1/metrics", window_s=seconds)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 40), st.integers(1, 40))
def test_two_windows_together_are_one_window_over_both(one: int, other: int, few: int, more: int) -> None:
    whole, joined = window(one + other, few + more, 30.0), together(window(one, few, 10.0), window(other, more, 20.0))
    assert joined.window_s == whole.window_s
    assert joined.requests_in_window == whole.requests_in_window
    assert joined.output_tokens_total == whole.output_tokens_total
    assert joined.tpot_ms is not None
    assert whole.tpot_ms is not None
    assert joined.tpot_ms.value == pytest.approx(whole.tpot_ms.value)
    assert joined.tpot_ms.n == whole.tpot_ms.n
    assert isinstance(joined.speculation, SpeculationCounters)
    assert isinstance(whole.speculation, SpeculationCounters)
    assert joined.speculation.drafts == pytest.approx(whole.speculation.drafts)
    assert joined.speculation.per_position == pytest.approx(whole.speculation.per_position)
    assert joined.speculation.tokens_per_step == pytest.approx(whole.speculation.tokens_per_step)


def test_an_idle_window_adds_nothing_to_what_was_drafted() -> None:
    busy, idle = window(100, 3, 10.0), window(0, 1, 10.0)
    for joined in (together(busy, idle), together(idle, busy)):
        assert joined.speculation is not None
        assert joined.speculation.drafts == 100
        assert joined.speculation.in_window


def test_a_window_whose_counts_cannot_be_leaves_the_whole_without_an_acceptance() -> None:
    good, wrong = window(100, 2, 10.0), window(100, 2, 10.0)
    assert wrong.speculation is not None
    wrong = judged_server(wrong.model_copy(update={"speculation": wrong.speculation.model_copy(
        update={"accepted_tokens": 900.0})}))
    for joined in (together(good, wrong), together(wrong, good)):
        assert joined.implausible
        assert joined.speculation is not None
        assert (joined.speculation.acceptance_length, joined.speculation.per_position) == (None, ())
