"""Drafts by lookup equal a plain rescan of the context, for any text, length and k."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.replay.ngram import Corpus, NgramIndex, chosen_windows, windows

TEXTS = st.lists(st.integers(0, 4), min_size=1, max_size=60)
WINDOWS = st.tuples(st.integers(1, 7), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def rescanned(context, shortest, longest, k):
    """The longest n-gram at the end that stands earlier, at its earliest place, and what follows it."""
    for n in range(min(longest, len(context) - 1), shortest - 1, -1):
        for start in range(len(context) - n):
            if context[start : start + n] == context[-n:]:
                return context[start + n : start + n + k]
    return []


def rescanned_walk(ids, prompt, shortest, longest, k):
    """(steps, drafted by position, accepted by position) of a walk that rescans; drafts cut to what is recorded."""
    at, steps, drafted, accepted = prompt + 1, 0, [0] * k, [0] * k
    while at < len(ids):
        draft = rescanned(ids[:at], shortest, longest, k)[: len(ids) - at]
        taken = 0
        while taken < len(draft) and draft[taken] == ids[at + taken]:
            taken += 1
        for position in range(len(draft)):
            drafted[position] += 1
        for position in range(taken):
            accepted[position] += 1
        steps, at = steps + 1, at + taken + 1
    return steps, drafted, accepted


@given(TEXTS, WINDOWS, st.integers(1, 6))
def test_every_draft_equals_that_of_a_rescan(ids, window, k):
    index = NgramIndex(ids)
    for place in range(len(ids)):
        assert index.draft(place, *window, k) == rescanned(ids[: place + 1], *window, k)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=2, max_size=5),
       st.lists(st.integers(0, 4), min_size=2, max_size=60))
def test_large_token_ids_find_their_matches_too(vocabulary, picks):
    ids = [vocabulary[pick % len(vocabulary)] for pick in picks]
    index = NgramIndex(ids)
    assert [index.draft(place, 2, 6, 4) for place in range(len(ids))] == [
        rescanned(ids[: place + 1], 2, 6, 4) for place in range(len(ids))]


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=12),
                          st.lists(st.integers(0, 3), min_size=2, max_size=30)), min_size=1, max_size=4),
       WINDOWS, st.integers(1, 5))
def test_a_walk_over_several_requests_gives_each_its_own_steps(texts, window, most):
    requests = [(prompt + output, len(prompt)) for prompt, output in texts]
    tallies = Corpus.of(requests).replay(*window, range(1, most + 1))
    for tally in tallies:
        for row, (ids, prompt) in enumerate(requests):
            steps, drafted, accepted = rescanned_walk(ids, prompt, *window, tally.k)
            assert tally.steps[row] == steps
            assert tally.drafted[row].tolist() == drafted
            assert tally.accepted[row].tolist() == accepted


def test_the_longest_match_wins_and_of_equals_the_earliest():
    ids = [1, 2, 3, 9, 2, 3, 8, 1, 2, 3]
    index = NgramIndex(ids)
    assert index.draft(9, 1, 3, 2) == [9, 2]
    assert index.draft(9, 1, 1, 1) == [9]
    assert index.draft(9, 4, 4, 2) == []


def test_a_match_may_overlap_what_it_matches():
    assert NgramIndex([7, 7, 7, 7]).draft(3, 2, 3, 4) == [7]


def test_drafts_end_with_the_context_of_the_engine():
    index = NgramIndex([1, 2, 3, 4, 1, 2])
    assert index.draft(5, 2, 2, 4) == [3, 4, 1, 2]
    assert index.draft(5, 2, 2, 4, max_model_len=8) == [3, 4]
    assert index.draft(5, 2, 2, 4, max_model_len=6) == []


def test_a_long_conversation_of_large_ids_is_ranked_without_overflow():
    drawn = np.random.default_rng(1)
    ids = drawn.integers(0, 2**31 - 1, 300)[drawn.integers(0, 300, 3000)]
    index = NgramIndex(ids)
    for place in range(2900, 3000, 7):
        assert index.draft(place, 1, 4, 3) == rescanned(ids[: place + 1].tolist(), 1, 4, 3)


def test_windows_are_all_pairs_and_can_be_written():
    assert len(windows(5)) == 15
    assert chosen_windows(["5", "2-4"]) == [{"prompt_lookup_min": 5, "prompt_lookup_max": 5},
                                            {"prompt_lookup_min": 2, "prompt_lookup_max": 4}]


@pytest.mark.parametrize("text", ["", "a", "4-2", "0", "2-", "1-65", "-3"])
def test_a_window_that_is_none_is_said(text):
    with pytest.raises(ValueError, match="expected"):
        chosen_windows([text])
