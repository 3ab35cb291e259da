"""Fields that no prediction reads are said in the line's own answer, with the field that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cases.case import FIELDS
from advisor.cases.lines import predict_rows
from advisor.cases.unread import Unread, field_meant

CASE: dict[str, Any] = {"id": "a", "gpu": "H100", "n_gpus": 1, "target": "Qwen/Qwen3-8B", "method": "ngram", "k": 3}


def note_of(**more: Any) -> str:
    return str(predict_rows([{**CASE, **more}])[0]["note"])


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("vllm_version", "engine_version"), ("request_rate", "qps"), ("max-concurrency", "concurrency"),
        ("num_speculative_tokens", "k"), ("model", "target"), ("tensor_parallel_size", "tensor_parallel"),
        ("acceptance_length", "mean_acceptance_length"), ("input_len", "prompt_len"), ("OSL", "output_len"),
        ("concurency", "concurrency"), ("Temperature", "temperature"), ("colour", None),
    ],
)
def test_the_field_that_is_meant_is_known_by_other_tools_names_and_by_slips(name: str, field: str | None) -> None:
    assert field_meant(name) == field


@given(st.text(max_size=40))
def test_what_is_offered_is_a_field(name: str) -> None:
    assert field_meant(name) is None or field_meant(name) in FIELDS


def test_a_load_and_a_release_under_other_names_are_said_and_change_no_number() -> None:
    assert "'vllm_version' (did you mean engine_version?)" in note_of(vllm_version="0.20.0")
    found = predict_rows([{**CASE, "request_rate": 4}])[0]
    assert "'request_rate' (did you mean qps?)" in found["note"]
    assert found["speedup"] == predict_rows([CASE])[0]["speedup"]


def test_a_field_that_is_stated_is_not_offered_for_another_name() -> None:
    note = note_of(model="x", concurrency=4, load=4)
    assert "'model', 'load'" in note
    assert "did you mean" not in note


def test_a_refused_line_says_what_it_did_not_read_as_well() -> None:
    found = predict_rows([{"id": 1, "model": "Qwen/Qwen3-8B", "speculative_method": "ngram"}])[0]
    assert "method is missing" in found["error"]
    assert "'model' (did you mean target?), 'speculative_method' (did you mean method?)" in found["note"]


def test_a_row_of_many_other_fields_names_some_and_counts_the_rest() -> None:
    assert note_of(**{f"column_{i}": i for i in range(20)}).endswith(" and 12 more")


def test_a_run_tells_every_name_once() -> None:
    unread = Unread()
    predict_rows([{**CASE, "concurency": 4}, {**CASE, "speed": 1}, {**CASE, "speed": 2}], None, unread)
    assert unread.names == {"concurency": "concurrency", "speed": None}
    assert unread.summary() == "fields that no prediction reads: 'concurency' (did you mean concurrency?), 'speed'"


def test_a_file_of_ever_new_names_costs_no_search_for_each() -> None:
    unread = Unread()
    for i in range(300):
        unread.note({f"name_{i}": 1})
    assert len(unread.names) == 100
