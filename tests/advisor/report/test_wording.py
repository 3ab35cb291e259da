"""Names as a legend shows them: short, and never two of a kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisor.report.content import headline
from advisor.report.wording import distinct, span
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
    assert span(1.04998, 1.44, apart=1.05) == "1.04998–1.44"
    assert span(1.0512, 1.44, apart=1.05) == "1.051–1.44"
    assert span(1.05, 1.44, apart=1.05) == "1.05–1.44"
    record = synthetic.abstained()
    decision = record.decision.model_copy(update={"speedup_low": 1.04998, "speedup_high": 1.44})
    shown = headline(record.model_copy(update={"decision": decision}))
    assert "1.04998–1.44×" in shown.meaning
    assert "1.04998–1.44" in dict(shown.facts)["Speed-up, end to end"]
