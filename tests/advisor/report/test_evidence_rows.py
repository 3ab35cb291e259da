"""The evidence table says of each figure what it is a share of, and at which lengths it was measured."""

from __future__ import annotations

from advisor.advice import advise
from advisor.cli.trial_text import trial_text
from advisor.report.curves import curves
from advisor.report.evidence_rows import evidence_table
from profiles.deployment import Candidate
from profiles.evidence import ArmEvidence, ArmStatus, PairedBlock, PairedComparison, RequestAcceptance, TrialEvidence
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
