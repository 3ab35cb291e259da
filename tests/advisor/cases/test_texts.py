"""What a task's words say: a family's name is no data set, and a known data set has a family."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cases.lines import predict_rows
from advisor.cases.texts import dataset_of, family_of
from profiles.workload import Task

CASE: dict[str, Any] = {
    "gpu": "H100", "tensor_parallel": 1, "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "eagle3",
    "engine": "vllm", "engine_version": "0.20.0", "k": 3, "concurrency": 8, "temperature": 0, "prompt_len": 300,
    "output_len": 300,
}


@pytest.mark.parametrize("method", ["eagle3", "ngram", "draft_model"])
@pytest.mark.parametrize("family", [task.value for task in Task])
def test_a_task_that_repeats_its_family_changes_no_prediction(family: str, method: str) -> None:
    draft = {"draft": "meta-llama/Llama-3.2-1B-Instruct"} if method == "draft_model" else {}
    case = {**CASE, "method": method, **draft}
    alone, repeated, doubled, named = predict_rows([
        {**case, "task_family": family}, {**case, "task_family": family, "task": family},
        {**case, "task_family": family, "task": f"{family}/{family.upper()}"}, {**case, "task": family},
    ])
    assert alone["error"] is None
    assert alone == repeated == doubled == named


@pytest.mark.parametrize(
    ("task", "family"),
    [
        ("GSM8K", Task.MATH), ("HumanEval", Task.CODE), ("MT-Bench (80 questions)", Task.CHAT),
        ("CNN/DM", Task.SUMMARIZATION), ("cnn_dailymail", Task.SUMMARIZATION),
        ("summarization/CNN-DM", Task.SUMMARIZATION), ("WMT14 De-En", Task.TRANSLATION), ("json", Task.JSON_SQL),
        ("probe.py", None), (None, None),
    ],
)
def test_a_family_is_read_off_the_data_sets_that_people_name(task: str | None, family: Task | None) -> None:
    assert family_of(None, task) is family


def test_a_stated_family_goes_before_the_data_sets_own() -> None:
    assert family_of("reasoning", "math/GSM8K") is Task.REASONING


def test_a_data_set_is_the_same_in_every_spelling() -> None:
    assert dataset_of("code/HumanEval") == dataset_of("humaneval") == dataset_of("HumanEval (164 problems)")


@given(st.text(max_size=40))
def test_no_text_stops_the_reading(text: str) -> None:
    assert len(dataset_of(text)) <= 24
    assert family_of(text) is None or isinstance(family_of(text), Task)
