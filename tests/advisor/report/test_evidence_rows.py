"""The evidence table says of each figure what it is a share of, and at which lengths it was measured."""

from __future__ import annotations

import re
from dataclasses import replace

from advisor.advice import advise
from advisor.cli.trial_text import trial_text
from advisor.report import render
from advisor.report.curves import curves
from advisor.report.evidence_rows import evidence_table
from advisor.report.tables import found_words
from profiles.deployment import Candidate
from profiles.evidence import ArmEvidence, ArmStatus, PairedBlock, PairedComparison, RequestAcceptance, TrialEvidence
from profiles.schema import Source
from profiles.workload import Task
from tests.advisor.situations import cpu_situation, cpu_trial


def with_lookup() -> TrialEvidence:
    """A lookup that finds a draft in 8 of 100 steps, the first token of which is accepted in 7."""
    trial = cpu_trial()
    asked = RequestAcceptance(task=Task.CODE, prompt_tokens=60, output_tokens=48, steps=100, drafted=(8, 8),
                              accepted=(7, 5))
    arm = ArmEvidence(candidate=Candidate(method="ngram", k=(1, 2)), status=ArmStatus.DONE, requests=(asked,))
    pairs = tuple(PairedBlock(running=1, baseline_s=1.6, speculative_s=1.0, baseline_tokens=50, speculative_tokens=50)
                  for _ in range(3))
    compared = PairedComparison(candidate=trial.arms[1].candidate, k=5, running=1, mode="both_resident", pairs=pairs,
                                stopped="clear")
    return trial.model_copy(update={"arms": (*trial.arms, arm), "comparison": compared})


def rows() -> dict[str, tuple[str, ...]]:
    record = advise(cpu_situation(with_lookup(), concurrency=1, tasks="code"), "2026-01-01T00:00:00Z")
    return {row[0]: row for row in evidence_table(record, curves(record)).rows}


def test_steps_that_find_a_draft_and_drafts_accepted_are_two_rows() -> None:
    found = rows()
    assert found["steps that find a draft, ngram"][1:4] == ("8 %", "–", "100")
    assert found["first token accepted in steps that find a draft, ngram"][1] == "88 %"
    assert "first position accepted, ngram" not in found
    assert any(name.startswith("first position accepted, draft_model") for name in found)


def test_the_pairs_say_at_which_lengths_they_ran() -> None:
    (pairs,) = (row for name, row in rows().items() if name.startswith("paired blocks"))
    assert "at 60 prompt and 48 output tokens" in pairs[-1]


def test_a_trial_in_the_terminal_tells_both_shares() -> None:
    assert ("8 % of the steps find a draft, and 88 % of those accept its first token (7 % of all steps)"
            in trial_text(with_lookup()))


def test_a_report_has_one_count_of_each_share_though_the_tasks_are_weighed() -> None:
    trial = with_lookup()
    chat = RequestAcceptance(task=Task.CHAT, prompt_tokens=60, output_tokens=48, steps=300, drafted=(90, 90),
                             accepted=(30, 10))
    arms = tuple(arm.model_copy(update={"requests": (*arm.requests, chat)}) if arm.candidate.method == "ngram" else arm
                 for arm in trial.arms)
    situation = cpu_situation(trial.model_copy(update={"arms": arms}), concurrency=1, tasks="code")
    situation = replace(situation, candidates=(*situation.candidates, arms[-1].candidate))
    record = advise(situation, "2026-01-01T00:00:00Z")
    said = {row[0]: row for row in evidence_table(record, curves(record)).rows}
    assert found_words(record, "ngram").startswith("8 % of the steps find a draft, and 88 % of those")
    assert said["steps that find a draft, ngram"][1] == "8 %"
    assert said["first token accepted in steps that find a draft, ngram"][1] == "88 %"


def test_a_figure_that_follows_from_the_trial_is_not_called_measured() -> None:
    trial = cpu_trial(with_cells={(8, 5): 1040.0, (8, 1): 390.0})
    record = advise(cpu_situation(trial, concurrency=1, tasks="code"), "2026-01-01T00:00:00Z")
    (speed,) = (row for row in evidence_table(record, curves(record)).rows if row[0] == "speed-up decided on")
    assert speed[4] == "modelled from the trial"
    assert record.decision.speedup_source is Source.MODELLED
    assert record.decision.speedup_from_trial
    for form in ("text", "markdown"):
        shown = " ".join(render(record, form).replace("│", " ").split())
        assert "modelled from what the trial timed at other k, loads or lengths" in shown
        assert "measured on your engine" not in re.sub("[Nn]o mark: measured on your engine", "", shown)
    assert "modelled from the trial" in render(record, "html")
    assert any("end to end, modelled from the trial" in reason.sentence for reason in record.reasons)
