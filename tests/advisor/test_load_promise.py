"""At which loads a record's promise can be held, and what is said at the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from advisor.load_promise import load_promise, priced_there
from advisor.promise import promised_at
from advisor.record import Record
from advisor.verdict import Promise, Verification
from advisor.verification import verify
from profiles.schema import Quantity, Source

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "report"))
import synthetic_readings as syn
import synthetic_record as records

ON, OFF = records.enabled(), records.off()
FLAT = ON.model_copy(update={"decision": ON.decision.model_copy(update={"schedule": None, "crossover_load": None})})
"""One k at every load, and no crossover known."""
LARGEST = max(cell.running for cell in FLAT.candidates)
ANOTHER = 16.0
"""A priced load, far from the one decided for."""
GOOD, BAD = (0.72, 0.518, 0.373), (0.08, 0.01, 0.0)


def priced_up_to(record: Record, most: int) -> Record:
    """The same record with the larger loads left unpriced."""
    return record.model_copy(update={"candidates": tuple(c for c in record.candidates if c.running <= most)})


def vague(record: Record) -> Record:
    """Step times known to a factor of three."""
    cells = tuple(c.model_copy(update={"decode_speedup": c.decode_speedup.model_copy(update={
        "low": c.decode_speedup.value / 3, "high": c.decode_speedup.value * 3})}) for c in record.candidates)
    return record.model_copy(update={"candidates": cells})


def at(record: Record, load: float, positions: tuple[float, ...] = GOOD) -> Verification:
    speculation = syn.counters(positions, 4000 * load) if record.decision.enable else None
    return verify(record, syn.evidence(load=load, speculation=speculation, tpot_ms=None))


def promise(found: Verification, code: str) -> Promise:
    return next(one for one in found.promises if one.code == code)


def test_a_load_that_was_not_priced_is_undecided_whatever_is_accepted() -> None:
    small = priced_up_to(FLAT, 4)
    for positions in (GOOD, BAD):
        found = at(small, 58.0, positions)
        load = promise(found, "load")
        assert load.verdict == "undecided"
        assert "58" in load.sentence
        assert "no load above 4" in load.sentence
        assert found.verdict != "held"
    assert (at(small, 58.0).verdict, at(small, 58.0).action) == ("undecided", "advise_again")
    assert "58" in at(small, 58.0).advice


def test_without_speculation_an_unpriced_load_is_undecided_too() -> None:
    small = priced_up_to(OFF, 4)
    assert promise(verify(small, syn.evidence(load=58.0)), "load").verdict == "undecided"


def test_at_another_priced_load_the_break_even_there_decides() -> None:
    good, bad = at(FLAT, ANOTHER), at(FLAT, ANOTHER, BAD)
    assert promise(good, "gain").verdict == "held"
    assert promise(good, "load").verdict == "held"
    assert "another load" in promise(good, "load").sentence
    assert promise(bad, "gain").verdict == "broken"
    assert bad.verdict == "broken"


def test_break_even_that_is_open_at_another_load_is_no_promise_held() -> None:
    there, far = at(vague(FLAT), 4.0), at(vague(FLAT), ANOTHER)
    assert promise(there, "load").verdict == "held"
    assert promise(far, "gain").verdict == "noted"
    assert promise(far, "load").verdict == "undecided"
    assert far.verdict != "held"


@pytest.mark.parametrize(("load", "there"), [(0.5, False), (1.0, True), (LARGEST, True), (1.2 * LARGEST, True),
                                             (1.3 * LARGEST, False)])
def test_a_record_speaks_of_the_loads_it_priced_and_a_little_beyond(load: float, there: bool) -> None:
    assert priced_there(FLAT, load) is there


def test_a_load_within_the_schedule_is_what_was_decided() -> None:
    load = Quantity(value=8.0, low=7.0, high=9.0, n=9, source=Source.RECORDED)
    found = load_promise(ON, load, False, None)
    assert found.verdict == "held"
    assert "another load" not in found.sentence


def test_a_load_a_little_past_the_largest_priced_one_is_judged_by_that_one_and_says_so() -> None:
    past = at(FLAT, 1.2 * LARGEST)
    load, gain, acceptance = (promise(past, code) for code in ("load", "gain", "acceptance"))
    assert load.verdict != "held"
    assert f"the figures are those of {LARGEST}, the largest load that the record priced" in load.sentence
    assert gain.verdict != "held"
    for one in (gain, acceptance):
        assert f"of {LARGEST} running, the largest load priced" in one.sentence.replace("at ", "of ")
    assert past.yields == ()
    within = at(FLAT, LARGEST)
    assert all("largest load" not in one.sentence for one in within.promises)


def test_times_past_the_largest_priced_load_are_broken_only_where_the_load_does_not_explain_them() -> None:
    promised = promised_at(FLAT, 3, LARGEST)
    assert promised is not None
    assert promised_at(FLAT, 3, 1.2 * LARGEST) == promised
    for factor, verdict in ((1.18, "undecided"), (9.0, "broken")):
        high = promised.tpot_ms.high or promised.tpot_ms.value
        found = verify(FLAT, syn.evidence(load=1.2 * LARGEST, speculation=syn.counters(GOOD, 9000),
                                          tpot_ms=factor * max(high, 1.05 * promised.tpot_ms.value)))
        tpot = promise(found, "tpot")
        assert tpot.verdict == verdict
        assert f"at {LARGEST} running, the largest load priced" in tpot.sentence
