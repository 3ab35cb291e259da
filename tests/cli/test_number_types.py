"""Numbers on the command line: every numeric option of every command refuses what is not finite or out of bounds."""

from __future__ import annotations

import math

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from advisor.cli.group import cli
from advisor.cli.number_types import Duration, Number, Whole, seconds_of
from advisor.cli.reference_pages import commands
from profiles.errors import InputError
from profiles.schema import MAX_SECONDS

BOUNDED = (Number, Whole, Duration)
NUMERIC = [
    (name, option.opts[-1])
    for name, command in commands(cli)
    for option in command.params
    if isinstance(option, click.Option) and isinstance(option.type, BOUNDED)
]


def test_no_option_takes_a_number_without_bounds() -> None:
    bare = (click.types.IntParamType, click.types.FloatParamType, click.types.FuncParamType)
    unbounded = [
        f"{name} {option.opts[-1]}"
        for name, command in commands(cli)
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag and not option.count
        and isinstance(option.type, bare) and not isinstance(option.type, BOUNDED)
    ]
    assert unbounded == []
    assert {"plan", "advise", "trial", "check", "verify", "probe gpu", "probe server", "probe requests",
            "probe replay", "probe scoring"} <= {name for name, _ in NUMERIC}


@pytest.mark.parametrize(("name", "flag"), NUMERIC)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "1e300", "9" * 5000, "x", "-2"])
def test_a_number_that_no_machine_can_mean_is_exit_2_and_one_sentence(name: str, flag: str, value: str) -> None:
    ran = CliRunner().invoke(cli, [*name.split(), flag, value])
    assert ran.exit_code == 2
    assert f"'{flag}'" in ran.output
    assert "expected" in ran.output


@given(st.floats() | st.integers().map(float))
def test_a_number_is_taken_exactly_where_it_is_within(value: float) -> None:
    kind = Number(0.5, 20.0, above=True)
    if 0.5 < value <= 20.0:
        assert kind.convert(repr(value), None, None) == value
    else:
        with pytest.raises(click.BadParameter, match=r"above 0\.5 and up to 20"):
            kind.convert(repr(value), None, None)


@given(st.integers() | st.floats())
def test_a_whole_number_is_taken_exactly_where_it_is_within(value: float) -> None:
    kind = Whole(-1, 7)
    if isinstance(value, int) and -1 <= value <= 7:
        assert kind.convert(repr(value), None, None) == value
    else:
        with pytest.raises(click.BadParameter, match="whole number from -1 to 7"):
            kind.convert(repr(value), None, None)


@given(st.floats(0.001, MAX_SECONDS))
def test_a_time_comes_back_in_any_of_its_forms(seconds: float) -> None:
    for text in (f"{seconds:.6f}", f"{seconds:.6f}s", f"{1000 * seconds:.3f}ms"):
        try:
            assert math.isclose(seconds_of(text), seconds, rel_tol=1e-3, abs_tol=1e-6)
        except InputError:
            assert seconds > 0.999 * MAX_SECONDS


@pytest.mark.parametrize(("text", "seconds"), [("2m", 120), ("500 ms", 0.5), ("1 h 30 m", 5400), (".5s", 0.5)])
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1s", "1d", "nan", "inf", "1e3", "9" * 400, "5m5h", "²s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a duration"):
        seconds_of(text)
