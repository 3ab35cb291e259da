"""The k shown is the k that would be chosen, and a report says why where another figure is larger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.advice import advise
from advisor.decision import best_cell
from advisor.prediction import price
from advisor.record import Record
from advisor.report import render
from advisor.report.curves import Curve, curves
from advisor.report.tables import load_table, star_words
from tests.advisor.report import synthetic_record as synthetic
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

NOW = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def record() -> Record:
    return advise(gpu_situation(concurrency=8, prompt_tokens=300, output_tokens=300, tasks="json"), NOW)


def test_at_each_load_the_k_is_marked_that_would_be_decided_for_there() -> None:
    timed = cpu_situation(cpu_trial(), concurrency=4, tasks="code")
    for situation in (gpu_situation(concurrency=8, tasks="json"), timed):
        record, pricing = advise(situation, NOW), price(situation)
        for load in pricing.loads:
            cell = best_cell(pricing, load, (pricing.candidates[0],))
            assert cell is not None
            marked = [c.k for c in record.candidates if c.chosen and (c.running, c.label) == (load, cell.label)]
            assert marked == [cell.k]


def test_the_marked_k_at_the_usual_load_is_the_decided_one(record: Record) -> None:
    (marked,) = [c.k for c in record.candidates
                 if c.chosen and c.running == record.decision.running and c.candidate.method == record.decision.method]
    assert marked == record.decision.k


def test_the_star_and_the_column_of_a_row_agree_and_a_larger_figure_is_explained(record: Record) -> None:
    curve = curves(record)[0]
    found = load_table(record, curve)
    ks = [int(name.removeprefix("k=")) for name in found.columns if name.startswith("k=")]
    for row in found.rows:
        (starred,) = [ks[i] for i, cell in enumerate(row[1 : 1 + len(ks)]) if cell.rstrip().endswith("*")]
        assert row[1 + len(ks)] == str(starred)
    larger = any(curve.largest(load).speedup.value > curve.best(load).speedup.value + 0.01  # type: ignore[union-attr]
                 for load in curve.loads)
    assert ("not always the largest figure" in star_words(curve)) == (curve.passes_over or larger)


def marked(curve: Curve, k: int) -> Curve:
    cells = {key: cell.model_copy(update={"chosen": key[1] == k}) for key, cell in curve.cells.items()}
    return replace(curve, cells=cells, decided_k=None, chosen=False)


def test_what_the_record_marks_wins_over_the_largest_figure() -> None:
    curve = marked(curves(synthetic.enabled())[0], 1)
    assert {curve.best(load).k for load in curve.loads} == {1}  # type: ignore[union-attr]
    assert curve.passes_over
    assert "noise" in star_words(curve)


def test_a_record_that_marks_nothing_shows_the_largest() -> None:
    curve = replace(curves(synthetic.enabled())[0], decided_k=None)
    for load in curve.loads:
        assert curve.best(load) is curve.largest(load)
    assert not curve.passes_over


def test_a_candidate_that_cannot_run_has_no_figures_in_a_report() -> None:
    heads = [{"method": "eagle3", "draft": "meta-llama/Llama-3.2-1B-Instruct", "k": "1-3"},
             {"method": "ngram", "k": "1-3"}]
    record = advise(gpu_situation("H100", concurrency=1, tasks="code", candidates=heads), NOW)
    label = "eagle3 Llama-3.2-1B-Instruct"
    assert any(cell.label == label and not cell.fits for cell in record.candidates)
    text = render(record, "markdown")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {label.replace('_', chr(92) + '_')} |")
              and "cannot run" in line]
    assert row.count("–") == 6
    positions = text[text.index("## Acceptance by position"):].split("\n## ")[0]
    assert label not in positions
    assert f"{label} is left out" in text
