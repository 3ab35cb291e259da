import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.scoring.sampling import SampledAs, chance_among

SHARES = st.lists(st.integers(1, 50), min_size=2, max_size=12, unique=True)


def logs(shares):
    return {token: math.log(share) for token, share in enumerate(shares)}


def test_greedy_takes_the_likeliest_and_nothing_else():
    likely = logs([0.5, 0.3, 0.2])
    assert [chance_among(token, likely, SampledAs()) for token in range(3)] == [1.0, 0.0, 0.0]


def test_at_temperature_one_a_probability_is_what_it_is():
    assert chance_among(1, logs([0.5, 0.3]), SampledAs(1.0)) == pytest.approx(0.3)


@given(SHARES, st.floats(0.3, 1.0), st.floats(0.2, 1.0), st.integers(1, 14))
def test_chances_of_a_whole_distribution_sum_to_one_under_any_filter(counts, temperature, top_p, top_k):
    likely = logs([count / sum(counts) for count in counts])
    for sampled in (SampledAs(temperature), SampledAs(temperature, top_p), SampledAs(temperature, top_p, top_k)):
        total = sum(chance_among(token, likely, sampled) for token in likely)
        assert total == pytest.approx(1.0, abs=1e-6)


@given(SHARES)
def test_cooling_favours_the_likeliest(counts):
    likely = logs([count / sum(counts) for count in counts])
    best = max(likely, key=likely.__getitem__)
    warm, cool = (chance_among(best, likely, SampledAs(t)) for t in (1.0, 0.5))
    assert cool >= warm - 1e-9


def test_top_p_and_top_k_leave_the_rest_no_chance():
    likely = logs([0.6, 0.3, 0.1])
    assert chance_among(1, likely, SampledAs(1.0, top_p=0.5)) == 0.0
    assert chance_among(0, likely, SampledAs(1.0, top_p=0.5)) == pytest.approx(1.0)
    assert chance_among(2, likely, SampledAs(1.0, top_k=2)) == 0.0
    assert chance_among(1, likely, SampledAs(1.0, top_k=2)) == pytest.approx(1 / 3)


def test_a_token_that_is_not_among_the_likeliest_counts_as_never_taken():
    assert chance_among(9, logs([0.6, 0.3]), SampledAs(1.0)) == 0.0
