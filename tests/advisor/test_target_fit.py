"""A target that does not fit is told what would hold it, and nothing is said of drafts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from advisor.advice import advise
from advisor.cost.memory import plan_memory
from advisor.prediction import price
from advisor.record import Record
from advisor.report import render
from advisor.situation import Situation
from advisor.target_fit import what_would_fit
from profiles.catalog.models import find_model
from profiles.deployment import NO_SPECULATION
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
SECTIONS = ("Candidates at", "What draft would pay", "Acceptance by position", "Speed-up against load")


def large(gpu: str = "H100", target: str = "meta-llama/Llama-3.1-70B-Instruct", **engine: Any) -> Situation:
    shape = find_model(target)
    assert shape is not None
    stated = gpu_situation(gpu, engine={"max_model_len": 8192, **engine}, prompt_tokens=500, output_tokens=300)
    return replace(stated, target=shape, deployment=stated.deployment.model_copy(
        update={"target": stated.deployment.target.model_copy(update={"id": target})}))


def test_the_fewest_gpus_are_named_for_the_weights_as_they_are_and_for_narrower_ones() -> None:
    found = what_would_fit(price(large()))
    split = next(words for words in found if "tensor_parallel_size" in words and "bit" not in words)
    size = int(re.search(r"tensor_parallel_size (\d+)", split)[1])  # type: ignore[index]
    assert split.startswith(f"{size} x H100")
    for tried in (1, size // 2, size):
        engine = large().deployment.engine.model_copy(update={"tensor_parallel_size": tried})
        stated = large()
        stated = replace(stated, gpu_count=tried, deployment=stated.deployment.model_copy(update={"engine": engine}))
        assert plan_memory(stated, NO_SPECULATION, 0).target_fits is (tried == size)
    assert any(words.startswith("the same GPU with 4-bit weights") for words in found)


def test_a_larger_card_of_the_same_maker_is_named_by_its_name_and_memory() -> None:
    found = what_would_fit(price(large("RTX 4090", "Qwen/Qwen3-14B")))
    (card,) = [words for words in found if words.startswith("one ")]
    assert re.search(r"\(\d+ GiB\)", card)


def test_a_share_of_memory_or_a_limit_that_would_do_is_named_before_other_hardware() -> None:
    stated = large("RTX 4090", "meta-llama/Llama-3.1-8B-Instruct", gpu_memory_utilization=0.6)
    assert plan_memory(stated, NO_SPECULATION, 0).target_fits is False
    assert what_would_fit(price(stated))[0] == "gpu_memory_utilization 0.95"


def test_what_nothing_holds_is_said_so() -> None:
    record = advise(large("T4", "deepseek-ai/DeepSeek-V3", max_num_seqs=8), NOW)
    assert "neither 4-bit weights nor 16 GPUs" in record.decision.reasons[0]


@pytest.fixture(scope="module")
def unfit() -> Record:
    return advise(large(), NOW)


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_report_of_it_has_no_word_of_drafts(unfit: Record, form: str) -> None:
    text = render(unfit, form)
    assert "any one of these would do" in " ".join(text.split())
    for section in SECTIONS:
        assert section not in text
    assert "is left out" not in text
    assert unfit.candidates, "the record keeps what was priced"


def test_the_record_names_no_candidate_and_does_not_decide(unfit: Record) -> None:
    assert (unfit.decision.enable, unfit.decision.method) == (None, None)
    assert len(unfit.reasons) == 1
