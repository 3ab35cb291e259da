"""What is advised and what the checklist says of it agree: on the number of tokens, and on memory, figure by figure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import advisor.startable as startable
from advisor.advice import advise
from advisor.checks.examples import subject_of
from advisor.checks.measured import Gain, Measured
from advisor.checks.rule import Example
from advisor.checks.run import check
from advisor.decision import decide
from advisor.prediction import price
from advisor.record import Record
from advisor.situation import Situation
from profiles.catalog.models import find_model
from tests.advisor.cost.test_window import small_card
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
K_OPTION = "speculative-config.num_speculative_tokens"


def mixture(target: str, method: str, draft: str | None = None, gpu: str = "H200", **stated: Any) -> Situation:
    """A large mixture of experts on eight GPUs, with one candidate."""
    shape = find_model(target)
    assert shape is not None
    candidate = {"method": method, "k": "1-8", **({"draft": draft} if draft else {})}
    found = gpu_situation(gpu, candidates=[candidate], engine={"tensor_parallel_size": 8, "max_model_len": 8192},
                          **{"concurrency": 1, "tasks": "code", "sampling": {"temperature": 0}, **stated})
    drafts = {} if draft is None else {draft: find_model(draft)}
    deployment = found.deployment.model_copy(
        update={"target": found.deployment.target.model_copy(update={"id": target})})
    return replace(found, target=shape, drafts=drafts, deployment=deployment, gpu_count=8)  # type: ignore[arg-type]


MTP = [mixture("zai-org/GLM-4.5-Air", "mtp"), mixture("deepseek-ai/DeepSeek-V3", "mtp"),
       mixture("Qwen/Qwen3-Next-80B-A3B-Instruct", "mtp", concurrency=4)]
HEAD = mixture("Qwen/Qwen3-235B-A22B", "eagle3", "nvidia/Qwen3-235B-A22B-Eagle3")


def warned(record: Record) -> list[str]:
    assert record.checklist is not None
    return [f.code for f in record.checklist.findings if f.severity == "warn" and f.where == K_OPTION]


@pytest.mark.parametrize("situation", [*MTP, HEAD], ids=lambda s: s.target.id)
def test_no_k_is_advised_that_the_checklist_warns_of(situation: Situation) -> None:
    record = advise(situation, NOW)
    assert warned(record) == []
    if record.decision.enable is None:
        asked = startable.judged(situation, situation.candidates[0], record.decision.k, record.decision.running)
        assert not [f for f in asked.findings if f.severity == "warn" and f.where == K_OPTION]


def test_the_reason_says_where_the_checklist_stands_against_a_larger_figure() -> None:
    situation = MTP[1]
    free, kept = decide(price(situation)), advise(situation, NOW)
    assert free.best is not None
    if free.best.k <= (kept.decision.k or 0):
        pytest.skip("the largest figure is not a k that is warned of")
    assert "the checklist advises against it (SPD" in kept.decision.reasons[0]


def test_where_every_k_asked_for_is_warned_of_the_best_is_taken_and_the_warning_stays() -> None:
    situation = mixture("zai-org/GLM-4.5-Air", "mtp")
    only = tuple(c.model_copy(update={"k": (6, 7)}) for c in situation.candidates)
    record = advise(replace(situation, candidates=only), NOW)
    assert record.decision.k in (None, 6, 7)
    if record.decision.enable:
        assert "SPD231" in warned(record)


def test_a_k_that_was_measured_to_gain_is_not_warned_of() -> None:
    situation = mixture("zai-org/GLM-4.5-Air", "mtp")
    for gains, expected in (((), ["SPD231", "SPD423"]), ((Gain(6, 1, 1.5),), []),
                            ((Gain(6, 1, 0.9),), ["SPD231", "SPD423"])):
        found = startable.judged(situation, situation.candidates[0], 6, 1, Measured(gains))
        assert [f.code for f in found.findings if f.severity == "warn" and f.where == K_OPTION] == expected


# --- memory ----------------------------------------------------------------------------------------------------------
def figures(message: str) -> tuple[str, ...]:
    return tuple(re.findall(r"(\d[\d,]*\d) tokens are left of (\d[\d,]*\d)", message)[0])


@pytest.mark.parametrize("gpu", ["RTX 4090", "L40S", "A100 40GB"])
def test_the_advice_and_a_later_check_of_its_config_name_the_same_tokens(gpu: str) -> None:
    """Also where the variable that the config needs forces another runner than the target alone would have."""
    record = advise(small_card(gpu=gpu, tasks="json", concurrency=1, sampling={"temperature": 0}), NOW)
    assert record.decision.enable
    plan = record.memory
    for env in (dict(record.emitted.env), {}):
        subject = subject_of(Example(record.emitted.vllm_yaml, "0.32.0", gpu, 1, env))
        later = [f for f in check(subject).findings if f.code == "SPD402"]
        if env == dict(record.emitted.env):
            assert [figures(f.message) for f in later] == [(f"{plan.kv_tokens_with:,}", f"{plan.kv_tokens_without:,}")]
        else:
            assert all(figures(f.message)[1] == f"{plan.kv_tokens_without:,}" for f in later)


def test_a_load_that_does_not_fit_beside_the_draft_is_a_warning_of_the_checklist_too() -> None:
    config = ("model: meta-llama/Llama-3.1-8B-Instruct\ngpu-memory-utilization: 0.9\nmax-model-len: 8192\n"
              "speculative-config:\n  method: draft_model\n  model: meta-llama/Llama-3.2-1B-Instruct\n"
              "  num_speculative_tokens: 3\n")

    def said(concurrency: int) -> list[tuple[str, str]]:
        workload = {"concurrency": concurrency, "prompt_len": 500, "output_len": 300}
        found = check(subject_of(Example(config, "0.32.0", "RTX 4090", 1, workload=workload))).findings
        return [(f.severity, f.message) for f in found if f.code == "SPD402"]

    (few,), (many,) = said(1), said(200)
    assert few[0] == "info"
    assert many[0] == "warn"
    assert "requests of the expected length at once where 200 run" in many[1]


# --- asked once ----------------------------------------------------------------------------------------------------
def test_the_checklist_is_asked_once_about_each_candidate_whatever_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = startable.check_config

    def counted(config: Any, known: Any) -> Any:
        asked.append(str(config.get("speculative-config")))
        return real(config, known)

    monkeypatch.setattr(startable, "check_config", counted)
    others = [{"method": "ngram"}, {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct"}]
    situation = gpu_situation(candidates=others, concurrency=1, tasks="code")
    price(situation)
    price(replace(situation, notes=("a copy",)))
    once = len(asked)
    assert once == len(set(asked)) == 3
    advise(situation, NOW)
    assert len(asked) <= once + 1, "at most at the k decided for"
    once = len(asked)
    price(replace(situation, deployment=situation.deployment.model_copy()))
    assert len(asked) >= once + 3
