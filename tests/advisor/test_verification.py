"""What is said of a record's promises: held, broken, undecided, and what there is to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.promise import k_asked, promised_at
from advisor.record import Record
from advisor.verdict import Promise, Verification
from advisor.verification import length_at, verify
from profiles.evidence import ServerEvidence, SpeculationCounters
from profiles.plausibility import judged_server
from profiles.schema import Quantity, Source
from tests.advisor import synthetic_readings as syn
from tests.advisor.report import synthetic_record as records

ON, OFF = records.enabled(), records.off()
FLAT = ON.model_copy(update={"decision": ON.decision.model_copy(update={"schedule": None})})
"""The same without a schedule: one k at every load."""
RECORDS = {"scheduled": ON, "one k": FLAT, "off": OFF, "not decided": records.abstained()}
GOOD = (0.72, 0.518, 0.373)
"""What the synthetic record was priced with."""


def like_promised(record: Record, load: float = 4.0, positions: tuple[float, ...] = GOOD, drafts: float | None = None,
                  **changes: Any) -> ServerEvidence:
    """A server that does at `load` what the record says, speculating with these positions."""
    k = k_asked(record, load)
    promised = promised_at(record, k, load)
    assert promised is not None
    speculation = syn.counters(positions[:k] if len(positions) > k else positions, drafts or 4000 * load) \
        if record.decision.enable else None
    changes.setdefault("tokens_per_s", promised.tokens_per_s.value)
    changes.setdefault("tpot_ms", promised.tpot_ms.value)
    return syn.evidence(load=load, speculation=speculation, **changes)


def promise(found: Verification, code: str) -> Promise:
    return next(one for one in found.promises if one.code == code)


def test_a_server_that_does_what_was_promised_is_kept() -> None:
    found = verify(ON, like_promised(ON))
    assert (found.verdict, found.action) == ("held", "keep")
    assert {one.code: one.verdict for one in found.promises} == {
        "engine": "held", "model": "held", "speculation": "held", "k": "held", "load": "held", "acceptance": "held",
        "gain": "held", "tpot": "held", "tokens_per_request": "held"}
    assert found.watch_s is None


def test_every_judged_promise_states_what_was_promised_found_and_how_surely() -> None:
    for one in verify(ON, like_promised(ON)).promises:
        if one.code in ("acceptance", "gain", "tpot", "tokens_per_request"):
            assert one.promised is not None
            assert one.found is not None
            assert one.found.low is not None
            assert one.found.n is not None
            assert one.edge is not None
            assert one.unit


def test_counters_that_cannot_be_judge_no_acceptance_and_say_why() -> None:
    server = like_promised(ON)
    assert server.speculation is not None
    wrong = server.speculation.model_copy(update={"accepted_tokens": 9 * server.speculation.draft_tokens})
    found = verify(ON, judged_server(server.model_copy(update={"speculation": wrong})))
    assert promise(found, "acceptance").verdict == "undecided"
    assert "cannot be right" in promise(found, "acceptance").sentence
    assert promise(found, "gain").verdict == "noted"
    assert found.yields == ()


def test_acceptance_below_the_promise_and_above_break_even_asks_for_a_new_advice() -> None:
    found = verify(FLAT, like_promised(FLAT, positions=(0.62, 0.39, 0.25)))
    assert promise(found, "acceptance").verdict == "broken"
    assert promise(found, "gain").verdict == "held"
    assert (found.verdict, found.action) == ("broken", "advise_again")


def test_acceptance_below_break_even_rolls_back_where_no_k_pays() -> None:
    found = verify(FLAT, like_promised(FLAT, positions=(0.08, 0.01, 0.0)))
    assert promise(found, "gain").verdict == "broken"
    assert (found.verdict, found.action, found.k) == ("broken", "roll_back", 0)
    assert all(one.gain < 1 for one in found.yields)


def test_step_times_that_leave_break_even_open_are_said_and_no_amount_of_watching_is_asked_for() -> None:
    # The same prices with step times known to a factor of three, as a model without measurements knows them.
    cells = tuple(c.model_copy(update={"decode_speedup": c.decode_speedup.model_copy(
        update={"low": c.decode_speedup.value / 3, "high": c.decode_speedup.value * 3})}) for c in FLAT.candidates)
    vague = FLAT.model_copy(update={"candidates": cells})
    found = verify(vague, like_promised(vague, positions=(0.08, 0.01, 0.0)))
    gain = promise(found, "gain")
    assert gain.verdict == "noted"
    assert "a trial would tell" in gain.sentence
    assert (found.verdict, found.action) == ("broken", "roll_back")


def test_acceptance_that_pays_only_for_a_shorter_draft_changes_k() -> None:
    found = verify(FLAT, like_promised(FLAT, positions=(0.3, 0.01, 0.0)))
    assert (found.verdict, found.action, found.k) == ("broken", "change_k", 1)
    assert "num_speculative_tokens to 1" in found.advice


def test_a_longer_draft_that_would_do_better_is_advised_without_calling_the_promise_broken() -> None:
    found = verify(FLAT, like_promised(FLAT, positions=(0.97, 0.95, 0.93)))
    assert (found.verdict, found.action) == ("held", "change_k")
    assert found.k is not None
    assert found.k > 3


def test_slow_tokens_are_broken_unless_the_busiest_moment_explains_them() -> None:
    slow = like_promised(ON, tpot_ms=12.0)
    assert promise(verify(ON, slow), "tpot").verdict == "broken"
    busy = Quantity(value=4, low=1, high=60, n=9, source=Source.RECORDED)
    assert promise(verify(ON, slow.model_copy(update={"running": busy})), "tpot").verdict == "undecided"


def test_slow_requests_are_broken_by_tokens_per_second_too() -> None:
    found = verify(ON, like_promised(ON, tokens_per_s=100.0))
    assert promise(found, "tokens_per_request").verdict == "broken"
    assert found.verdict == "broken"


def test_load_beyond_the_crossover_is_broken_where_no_schedule_idles_speculation() -> None:
    far = FLAT.model_copy(update={"decision": FLAT.decision.model_copy(update={"crossover_load": 40})})
    found = verify(far, like_promised(far, load=60.0))
    assert promise(found, "load").verdict == "broken"
    assert "beyond the crossover at 40" in promise(found, "load").sentence
    assert found.action == "roll_back"


def test_load_beyond_the_crossover_is_noted_where_the_schedule_drafts_nothing_there() -> None:
    far = ON.model_copy(update={"decision": ON.decision.model_copy(update={"crossover_load": 40})})
    idle = syn.counters(GOOD, 100, in_window=False)
    found = verify(far, syn.evidence(load=60.0, speculation=idle, tpot_ms=None))
    assert promise(found, "load").verdict == "noted"
    assert "drafts nothing there" in promise(found, "load").sentence


def test_load_in_another_band_and_beyond_all_bands_is_said() -> None:
    other = verify(ON, like_promised(ON, load=20.0))
    assert "another band of the schedule, k = 1 instead of 3" in promise(other, "load").sentence
    short = ON.model_copy(update={"decision": ON.decision.model_copy(
        update={"schedule": ((1, 8, 3), (9, 16, 1)), "crossover_load": None})})
    beyond = verify(short, like_promised(short, load=30.0))
    assert promise(beyond, "load").verdict == "broken"
    assert "last band ends at 16" in promise(beyond, "load").sentence


@pytest.mark.parametrize("drafts", [3, 20])
def test_too_few_drafts_cannot_tell_and_say_how_long_to_watch(drafts: float) -> None:
    found = verify(FLAT, like_promised(FLAT, drafts=drafts))
    assert promise(found, "acceptance").verdict == "undecided"
    assert (found.verdict, found.action) == ("undecided", "watch_longer")
    assert found.watch_s is not None
    assert found.watch_s > 60
    assert "--window" in found.advice


def test_an_idle_server_cannot_tell_and_names_no_time() -> None:
    idle = syn.evidence(load=0.0, speculation=syn.counters(GOOD, 500, in_window=False), steps=0, requests=0,
                        tpot_ms=None, output_tokens_total=0)
    found = verify(ON, idle)
    assert (found.verdict, found.action, found.watch_s) == ("undecided", "watch_longer", None)
    assert "send traffic" in promise(found, "acceptance").sentence


def test_a_server_of_another_configuration_is_redeployed_and_its_speed_judges_nothing() -> None:
    found = verify(ON, syn.evidence(tpot_ms=500.0))
    assert (found.verdict, found.action) == ("broken", "redeploy")
    assert promise(found, "speed").verdict == "noted"
    assert not any(one.code == "tpot" for one in found.promises)


def test_a_record_without_speculation_is_held_by_the_speed_of_no_speculation() -> None:
    assert verify(OFF, like_promised(OFF, load=32.0)).verdict == "held"
    slow = verify(OFF, like_promised(OFF, load=32.0, tpot_ms=60.0))
    assert (slow.verdict, slow.action) == ("broken", "advise_again")


def test_a_load_that_fell_below_the_crossover_of_a_record_without_speculation_is_said() -> None:
    found = promise(verify(OFF, like_promised(OFF, load=2.0)), "load")
    assert found.verdict == "noted"
    assert "speculation may gain" in found.sentence


def test_requests_of_other_lengths_are_said() -> None:
    from profiles.workload import Lengths

    server = like_promised(ON).model_copy(update={"prompt_tokens": Lengths(mean=4000), "output_tokens": Lengths(
        mean=380)})
    (one,) = [p for p in verify(ON, server).promises if p.code == "lengths"]
    assert one.verdict == "noted"
    assert "4,000" in one.sentence


def test_replicas_are_judged_by_the_load_of_one() -> None:
    server = like_promised(ON)
    whole = Quantity(value=8, low=8, high=8, n=9, source=Source.RECORDED)
    assert server.generation_tokens_per_s is not None
    rate = server.generation_tokens_per_s.model_copy(update={"value": 2 * server.generation_tokens_per_s.value})
    found = verify(ON, server.model_copy(update={"engines": 2, "running": whole, "generation_tokens_per_s": rate}))
    assert found.verdict == "held"
    assert found.running is not None
    assert found.running.value == pytest.approx(4)


@given(st.integers(0, 6), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_the_length_of_another_k_grows_with_k_and_never_passes_it(k: int, rates: list[float]) -> None:
    positions = sorted(rates, reverse=True)
    found = [length_at(positions, n) for n in range(k + 1)]
    assert found == sorted(found)
    assert all(1 <= value <= n + 1 + 1e-9 for n, value in enumerate(found))


some_counters = st.builds(
    lambda rates, drafts, inside: syn.counters(tuple(sorted(rates, reverse=True)), drafts, in_window=inside),
    st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1e6), st.booleans())


@settings(max_examples=200)
@given(st.sampled_from(sorted(RECORDS)), st.one_of(st.none(), some_counters),
       st.floats(0, 500), st.floats(0, 1e5), st.one_of(st.none(), st.floats(0.1, 1e4)), st.booleans())
def test_any_server_gets_one_verdict_that_follows_from_its_promises(
        name: str, speculation: SpeculationCounters | None, load: float, steps: float, tpot_ms: float | None,
        windowed: bool) -> None:
    found = verify(RECORDS[name], syn.evidence(load=load, speculation=speculation, steps=steps, tpot_ms=tpot_ms,
                                               window_s=60.0 if windowed else 0.001))
    verdicts = [one.verdict for one in found.promises]
    assert found.verdict == ("broken" if "broken" in verdicts else "undecided" if "undecided" in verdicts else "held")
    assert found.advice.endswith(".") or "--window" in found.advice
    assert all(one.sentence for one in found.promises)
    assert (found.action == "watch_longer") <= (found.verdict == "undecided")
