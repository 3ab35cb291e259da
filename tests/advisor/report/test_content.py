"""What a report says before its tables."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from advisor.advice import advise
from advisor.cli.trial_text import trial_text
from advisor.emit.heading import decision_lines
from advisor.record import AtRate, Record
from advisor.report import render
from advisor.report.candidate_verdict import why
from advisor.report.content import headline
from advisor.report.curves import curves
from advisor.report.tables import load_table
from profiles.evidence import Block, TrialEvidence
from profiles.schema import Quantity, Source
from tests.advisor.report import synthetic_record as synthetic
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation
from tests.advisor.test_prediction import comparison
from tests.advisor.test_startable import with_head

NOW = "2026-01-01T00:00:00Z"


def cramped(**engine: Any) -> Record:
    return advise(gpu_situation("RTX 4090", engine={"gpu_memory_utilization": 0.5, **engine}, concurrency=1), NOW)


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_a_target_that_does_not_fit_is_the_headline_and_not_that_nothing_is_decided(name: str) -> None:
    record = cramped()
    shown = headline(record)
    assert shown.title == "The target does not fit"
    assert "take 15.0 GiB" in shown.meaning
    assert "usable" in shown.meaning
    text = render(record, name)
    assert "Not decided" not in text
    assert "NOT DECIDED" not in text


def test_a_config_that_does_not_start_is_the_headline() -> None:
    stated = with_head("0.32.0")
    broken = replace(stated, deployment=stated.deployment.model_copy(update={
        "engine": stated.deployment.engine.model_copy(update={"max_model_len": 262_144})}))
    assert headline(advise(broken, NOW)).title == "This deployment does not start"


def test_a_file_written_for_what_cannot_be_served_says_so() -> None:
    decision = cramped().decision
    assert any("cannot be served" in line for line in decision_lines(decision, decision.reasons))
    open_ended = synthetic.abstained().decision
    assert not any("cannot be served" in line for line in decision_lines(open_ended, open_ended.reasons))


def test_the_k_of_the_box_and_those_of_the_schedule_are_brought_together() -> None:
    record = synthetic.enabled()
    assert record.decision.schedule is not None
    assert dict(headline(record).facts)["k"] == "3", "the engine is started with it, too"
    schedule = ((1, 2, 5), (3, 8, 3), (9, 256, 1))
    decision = record.decision.model_copy(update={"schedule": schedule})
    larger = record.model_copy(update={"decision": decision})
    assert dict(headline(larger).facts)["k"] == (
        "3 at 4 running requests; the engine is started with 5, the schedule's largest")
    rate = AtRate(arrival_rate_rps=2.5, running_without=4.1, running_with=1.9, speedup=2.1)
    at_rate = larger.model_copy(update={"at_rate": rate})
    assert dict(headline(at_rate).facts)["k"].endswith(
        "at 2.50 requests/s about 1.90 run with it, where the schedule asks for 5")


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_where_no_candidate_can_run_memory_has_no_column_with_one(name: str) -> None:
    record = advise(gpu_situation(candidates=[{"method": "mtp", "k": [1]}], concurrency=1), NOW)
    assert "mtp" not in record.memory_by_candidate
    assert record.memory.draft_weights_gib == 0.0
    text = render(record, name)
    assert "no candidate can run beside it" in " ".join(text.split())
    memory = text[text.rindex("no candidate can run beside it"):]
    assert "with speculation" not in memory.split("max-model-len")[0].split("Evidence")[0].replace(
        "without speculation", "")


def cell_of(record: Record, **changes: Any) -> str:
    curve = next(one for one in curves(record) if not one.chosen)
    assert curve.headline is not None
    cell = curve.headline.model_copy(update=changes)
    return why(record, curve, cell, cell.speedup.value)


def q(value: float, low: float, high: float) -> Quantity:
    return Quantity(value=value, low=low, high=high, source=Source.MEASURED)


def test_a_candidate_that_loses_is_told_by_the_part_that_would_turn_it() -> None:
    off = synthetic.off()
    told = cell_of(off, speedup=q(0.9, 0.88, 0.92), held_back_by="verify_compute", held_back_from=1.31,
                   limited_by="acceptance")
    assert told == "loses: verifying the drafted tokens takes too long (1.31x were it as quick as a plain step)"
    wide = cell_of(off, speedup=q(0.9, 0.6, 1.4), held_back_by="draft_time", held_back_from=1.2)
    assert wide.endswith(", though its interval reaches a gain")
    sure = cell_of(off, speedup=q(1.2, 1.0, 1.4), held_back_by="uncertainty", limited_by="acceptance")
    assert sure == "its gain is not certain enough"


def test_an_abstention_blames_its_interval_and_no_part_that_is_well() -> None:
    record = synthetic.abstained()
    curve = next(one for one in curves(record) if one.chosen)
    assert curve.headline is not None

    def told(**changes: Any) -> str:
        assert curve.headline is not None
        cell = curve.headline.model_copy(update=changes)
        return why(record, curve, cell, cell.speedup.value)

    assert told(speedup=q(1.1, 0.95, 1.3), held_back_by="uncertainty", limited_by="draft_time") == (
        "not decided: 0.95–1.30 is too wide an interval")
    assert told(speedup=q(1.01, 0.9, 1.2), held_back_by="verify_compute", held_back_from=1.4) == (
        "not decided: the interval 0.90–1.20 reaches a gain, its middle does not, as verifying the drafted tokens "
        "takes too long (1.40x were it as quick as a plain step)")
    assert told(speedup=q(1.3, 1.2, 1.4), held_back_by="nothing") == "not decided: timed beside other work"


@pytest.mark.parametrize(("stopped", "word"), [("budget", "Its budget of 600 s"), ("interrupted", "An interrupt")])
def test_a_trial_that_was_ended_says_that_resume_goes_on_with_it(stopped: str, word: str) -> None:
    record = advise(cpu_situation(ended(stopped), concurrency=1, tasks="code"), NOW)
    for name in ("text", "markdown", "html"):
        shown = " ".join(re.sub(r"</?code>|`|\\", "", render(record, name)).split())
        assert f"{word} ended the trial before its end: the same command with --resume goes on" in shown
    assert "--resume" in trial_text(ended(stopped))
    assert "--resume" not in trial_text(ended("complete"))


def ended(stopped: str) -> TrialEvidence:
    block = Block(k=0, running=1, task=None, wall_s=8.0, output_tokens=40, decode_s=7.0, decode_tokens=39)
    trial = cpu_trial()
    arms = tuple(arm.model_copy(update={"blocks": (block,)}) for arm in trial.arms)
    return trial.model_copy(update={"arms": arms, "stopped": stopped, "budget_s": 600.0})


def test_figures_of_several_sources_are_marked_and_the_legend_says_by_what() -> None:
    record = advise(cpu_situation(cpu_trial(), concurrency=1, tasks="code"), NOW)
    table = load_table(record, curves(record)[0])
    by_load = {row[0]: row for row in table.rows}
    assert "†" not in by_load["1"][3], "k=3 was timed at one request"
    assert "†" in by_load["1"][2], "k=2 was not"
    assert "†" in by_load["16"][3], "nor was a load of 16"
    assert table.caption == ("no mark: measured on your engine; † modelled from what the trial timed at other k, "
                             "loads or lengths")
    for name in ("text", "markdown", "html"):
        assert "o mark: measured on your engine; †" in " ".join(render(record, name).split())


def test_figures_of_one_source_are_not_marked_and_the_legend_names_it() -> None:
    record = advise(gpu_situation(concurrency=1, tasks="code"), NOW)
    table = load_table(record, curves(record)[0])
    assert not any(mark in cell for row in table.rows for cell in row for mark in "†‡?°")
    assert table.caption == "every figure is assumed from published cases, not measured here"


def test_a_comparison_carried_over_to_other_lengths_is_not_told_as_measured_at_them() -> None:
    measured = cpu_trial(comparison(1.5, 1.51, 1.49, 1.5, k=5, running=1))
    for lengths, carried in (({"prompt_tokens": 60, "output_tokens": 48}, False),
                             ({"prompt_tokens": 60, "output_tokens": 100}, True)):
        record = advise(cpu_situation(measured, concurrency=1, tasks="code", **lengths), NOW)
        assert record.decision.speedup_source is Source.MEASURED
        assert ("measured on your engine at other lengths, and carried over" in headline(record).meaning) is carried


def test_the_star_of_a_figure_stands_at_the_figure_and_all_marks_are_as_wide() -> None:
    record = advise(cpu_situation(cpu_trial(), concurrency=1, tasks="code"), NOW)
    curve = curves(record)[0]
    column = {row[0]: row[curve.shown_ks(6).index(3) + 1] for row in load_table(record, curve).rows}
    assert {len(cell) for cell in column.values()} == {6}
    assert not any(re.search(r"\s[*†]", cell) for cell in column.values())
