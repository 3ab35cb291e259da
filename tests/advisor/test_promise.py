"""What a record promises at loads it priced, between them, and beyond them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.promise import break_even_at, decided_candidate, k_asked, k_loaded, ks_priced, largest_load, promised_at
from tests.advisor.report import synthetic_record as records

ON, OFF, OPEN = records.enabled(), records.off(), records.abstained()


def test_a_priced_load_is_promised_as_it_was_priced() -> None:
    cell = next(c for c in ON.candidates if c.label == records.DRAFT_MODEL.label and (c.k, c.running) == (3, 16))
    found = promised_at(ON, 3, 16)
    assert found is not None
    assert (found.tpot_ms, found.acceptance_length) == (cell.tpot_ms, cell.acceptance_length)


@given(st.floats(1, 64))
def test_between_two_priced_loads_the_promise_lies_between_theirs(running: float) -> None:
    below, above = max(n for n in records.LOADS if n <= running), min(n for n in records.LOADS if n >= running)
    ends = [promised_at(ON, 3, n) for n in (below, above)]
    found = promised_at(ON, 3, running)
    assert found is not None
    values = sorted(one.tpot_ms.value for one in ends if one is not None)
    assert values[0] - 1e-9 <= found.tpot_ms.value <= values[1] + 1e-9
    assert found.tpot_ms.low is not None
    assert found.tpot_ms.high is not None
    assert found.tpot_ms.low <= found.tpot_ms.value <= found.tpot_ms.high


def test_far_beyond_the_priced_loads_nothing_is_promised() -> None:
    assert promised_at(ON, 3, 70) is not None
    assert promised_at(ON, 3, 200) is None
    assert break_even_at(ON, 3, 200) is None
    assert promised_at(ON, 9, 4) is None


def test_break_even_at_the_load_decided_for_is_the_record_s_own() -> None:
    found = break_even_at(ON, 3, 4)
    assert found is not None
    assert found.value == pytest.approx(ON.decision.break_even_acceptance_length)


def test_break_even_rises_with_the_load_where_steps_get_dearer() -> None:
    found = [break_even_at(ON, 3, n) for n in records.LOADS]
    values = [one.value for one in found if one is not None]
    assert values == sorted(values)
    assert len(values) == len(records.LOADS)


def test_a_record_that_is_off_or_open_promises_the_null_candidate() -> None:
    for record in (OFF, OPEN):
        assert decided_candidate(record).method == "none"
        assert (k_loaded(record), k_asked(record, 4), ks_priced(record)) == (0, 0, ())
        assert promised_at(record, 0, 4) is not None


def test_the_schedule_says_which_k_a_load_gets_and_which_the_engine_was_started_with() -> None:
    assert [k_asked(ON, n) for n in (1, 8, 20, 100, 1000)] == [3, 3, 1, 0, 0]
    assert k_loaded(ON) == 3
    assert ks_priced(ON) == (1, 2, 3, 4, 5)
    assert largest_load(ON) == 64
