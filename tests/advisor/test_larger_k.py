"""A range of k that ends where the speed-up still rises is told as one that ends too soon; the decision stays."""

from __future__ import annotations

from typing import Any

import pytest

from advisor import larger_k
from advisor.advice import advise
from advisor.checks.finding import CheckResult, Finding
from advisor.record import Record
from advisor.situation import Situation
from profiles.deployment import Candidate
from tests.advisor.situations import gpu_situation, llama_1b

NOW = "2026-01-01T00:00:00Z"


def advised(k: str) -> Record:
    return advise(gpu_situation(
        "RTX PRO 6000", candidates=[{"method": "draft_model", "draft": llama_1b().id, "k": k}],
        concurrency=1, prompt_tokens=200, output_tokens=384, tasks="json"), NOW)


def said(record: Record) -> list[str]:
    return [reason.sentence for reason in record.reasons if "is the largest looked at" in reason.sentence]


def test_a_larger_k_that_gains_is_named_with_its_figure_and_what_to_write() -> None:
    short, long = advised("1"), advised("1-5")
    (sentence,) = said(short)
    assert short.decision.k == 1
    assert {cell.k for cell in short.candidates} == {0, 1}, "nothing beyond what was asked for is decided on"
    most = max((c for c in long.candidates if c.running == 1), key=lambda c: c.speedup.value)
    assert f"k={most.k} would give about {most.speedup.value:.2f}x" in sentence
    assert f", {most.speedup.source.value}. To have it looked at" in sentence
    assert f"write `k: 1-{most.k}`" in sentence
    assert f"`--k 1-{most.k}`" in sentence


@pytest.mark.parametrize("k", ["1-5", "1-8"])
def test_nothing_is_said_where_a_smaller_k_is_the_best(k: str) -> None:
    assert said(advised(k)) == []


def test_where_the_checklist_warns_of_the_larger_k_that_is_said_instead_of_what_to_write(
        monkeypatch: pytest.MonkeyPatch) -> None:
    asked = larger_k.judged

    def warns(situation: Situation, candidate: Candidate, k: int, *rest: Any) -> CheckResult:
        found = asked(situation, candidate, k, *rest)
        deep = Finding(code="SPD999", severity="warn", family="depth", message="deep", remedy="less",
                       where="speculative-config.num_speculative_tokens", source="")
        return found.model_copy(update={"findings": (*found.findings, deep)}) if k > 1 else found

    monkeypatch.setattr(larger_k, "judged", warns)
    (sentence,) = said(advised("1"))
    assert sentence.endswith("but the checklist advises against it (SPD999).")


def test_where_larger_ones_gain_no_more_than_noise_that_is_said_with_the_figure() -> None:
    gains = {c.k: c.speedup.value for c in advised("1-5").candidates if c.running == 1}
    best = max(gains, key=lambda k: gains[k])
    assert gains[best] < 1.02 * gains[best - 1], "the setting of this test: the last step up is noise"
    (sentence,) = said(advised(f"1-{best - 1}"))
    assert f"gain no more than noise: k={best} would give about {gains[best]:.2f}x" in sentence
