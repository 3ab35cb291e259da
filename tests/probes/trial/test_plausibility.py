"""The patterns a correct engine cannot show, and the chances with which a correct one is left alone."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.trial.plausibility import (
    Divergence,
    binomial_tail,
    counters,
    divergence,
    greedy_output,
    pooled,
    sampled_output,
    two_sample_p,
    unsteady,
)
from profiles.evidence import StepSample
from profiles.plausibility import RARE

QUIET = Divergence(requests=8, differing=0, tokens=400, first=None)


def codes(found):
    return [f.code for f in found]


# --- counters ---
def test_counters_that_stand_still_while_steps_carried_drafts_are_said():
    found = counters("x", {"generation_tokens": 40, "spec_decode_num_drafts": 0}, [30], 40, always_drafts=True)
    assert codes(found) == ["counters_did_not_move"]
    found = counters("x", {"generation_tokens": 0, "spec_decode_num_drafts": 30}, [30], 40, always_drafts=True)
    assert "generation" in found[0].message


def test_a_method_that_must_draft_and_never_did_is_said_but_a_lookup_may_miss():
    moved = {"generation_tokens": 40, "spec_decode_num_drafts": 0}
    assert codes(counters("x", moved, [], 40, always_drafts=True)) == ["counters_did_not_move"]
    assert counters("x", moved, [], 40, always_drafts=False) == []


def test_counters_that_agree_with_the_steps_say_nothing():
    moved = {"generation_tokens": 60, "spec_decode_num_drafts": 30,
             "spec_decode_num_accepted_tokens_per_pos": [20, 10]}
    assert counters("x", moved, [30, 30], 60, always_drafts=True) == []


def test_the_engines_own_counters_are_held_to_the_same_order():
    moved = {"generation_tokens": 60, "spec_decode_num_drafts": 30,
             "spec_decode_num_accepted_tokens_per_pos": [5, 10]}
    assert codes(counters("x", moved, [30, 30], 60, always_drafts=True)) == ["acceptance_not_monotone"]


# --- greedy output ---
def test_divergence_counts_partings_and_the_tokens_up_to_them():
    seen = divergence([([1, 2, 3], [1, 2, 3]), ([1, 2, 3], [1, 9, 3]), ([1, 2, 3, 4], [1, 2])])
    assert seen == Divergence(requests=3, differing=1, tokens=3 + 2 + 2, first=1)


def test_several_comparisons_pool_into_one():
    both = pooled([Divergence(2, 1, 30, 7), Divergence(3, 1, 50, 4), Divergence(1, 0, 20, None)])
    assert both == Divergence(6, 2, 100, 4)


def test_outputs_that_part_at_once_everywhere_are_an_error():
    found = greedy_output("draft", Divergence(8, 8, 16, 0), QUIET)
    assert codes(found) == ["greedy_output_differs"]
    assert "8 of 8" in found[0].message


def test_rare_partings_as_rounding_makes_them_are_left_alone():
    assert greedy_output("draft", Divergence(8, 2, 350, 20), QUIET) == []
    assert greedy_output("draft", Divergence(8, 0, 384, None), QUIET) == []


def test_partings_are_judged_against_the_baselines_own():
    seen = Divergence(8, 7, 150, 3)
    assert greedy_output("draft", seen, QUIET)
    assert greedy_output("draft", seen, Divergence(8, 7, 140, 2)) == []


# --- sampled output ---
def test_equal_distributions_are_not_called_different():
    alarms = 0
    for seed in range(12):
        rng = random.Random(seed)
        one, two = ([[0, *rng.choices(range(12), k=3)] for _ in range(60)] for _ in range(2))
        alarms += bool(sampled_output("x", one, two, seed))
    assert alarms == 0


def test_a_collapsed_distribution_is_called_different():
    rng = random.Random(5)
    spread = [[0, *rng.choices(range(20), k=3)] for _ in range(96)]
    collapsed = [[0, 7, rng.randrange(20), rng.randrange(20)] for _ in range(96)]
    found = sampled_output("draft", spread, collapsed)
    assert codes(found) == ["sampled_distribution_differs"]
    assert "token 2" in found[0].message


def test_the_first_token_carries_no_draft_and_is_not_tested():
    assert sampled_output("x", [[1]] * 50, [[2]] * 50) == []
    assert sampled_output("x", [], []) == []


def test_two_equal_samples_have_p_one_and_two_disjoint_ones_almost_none():
    assert two_sample_p([1, 2, 3] * 10, [1, 2, 3] * 10) > 0.9
    assert two_sample_p([1] * 40, [2] * 40) < 2 * RARE
    assert two_sample_p([], [1]) == 1.0


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=25), st.lists(st.integers(0, 5), min_size=1, max_size=25))
def test_p_values_are_chances_and_do_not_depend_on_which_sample_is_which(left, right):
    one, two = two_sample_p(left, right), two_sample_p(right, left)
    assert 0 < one <= 1
    assert one == pytest.approx(two, abs=0.08)


# --- tails ---
@settings(deadline=None)
@given(st.integers(0, 40), st.floats(0.01, 0.99))
def test_tail_starts_at_one_falls_and_matches_the_plain_sum(trials, chance):
    tails = [binomial_tail(k, trials, chance) for k in range(trials + 2)]
    assert tails[0] == 1.0
    assert tails[-1] == 0.0
    assert all(tails[i] >= tails[i + 1] - 1e-12 for i in range(len(tails) - 1))
    plain_sum = sum(math.comb(trials, x) * chance**x * (1 - chance) ** (trials - x) for x in range(1, trials + 1))
    if trials:
        assert tails[1] == pytest.approx(plain_sum, abs=1e-9)


def test_tail_at_the_ends_of_chance():
    assert binomial_tail(3, 5, 0.0) == 0.0
    assert binomial_tail(3, 5, 1.0) == 1.0


def test_steps_that_another_program_stretched_are_said_and_steady_ones_are_not():
    def cell(*times):
        return StepSample(k=0, running=1, context_tokens=10, tokens_per_step=1, step_ms=times, output_tokens=len(times))

    assert unsteady("none", [cell(*[100.0 + i for i in range(20)])]) == []
    assert unsteady("none", [cell(100.0, 900.0)]) == []
    (found,) = unsteady("none", [cell(*[100.0] * 15, *[400.0] * 5)])
    assert found.code == "unsteady_steps"
    assert "300 %" in found.message
