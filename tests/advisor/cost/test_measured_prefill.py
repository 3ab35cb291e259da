"""What prompts cost is read from every arm's steps together; no single step rules it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cost.measured_prefill import Line, PromptStep, prefill_lines

TARGET, DRAFT = Line(110.0, 1.2), Line(60.0, 0.3)
EXPECTED = {"draft": Line(50.0, 0.2)}


def _step(arm: str, tokens: float, slower: float = 1.0) -> PromptStep:
    own = DRAFT.at(tokens) if arm == "draft" else 0.0
    return PromptStep(arm, tokens, slower * (TARGET.at(tokens) + own))


QUIET = [_step(arm, tokens) for arm in ("none", "ngram", "draft") for tokens in (70.0, 470.0, 730.0)]


def test_quiet_steps_give_back_the_lines_they_were_made_of() -> None:
    found = prefill_lines(QUIET, 100.0, EXPECTED)
    assert found is not None
    target, drafters = found
    assert target.at(500.0) == pytest.approx(TARGET.at(500.0), rel=0.02)
    assert drafters["draft"].at(500.0) == pytest.approx(DRAFT.at(500.0), rel=0.1)


@given(st.floats(1.5, 6.0), st.integers(0, len(QUIET) - 1))
def test_one_step_beside_a_neighbours_work_moves_little(slower: float, which: int) -> None:
    disturbed = [PromptStep(s.arm, s.tokens, s.ms * (slower if i == which else 1.0)) for i, s in enumerate(QUIET)]
    found = prefill_lines(disturbed, 100.0, EXPECTED)
    assert found is not None
    target, drafters = found
    assert target.at(500.0) == pytest.approx(TARGET.at(500.0), rel=0.15)
    assert target.at(500.0) + drafters["draft"].at(500.0) == pytest.approx(TARGET.at(500.0) + DRAFT.at(500.0), rel=0.2)


def test_the_targets_line_is_found_from_arms_that_look_drafts_up() -> None:
    found = prefill_lines([s for s in QUIET if s.arm == "ngram"], 100.0, {})
    assert found is not None
    assert found[0].at(500.0) == pytest.approx(TARGET.at(500.0), rel=0.02)


def test_a_drafter_of_which_no_prompt_was_timed_adds_what_the_facts_expect() -> None:
    found = prefill_lines([s for s in QUIET if s.arm != "draft"], 100.0, EXPECTED)
    assert found is not None
    assert found[1]["draft"].at(500.0) == pytest.approx(50.0 + 0.2 * 1.2 * 500.0, rel=0.03)


def test_nothing_timed_is_nothing_known() -> None:
    assert prefill_lines([], 100.0, EXPECTED) is None
