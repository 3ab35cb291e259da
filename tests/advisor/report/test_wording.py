"""Names as a legend shows them: short, and never two of a kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisor.report.content import headline
from advisor.report.wording import alike, distinct, span, spans
from tests.advisor.report import synthetic_record as synthetic


@given(st.lists(st.text(max_size=120), max_size=12), st.integers(24, 60))
def test_names_are_told_apart_and_fit(names: list[str], most: int) -> None:
    found = distinct(names, most)
    assert len(found) == len(names)
    assert len(set(found)) == len(found)
    assert all(len(shown) <= most + 4 for shown in found)


@given(st.lists(st.text(max_size=36), unique=True, max_size=8))
def test_short_names_stay_as_they_are(names: list[str]) -> None:
    assert distinct(names) == names


def test_the_part_in_which_long_names_differ_is_what_stays() -> None:
    long = "draft_model An-Uncommonly-Long-Model-Name-That-Somebody-Merged-Twice-Number-{}-Instruct-GPTQ-Int4, k={}"
    assert distinct([long.format(n, 3) for n in (7, 8)]) == [
        "draft_model…-Number-7-I…TQ-Int4, k=3", "draft_model…-Number-8-I…TQ-Int4, k=3"]
    assert [shown[-3:] for shown in distinct([long.format(7, k) for k in (1, 2)])] == ["k=1", "k=2"]


def test_a_bound_is_never_rounded_onto_the_threshold_that_it_is_held_against() -> None:
    assert span(1.04998, 1.44) == "1.05–1.44"
    assert span(1.04998, 1.44, apart=1.05) == "1.04998–1.44000"
    assert span(1.0512, 1.44, apart=1.05) == "1.051–1.440"
    assert span(1.05, 1.44, apart=1.05) == "1.05–1.44"
    record = synthetic.abstained()
    decision = record.decision.model_copy(update={"speedup_low": 1.04998, "speedup_high": 1.44})
    shown = headline(record.model_copy(update={"decision": decision}))
    assert "1.04998–1.44000×" in shown.meaning
    assert "1.04998–1.44000" in dict(shown.facts)["Speed-up, end to end"]


def test_intervals_of_one_column_have_the_same_decimals() -> None:
    assert spans([(1.052, 1.76), (1.53, 2.49), (None, None)], 1.05) == ["1.052–1.760", "1.530–2.490", "–"]
    assert spans([(1.31, 1.76), (0.9, 2.49)], 1.05) == ["1.31–1.76", "0.90–2.49"]


@given(st.lists(st.floats(0.01, 1e5), min_size=1, max_size=8))
def test_figures_of_one_column_have_the_same_decimals_and_none_is_lost(values: list[float]) -> None:
    shown = alike(values)
    assert len({len(text.partition(".")[2]) for text in shown}) == 1
    if max(values) < 10:
        assert all(abs(float(text) - value) <= 0.0051 for text, value in zip(shown, values, strict=True))


def test_a_rate_of_nine_beside_one_of_a_hundred_keeps_two_digits() -> None:
    assert alike([9.28, 105.4]) == ["9.3", "105.4"]
    assert alike([98.72, 1034.4]) == ["99", "1,034"]
    assert alike([9.281, 6.46, 4.75]) == ["9.28", "6.46", "4.75"]
