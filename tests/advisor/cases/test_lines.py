"""Prediction lines: one for each case line, in order, whatever the line holds."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cases.lines import predict_lines, predict_rows

CASE: dict[str, Any] = {
    "id": "a", "gpu": "H100", "n_gpus": 1, "tensor_parallel": 1, "target": "meta-llama/Llama-3.1-8B-Instruct",
    "method": "eagle3", "engine": "vllm", "engine_version": "0.20.0", "k": 3, "concurrency": 8, "temperature": 0,
    "task_family": "chat", "prompt_len": 300, "output_len": 300, "metric": "output_throughput",
}


def predicted(**changes: Any) -> dict[str, Any]:
    return predict_rows([{**CASE, **changes}])[0]


def test_a_prediction_has_an_interval_around_it_and_says_what_limits_it() -> None:
    found = predicted()
    assert found["error"] is None
    assert found["speedup_low"] < found["speedup"] < found["speedup_high"] <= 4
    assert 1 <= found["acceptance_length"] <= 4
    assert found["limited_by"] in ("acceptance", "draft_time", "verify_compute", "overhead", "prefill_share")
    assert isinstance(found["enable"], bool)


def test_every_answer_says_where_its_figures_come_from() -> None:
    def sources(**changes: Any) -> tuple[str, str]:
        found = predicted(k=3, concurrency=8, **changes)
        return found["source"], found["acceptance_source"]

    here, there = ([{"load_value": load, "k": 3, "speedup": 1.4}] for load in (8, 1))
    assert sources(mean_acceptance_length=None) == ("assumed", "assumed")
    assert sources(mean_acceptance_length=2.4) == ("modelled", "stated")
    assert sources(mean_acceptance_length=None, measured=there) == ("modelled", "assumed")
    assert sources(mean_acceptance_length=None, measured=here) == ("measured", "assumed")
    assert sources(measured=[{"load_value": 8, "k": 2, "speedup": 1.4}])[0] == "modelled"
    assert predicted(gpu="H1000")["source"] is None


def test_no_drafted_tokens_is_exactly_no_change() -> None:
    found = predicted(k=0)
    assert (found["speedup"], found["speedup_low"], found["speedup_high"], found["enable"]) == (1.0, 1.0, 1.0, False)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"gpu": "H1000"}, "near it"),
        ({"prompt_len": -5}, "prompt_len is -5"),
        ({"output_len": -1}, "output_len is -1"),
        ({"k": 1000}, "k is 1000"),
        ({"k": 2.5}, "whole number"),
        ({"k": -1}, "k is -1"),
        ({"target": "acme/Big-MoE-200B", "target_params_b": 200}, "active_params_b is null"),
        ({"target_params_b": 8, "draft_params_b": 70}, "larger than its target"),
        ({"target_params_b": 8, "active_params_b": 9}, "active_params_b is 9"),
        ({"method": "telepathy"}, "method is"),
        ({"method": None}, "method is missing"),
        ({"target": None}, "target_params_b are null"),
        ({"tree": "yes"}, "tree is"),
        ({"batch_size": 4}, "one load"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": "many"}, "expected a number"),
        ({"temperature": float("nan")}, "temperature"),
        ({"mean_acceptance_length": 0.5}, "mean_acceptance_length"),
        ({"per_position_acceptance": [0.5, 1.5]}, "per_position_acceptance"),
        ({"measured": [{"load_value": 1}]}, "measured"),
        ({"target_params_b": 1e-300}, "0.001 to 10,000"),
        ({"target": None, "target_params_b": "5e-324"}, "0.001 to 10,000"),
        ({"target_params_b": 1e300}, "0.001 to 10,000"),
        ({"target_params_b": True}, "expected a number"),
        ({"active_params_b": 1e-9}, "active_params_b is 1e-09"),
        ({"draft_params_b": 1e-12}, "0.0001 to 10,000"),
        ({"target": "acme/dense-99999999b"}, "which the catalog does not know"),
        ({"target": "acme/dense-0.00000001b"}, "which the catalog does not know"),
        ({"output_len": 1e-300}, "output_len is 1e-300"),
        ({"concurrency": 1e-300}, "1e-06 to 65,536"),
        ({"concurrency": None, "qps": "2.5e-320"}, "qps is"),
        ({"measured": [{"load_value": 1, "k": 3, "speedup": 1e-300}]}, "speedup is 1e-300: expected 0.01 or more"),
        ({"measured": [{"load_value": 1e-300, "k": 3, "speedup": 1.5}]}, "load_value is 1e-300"),
        ({"measured": [{"load_value": 1, "k": 3, "speedup": True}]}, "speedup is True"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence_and_no_numbers(changes: dict[str, Any], part: str) -> None:
    found = predicted(**changes)
    assert part in found["error"]
    assert found["speedup"] is None
    assert found["enable"] is None


def test_bad_lines_neither_stop_nor_shift_the_others() -> None:
    lines = [json.dumps(CASE), "{not json", "[1]", "", json.dumps({**CASE, "id": "z"}), "null"]
    found = list(predict_lines(lines))
    assert [row["id"] for row in found] == ["a", None, None, "z", None]
    assert [row["error"] is None for row in found] == [True, False, False, True, False]


def test_unknown_inputs_are_assumed_and_widen_the_interval() -> None:
    known = predicted(mean_acceptance_length=2.3)
    guessed = predict_rows([{"id": 1, "method": "eagle3", "target": CASE["target"]}])[0]
    assert guessed["error"] is None

    def width(row: dict[str, Any]) -> float:
        return math.log(row["speedup_high"] / row["speedup_low"])

    assert width(guessed) > 1.3 * width(known)
    assert width(predicted(gpu=None)) > width(predicted())


def test_a_local_measurement_moves_the_prediction_to_it_and_narrows_it() -> None:
    plain = predicted()
    for factor in (0.8, 1.25):
        point = {"load_kind": "concurrency", "load_value": 1, "k": 3, "speedup": plain["speedup"] * factor}
        found = predicted(measured=[point])
        assert (found["speedup"] - plain["speedup"]) * (factor - 1) > 0
        assert found["speedup_high"] / found["speedup_low"] < plain["speedup_high"] / plain["speedup_low"]


def test_a_local_measurement_says_less_the_farther_its_load_is() -> None:
    plain = {n: predicted(concurrency=n)["speedup"] for n in (1, 64)}
    point = {"load_kind": "concurrency", "load_value": 1, "k": 3, "speedup": plain[1] * 0.7}
    moved = {n: predicted(concurrency=n, measured=[point])["speedup"] / plain[n] for n in (1, 64)}
    assert 0.7 < moved[1] < moved[64] < 1


def test_predictions_do_not_depend_on_the_other_lines_of_a_file() -> None:
    rows = [{**CASE, "k": k, "concurrency": n, "id": f"{k}-{n}"} for k in (1, 3, 5) for n in (1, 30, 200)]
    together = predict_rows(rows)
    assert together == [predict_rows([row])[0] for row in rows]


_VALUE: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**6), st.floats(), st.text(max_size=6), st.just([]), st.just({}))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*CASE, "measured", "qps", "batch_size", "quantization", "dtype", "tree"]),
                       _VALUE, max_size=5))
def test_every_object_gets_an_answer_of_the_same_shape(changes: dict[str, Any]) -> None:
    found = predict_rows([{**CASE, **changes}])[0]
    assert set(found) == {"id", "speedup", "speedup_low", "speedup_high", "enable", "probability_of_gain",
                          "acceptance_length", "limited_by", "source", "acceptance_source", "note", "error"}
    if found["error"] is None:
        assert found["speedup_low"] <= found["speedup"] <= found["speedup_high"]
    json.dumps(found, allow_nan=False)


def test_a_setup_measured_at_one_load_is_surest_there() -> None:
    point = {"load_kind": "concurrency", "load_value": 1, "k": 3, "speedup": 1.3}
    for length in (None, 2.4):
        alone = predicted(concurrency=1, mean_acceptance_length=length, measured=[point])
        loaded = predicted(concurrency=128, mean_acceptance_length=length, measured=[point])
        assert alone["speedup"] == pytest.approx(1.3, rel=0.1)
        assert loaded["speedup_high"] / loaded["speedup_low"] > alone["speedup_high"] / alone["speedup_low"]
