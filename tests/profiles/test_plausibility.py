"""Counts that cannot be, wherever they come from, and the chances with which correct ones are left alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.deployment import Candidate
from profiles.evidence import (
    ArmEvidence,
    ArmStatus,
    Evidence,
    Implausibility,
    PromptSummary,
    RequestAcceptance,
    ServerEvidence,
    SpeculationCounters,
    TrialEvidence,
)
from profiles.plausibility import RARE, judged, judged_server, later_positions, position_totals, rates, sums
from profiles.workload import Task


def codes(found: Sequence[Implausibility]) -> list[str]:
    return [f.code for f in found]


def server(positions: tuple[float, ...] = (0.6, 0.4), **counts: float) -> ServerEvidence:
    """Synthetic counters: 100 drafts of two tokens each, half of which were accepted."""
    told: dict[str, Any] = {"drafts": 100, "draft_tokens": 200, "accepted_tokens": 100, "acceptance_length": 2.0,
                            "tokens_per_step": 2.0, **counts}
    return ServerEvidence(url="u", engine="vllm", models=("m",), window_s=15, running=None, waiting=None,
                          kv_cache_usage=None,
                          speculation=SpeculationCounters(enabled=True, per_position=positions, **told))


def test_the_known_fault_pattern_is_said_later_positions_never_accepted() -> None:
    found = later_positions("draft", [245, 245, 245], [70, 0, 0])
    assert codes(found) == ["later_positions_never_accepted"]
    assert found[0].severity == "error"
    assert "70" in found[0].message


def test_a_weak_draft_with_few_chances_is_left_alone() -> None:
    assert later_positions("draft", [60, 60], [6, 0]) == []


def test_a_single_position_or_no_acceptance_at_all_is_no_pattern() -> None:
    assert later_positions("draft", [100], [60]) == []
    assert later_positions("draft", [100, 100], [0, 0]) == []
    assert later_positions("draft", [], []) == []


def test_a_lookup_that_never_drafts_a_second_token_is_no_pattern() -> None:
    assert later_positions("ngram", [100, 0], [80, 0]) == []
    assert sums("the server", 100, 100, 80, [80, 0]) == []


@settings(deadline=None)
@given(st.floats(0.2, 0.95), st.integers(20, 300), st.integers(0, 10_000))
def test_correct_speculation_hardly_ever_trips_the_later_position_test(rate: float, steps: int, seed: int) -> None:
    # Property over a correct engine whose later conditional acceptance equals the first: a false alarm has a chance of
    # at most RARE by construction, so it must come with zero successes in many tries.
    rng = random.Random(seed)
    accepted = [0, 0]
    for _ in range(steps):
        if rng.random() < rate:
            accepted[0] += 1
            accepted[1] += rng.random() < rate
    if later_positions("draft", [steps, steps], accepted):
        assert (1 - rate) ** accepted[0] < RARE


def test_more_accepted_than_drafted_and_a_rising_position_are_each_said() -> None:
    assert codes(rates("x", [10, 10], [11, 3])) == ["acceptance_above_one"]
    assert codes(rates("x", [10, 10], [3, 4])) == ["acceptance_not_monotone"]
    assert rates("x", [10, 10, 10], [9, 9, 2]) == []


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_falling_counts_within_the_drafts_are_always_plausible(counts: list[int]) -> None:
    counts = sorted(counts, reverse=True)
    assert rates("x", [50] * len(counts), counts) == []


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 200), st.floats(0.0, 1.0), st.integers(0, 10_000))
def test_sums_of_drafts_that_were_really_verified_are_always_plausible(k: int, drafts: int, rate: float,
                                                                       seed: int) -> None:
    rng = random.Random(seed)
    positions, tokens = [0] * k, 0
    for _ in range(drafts):
        length = rng.randint(1, k)
        tokens += length
        for i in range(length):
            if rng.random() >= rate:
                break
            positions[i] += 1
    found = sums("x", drafts, tokens, sum(positions), positions)
    assert codes(found) in ([], ["later_positions_never_accepted"])
    if found:
        assert not any(positions[1:])


def test_totals_add_requests_of_different_depth() -> None:
    def request(steps: int, drafted: tuple[int, ...], accepted: tuple[int, ...]) -> RequestAcceptance:
        return RequestAcceptance(task=Task.CODE, prompt_tokens=5, output_tokens=9, steps=steps, drafted=drafted,
                                 accepted=accepted)

    assert position_totals([request(4, (4, 4), (3, 2)), request(2, (2,), (1,))]) == ([6, 4], [4, 2])
    assert position_totals([]) == ([], [])


@pytest.mark.parametrize(("found", "code", "part"), [
    (server(accepted_tokens=250), "acceptance_above_one", "250 tokens accepted of 200 drafted"),
    (server(draft_tokens=50, accepted_tokens=40), "acceptance_above_one", "100 drafts hold 50 tokens"),
    (server((1.4, 0.1), accepted_tokens=150), "acceptance_above_one", "position 1: 140 accepted of 100 drafted"),
    (server((0.3, 0.7)), "acceptance_not_monotone", "position 2 was accepted 70 times"),
    (server((0.6, 0.0), accepted_tokens=60), "later_positions_never_accepted", "none at any later one"),
])
def test_counters_of_a_server_that_cannot_be_are_said_and_give_no_acceptance(found: ServerEvidence, code: str,
                                                                             part: str) -> None:
    told = judged_server(found)
    assert codes(told.implausible) == [code]
    assert part in told.implausible[0].message
    assert told.implausible[0].severity == "error"
    assert told.speculation is not None
    assert found.speculation is not None
    assert (told.speculation.per_position, told.speculation.acceptance_length) == ((), None)
    assert (told.speculation.tokens_per_step, told.speculation.accepted_variance is not None) == (None, True)
    assert told.speculation.accepted_tokens == found.speculation.accepted_tokens
    assert judged_server(told) == told


def test_counters_that_can_be_are_left_as_they_are() -> None:
    assert judged_server(server()) == server()
    # A scrape between two counters of one step.
    assert judged_server(server((1.0, 1.0), accepted_tokens=201)) == server((1.0, 1.0), accepted_tokens=201)


def test_saved_evidence_is_judged_like_what_was_just_measured() -> None:
    arm = ArmEvidence(candidate=Candidate(method="ngram", k=(2,)), status=ArmStatus.DONE, requests=(
        RequestAcceptance(task=Task.CODE, prompt_tokens=5, output_tokens=9, steps=4, drafted=(4, 4), accepted=(2, 3)),))
    trial = TrialEvidence(device="cpu", hardware="h", target="t", max_tokens=9, arms=(arm,),
                          prompts=PromptSummary(source="built-in", count=1))
    common = {"collected_at": "", "tool_version": "0", "command": ""}
    (found,) = judged(Evidence(kind="trial", trial=trial, **common)).implausible
    assert (found.arm, found.code) == ("ngram", "acceptance_not_monotone")
    (found,) = judged(Evidence(kind="server", server=server((0.3, 0.7)), **common)).implausible
    assert (found.arm, found.code) == ("the server", "acceptance_not_monotone")
