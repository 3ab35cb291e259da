import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.intervals import (
    Z80,
    log_sd_of,
    mean_and_error,
    normal_cdf,
    probability_above,
    student_cdf,
    student_quantile,
)


@pytest.mark.parametrize(
    ("p", "df", "printed"),
    [
        (0.975, 2, 4.3027),
        (0.9, 2, 1.8856),
        (0.95, 10, 1.8125),
        (0.99, 5, 3.3649),
        (0.9, 1, 3.0777),
        (0.975, 1000, 1.9623),
    ],
)
def test_student_quantiles_are_those_of_printed_tables(p: float, df: int, printed: float) -> None:
    assert student_quantile(p, df) == pytest.approx(printed, abs=1e-4)


@given(st.floats(0.001, 0.999), st.integers(1, 200))
def test_student_quantile_inverts_the_distribution(p: float, df: int) -> None:
    assert student_cdf(student_quantile(p, df), df) == pytest.approx(p, abs=1e-6)


def test_an_80_percent_interval_holds_80_percent() -> None:
    assert normal_cdf(Z80) - normal_cdf(-Z80) == pytest.approx(0.8)


def test_a_certain_value_is_above_or_not() -> None:
    assert probability_above(1.2, 0.0, 1.05) == 1.0
    assert probability_above(1.0, 0.0, 1.05) == 0.0


def test_the_middle_of_an_interval_is_exceeded_half_of_the_time() -> None:
    assert probability_above(1.3, 0.2, 1.3) == pytest.approx(0.5)


def test_an_interval_gives_back_the_spread_it_was_made_from() -> None:
    import math

    assert log_sd_of(1.5 * math.exp(-Z80 * 0.1), 1.5 * math.exp(Z80 * 0.1)) == pytest.approx(0.1)
    assert log_sd_of(None, 2.0) == 0.0


def test_one_value_has_no_error_of_its_mean() -> None:
    assert mean_and_error([2.0]) == (2.0, 0.0)
