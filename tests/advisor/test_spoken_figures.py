"""Words that several pages share: where speculation stops paying, and how a lookup drafts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice import advise
from advisor.report import render
from advisor.spoken_figures import crossover_said, drafts_found, held_back_said, ms_said
from tests.advisor.situations import gpu_situation

LOADS = (1, 2, 4, 8, 16)


def gains(*loads: int) -> dict[int, bool]:
    return {load: load in loads for load in LOADS}


@pytest.mark.parametrize(("found", "cross", "top", "said"), [
    (gains(*LOADS), None, 64, "none found up to 64 running requests"),
    (gains(1, 2, 4), 6, 64, "no k gains from 6 running requests on"),
    (gains(), 1, 64, "no k gains at any load"),
    # The chosen candidate loses at all the loads that a reader sees, and the model has it gain far beyond them.
    (gains(), None, 64, "no k gains at any load looked at, 1 to 16 running requests; only at 64 one does"),
    (gains(), None, 16, "no k gains at any load looked at, 1 to 16 running requests"),
    (gains(8, 16), None, 64, "no k gains at 1 to 4 running; from 8 on one does, up to 64"),
    (gains(1, 8, 16), None, 64, "no k gains at 2 to 4 running; from 8 on one does, up to 64"),
    (gains(2, 8), 12, 64, "no k gains from 12 running requests on, nor at 1 and 4"),
    (gains(1), None, None, "not looked for"),
    ({}, None, 64, "none found up to 64 running requests"),
])
def test_where_it_stops_paying_also_says_where_it_never_did(found: dict[int, bool], cross: int | None, top: int | None,
                                                           said: str) -> None:
    assert crossover_said(found, cross, top) == said


@given(st.lists(st.booleans(), min_size=5, max_size=5), st.sampled_from([None, 1, 2, 6, 16, 32]))
def test_none_found_is_never_said_beside_a_load_at_which_every_k_loses(pays: list[bool], cross: int | None) -> None:
    said = crossover_said(dict(zip(LOADS, pays, strict=True)), cross, 64)
    assert said.startswith("none found") == (cross is None and all(pays))


def test_how_often_a_draft_is_found_and_how_far_it_is_accepted_are_two_shares() -> None:
    assert drafts_found(0.082, 0.08) == (
        "8 % of the steps find a draft, and 98 % of those accept its first token (8 % of all steps)")
    assert "0 % of those" in drafts_found(0.0, 0.0)


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_every_report_says_both_shares_of_a_lookup_in_the_same_words(name: str) -> None:
    record = advise(gpu_situation(candidates=[{"method": "ngram", "k": [2, 4]}], concurrency=2, tasks="code"),
                    "2026-01-01T00:00:00Z")
    said = drafts_found(record.matched_shares["ngram"], record.per_position["ngram"][0].value)
    text = " ".join(render(record, name).split()).replace("\\", "")
    assert text.count(said) >= 2, "in the reasons, and beside the positions"


def test_what_always_drafts_has_no_share_of_steps_without_a_draft() -> None:
    record = advise(gpu_situation(concurrency=2, tasks="code"), "2026-01-01T00:00:00Z")
    assert record.matched_shares == {}
    assert "find a draft" not in render(record, "text")


def test_the_reason_for_a_loss_gives_the_figure_without_it() -> None:
    record = advise(gpu_situation(concurrency=64, tasks="creative"), "2026-01-01T00:00:00Z")
    lost = [cell for cell in record.candidates if cell.speedup.value < 1.0 and cell.held_back_from is not None]
    assert lost
    for cell in lost:
        assert f"({cell.held_back_from:.2f}x " in held_back_said(cell)
        assert cell.held_back_from is not None
        assert cell.held_back_from > 1.05


def test_milliseconds_are_told_without_an_exponent() -> None:
    assert [ms_said(ms) for ms in (8.871, 51.12, 779.4, 5413.0)] == ["8.87", "51.1", "779", "5,413"]
