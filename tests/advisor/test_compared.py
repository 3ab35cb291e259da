"""A trial's paired comparison and its steps timed one by one: every figure of a candidate stands on one of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice import advise
from advisor.compared import apart
from advisor.cost.step import Step
from advisor.decision import break_even_length, decide
from advisor.prediction import Pricing, price
from advisor.reasons import write_reasons
from advisor.record import AS_PAIRED, PAIRED, Record
from advisor.report.content import compared_words, crossover_words, headline
from advisor.report.curves import curves
from advisor.report.evidence_rows import evidence_table
from advisor.report.tables import candidate_table, step_table
from advisor.request_time import Request
from profiles.evidence import PairedBlock, PairedComparison
from profiles.schema import Quantity, Source
from tests.advisor.situations import BASELINE_MS, STEP_MS, cpu_situation, cpu_trial

SHORTER = {cell: 0.9 * BASELINE_MS[cell[0]] for cell in STEP_MS}
"""Steps that a busy machine timed shorter than plain ones."""


def pairs_of(*speedups: float, k: int = 5, running: int = 1) -> PairedComparison:
    pairs = tuple(PairedBlock(running=running, baseline_s=10.0 * s, speculative_s=10.0, baseline_tokens=400,
                              speculative_tokens=400) for s in speedups)
    return PairedComparison(candidate=cpu_trial().arms[1].candidate, k=k, running=running, mode="both_resident",
                            pairs=pairs, stopped="budget")


def busy(*speedups: float, running: int = 1, k: int = 5, **workload: object) -> Pricing:
    """Steps that promise a gain beside pairs that show what the argument says."""
    trial = cpu_trial(pairs_of(*speedups, k=k, running=running), with_cells=SHORTER)
    return price(cpu_situation(trial, concurrency=running, tasks="code", **workload))  # type: ignore[arg-type]


def record_of(*speedups: float, **workload: object) -> Record:
    trial = cpu_trial(pairs_of(*speedups), with_cells=SHORTER)
    situation = cpu_situation(trial, concurrency=1, tasks="code", **workload)  # type: ignore[arg-type]
    return advise(situation, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("speedup", [0.7, 0.95, 1.02, 1.4, 2.5])
def test_break_even_and_the_headline_never_contradict_each_other(speedup: float) -> None:
    pricing = busy(speedup, 1.01 * speedup, 0.99 * speedup)
    candidate = pricing.candidates[0]
    for k in candidate.k:
        for running in pricing.loads:
            cell = pricing.at(candidate, k, running)
            even = break_even_length(pricing, candidate, k, running)
            if even is None:
                assert cell.speedup.value < 1.0, "no acceptance would do"
                continue
            assert (cell.speedup.value > 1.0) == (cell.acceptance_length.value > even), (k, running)


@pytest.mark.parametrize("speedup", [0.8, 1.3])
def test_the_speed_up_a_schedule_goes_by_is_that_of_the_table(speedup: float) -> None:
    pricing = busy(speedup, speedup * 1.02, speedup * 0.98, running=4, k=3)
    candidate = pricing.candidates[0]
    for k in candidate.k:
        for running in pricing.loads:
            assert pricing.speedup(candidate, k, running) == pytest.approx(
                pricing.at(candidate, k, running).speedup.value, rel=1e-9)


def test_the_step_shown_is_as_long_as_the_pairs_show() -> None:
    pricing = busy(0.9, 0.91, 0.89)
    cell = pricing.at(pricing.candidates[0], 5, 1)
    parts = cell.draft_ms + cell.verify_ms + cell.overhead_ms
    assert parts == pytest.approx(cell.step_ms.value)
    decode = cell.acceptance_length.value * cell.baseline_step_ms.value / cell.step_ms.value
    assert decode == pytest.approx(cell.decode_speedup.value)
    # Prompts and the first step cost both sides something as well: on the same side of a gain, not the same figure.
    assert 0.85 < decode < 1.0
    assert cell.speedup.value == pytest.approx(0.9, abs=0.01)
    assert any(note.startswith(AS_PAIRED) for note in cell.notes)
    assert cell.unpaired_speedup is not None
    assert cell.unpaired_speedup.value > 2.0


def test_a_candidate_that_was_not_compared_keeps_its_steps() -> None:
    pricing = price(cpu_situation(cpu_trial(with_cells=SHORTER), concurrency=1, tasks="code"))
    cell = pricing.at(pricing.candidates[0], 5, 1)
    assert cell.unpaired_speedup is None
    assert not any(note.startswith(AS_PAIRED) for note in cell.notes)
    assert any("timed shorter" in note for note in cell.notes), "and says that they cannot be"


def test_the_crossover_follows_the_pairs_too() -> None:
    losing = busy(0.6, 0.61, 0.59)
    assert decide(losing).decision.crossover_load == 1
    record = record_of(0.6, 0.61, 0.59)
    assert crossover_words(record) == "no k gains at any load"
    assert not any(gain for curve in curves(record) for gain in curve.gains.values())


def test_two_bases_further_apart_than_either_is_unsure_are_said_in_one_sentence() -> None:
    def said(pricing: Pricing) -> list[str]:
        reasons = write_reasons(pricing, decide(pricing))
        return [r.sentence for r in reasons if r.question == "evidence" and "Two measurements" in r.sentence]

    assert len(said(busy(0.9, 0.91, 0.89))) == 1
    alike = price(cpu_situation(cpu_trial(), concurrency=1, tasks="code"))
    value = alike.at(alike.candidates[0], 5, 1).speedup.value
    agreeing = cpu_trial(pairs_of(value, value * 1.01, value * 0.99))
    assert said(price(cpu_situation(agreeing, concurrency=1, tasks="code"))) == []


def test_a_figure_carried_over_to_other_lengths_says_so_wherever_it_stands() -> None:
    record = record_of(1.5, 1.51, 1.49, prompt_tokens=2000, output_tokens=48)
    note = compared_words(record)
    assert note.startswith(PAIRED)
    assert "1.50 times there" in note
    assert "carried over to 2000 and 48" in note
    assert "less of a request is decode" in note
    assert ("Paired comparison", note) in headline(record).facts
    first = evidence_table(record, curves(record)).rows[0]
    assert note in first[-1]
    assert compared_words(record_of(1.5, 1.51, 1.49)) == "", "at the trial's own lengths there is nothing to carry"


def test_in_the_candidates_table_those_that_were_not_compared_say_so() -> None:
    record = record_of(1.5, 1.51, 1.49)
    assert record.decision.enable is not False
    found = curves(record)
    (own, null) = candidate_table(record, found).rows
    assert "not compared in pairs" not in own[-1]
    assert null[0] == "no speculation"
    plain = record.candidates[-1].model_copy(update={"unpaired_speedup": None, "label": "other", "candidate":
                                                     record.candidates[-1].candidate.model_copy(update={"k": (5,)})})
    both = record.model_copy(update={"candidates": (*record.candidates, plain.model_copy(update={"running": 1}))})
    rows = {row[0]: row[-1] for row in candidate_table(both, curves(both)).rows}
    assert rows["other"].endswith("by its steps alone, not compared in pairs")


def test_the_step_table_leads_to_the_figure_of_the_headline() -> None:
    record = record_of(0.9, 0.91, 0.89)
    curve = curves(record)[0]
    rows = {row[0]: row for row in step_table(curve).rows}
    assert float(rows["k=5"][-1]) > float(rows["without"][-1]), "a loss shows as more milliseconds per token"


@given(st.floats(0.6, 3.0), st.floats(1.0, 64.0), st.floats(0.0, 50.0), st.floats(1.0, 200.0))
def test_at_another_pace_a_request_takes_so_many_times_as_long(longer: float, running: float, prompt: float,
                                                              steps: float) -> None:
    step = Step(2.0, 10.0, 1.0, 0.1, 0.1, Source.MEASURED)
    request = Request(prompt + step.ms / running, 5.0, steps, step, running, 2.0, 2.0 * steps)
    found = request.at_pace(longer)
    if found.step.ms > 0.06 * step.ms:
        assert found.total_ms == pytest.approx(longer * request.total_ms, rel=1e-9)
    assert found.step.draft_ms / found.step.ms == pytest.approx(step.draft_ms / step.ms)
    assert (found.step.ms > step.ms) == (longer > 1.0) or math.isclose(longer, 1.0, rel_tol=1e-9)


def test_intervals_are_apart_where_they_do_not_touch() -> None:
    def between(low: float, high: float) -> Quantity:
        return Quantity(value=(low + high) / 2, low=low, high=high, source=Source.MEASURED)

    assert apart(between(1.1, 1.3), between(0.8, 1.0))
    assert apart(between(0.8, 1.0), between(1.1, 1.3))
    assert not apart(between(0.9, 1.2), between(1.1, 1.3))
    assert not apart(Quantity(value=2.0, source=Source.MEASURED), between(0.8, 1.0))
