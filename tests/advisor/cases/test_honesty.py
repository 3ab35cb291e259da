"""What a case leaves open or contradicts is told, and never makes a prediction surer."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cases.case import LONGEST_LINE
from advisor.cases.lines import predict_lines, predict_rows
from advisor.cases.stated import stated_acceptance
from profiles.errors import InputError

CASE: dict[str, Any] = {
    "id": "a", "gpu": "H100", "n_gpus": 1, "tensor_parallel": 1, "target": "meta-llama/Llama-3.1-8B-Instruct",
    "method": "eagle3", "engine": "vllm", "engine_version": "0.20.0", "k": 3, "concurrency": 8, "temperature": 0,
    "task_family": "chat", "prompt_len": 300, "output_len": 300,
}


def predicted(**changes: Any) -> dict[str, Any]:
    return predict_rows([{**CASE, **changes}])[0]


def width(row: dict[str, Any]) -> float:
    assert row["error"] is None, row["error"]
    return math.log(row["speedup_high"] / row["speedup_low"])


def test_a_case_that_leaves_nothing_open_has_no_note() -> None:
    assert predicted()["note"] is None


# --- what is read otherwise than it stands there, and what is taken for a null ---------------------------------------
def test_a_number_in_quotes_is_that_number() -> None:
    assert predicted(concurrency="8", k="3") == predicted()


def test_an_unknown_family_is_said_and_the_known_ones_are_named() -> None:
    found = predicted(task_family="nonsense")
    assert "'nonsense', which is no known one (code, json_sql, math," in found["note"]
    assert width(found) == pytest.approx(width(predicted(task_family=None)))
    assert predicted(task_family="HumanEval")["note"] is predicted(task_family="json")["note"] is None


def test_devices_that_nobody_counted_are_counted_in_the_note() -> None:
    large = {"target": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "RTX 4090", "tensor_parallel": None}
    assert "8 x RTX 4090 are assumed, as many as hold" in predicted(**large, n_gpus=None)["note"]
    assert predicted(**large, n_gpus=8)["note"] is None
    assert "n_gpus" not in (predicted(n_gpus=None, tensor_parallel=None)["note"] or "")
    larger = {**large, "target": "meta-llama/Llama-3.1-405B-Instruct"}
    assert "which do not hold the weights" in predicted(**larger, n_gpus=None)["note"]
    one = {"target": "Qwen/Qwen3-32B", "n_gpus": None, "tensor_parallel": None}
    assert predicted(**one)["note"] is None
    assert "2 x RTX PRO 6000" not in (predicted(**one, gpu="RTX PRO 6000")["note"] or "")
    assert "4 x A100 PCIe 40GB are assumed, as many as hold the weights with room for KV" in predicted(
        **one, gpu="A100 PCIe 40GB")["note"]


def test_requests_that_wait_because_kv_is_full_are_said() -> None:
    full = {"concurrency": 256, "prompt_len": 8000, "output_len": 500}
    note = predicted(**full)["note"]
    assert "of the 256 requests fits at once" in note
    assert "beside the drafter: the rest waits" in note
    assert "beside" not in predicted(**full, k=0)["note"]
    assert predicted(**{**full, "concurrency": 8})["note"] is None
    assert predicted(**{**full, "concurrency": None, "qps": 1})["note"] is None


# --- names without a size --------------------------------------------------------------------------------------------
def test_a_target_nobody_knows_is_asked_its_size_and_near_names_are_given() -> None:
    found = predicted(target="meta-llama/Llama-3.3-70-Instruct")
    assert "target_params_b is null" in found["error"]
    assert "near it: meta-llama/Llama-3.3-70B-Instruct" in found["error"]
    assert predicted(target="acme/Frobnicator", target_params_b=7)["error"] is None
    assert predicted(target="acme/Frobnicator-7B")["error"] is None


def test_a_target_nobody_knows_is_predicted_less_surely_than_one_of_the_catalog() -> None:
    known, size, name = predicted(), predicted(target=None, target_params_b=8), predicted(target="acme/Frobnicator-8B")
    assert width(size) > width(known)
    assert width(name) > width(known)
    assert "usual shape" in name["note"]


def test_a_target_nobody_knows_whose_own_layers_draft_is_taken_for_a_copy_of_one_that_has_them() -> None:
    tuned = {"gpu": "RTX 3090", "n_gpus": 2, "tensor_parallel": 2, "quantization": "awq", "concurrency": 1,
             "draft": None}
    known = predicted(**tuned, target="Qwen/Qwen3.6-27B", method="mtp")
    copy = predicted(**tuned, target="acme/Tuned-27B", method="mtp")
    assert "the shape of Qwen/Qwen3" in copy["note"]
    assert copy["speedup"] == pytest.approx(known["speedup"], rel=0.1)
    assert width(copy) > width(known)
    for other in ({"target": "acme/Tuned-Llama-27B"}, {"target": "acme/Tuned-26B"}, {"draft": "acme/own-mtp-layers"}):
        changes = {**tuned, "target": "acme/Tuned-27B", "method": "mtp", **other}
        assert "usual shape" in predicted(**changes)["note"]


def test_a_draft_model_nobody_knows_is_asked_its_size() -> None:
    found = predicted(method="draft_model", draft="acme/Tiny")
    assert "draft_params_b is null" in found["error"]
    stated = predicted(method="draft_model", draft="acme/Tiny", draft_params_b=0.5)
    assert stated["error"] is None
    null = predicted(method="draft_model", draft=None)
    assert "draft_params_b are null" in null["note"]
    assert width(null) > width(stated)


def test_a_draft_larger_than_its_target_is_refused_by_its_name_too() -> None:
    found = predicted(method="draft_model", target="Qwen/Qwen3-0.6B", draft="meta-llama/Llama-3.1-70B-Instruct")
    assert "larger than its target" in found["error"]
    assert "larger than its target" in predicted(method="eagle3", draft_params_b=1000)["error"]


# --- nulls and oddities ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"gpu": None, "n_gpus": None, "tensor_parallel": None}, "gpu is null"),
        ({"concurrency": None}, "no load is stated"),
        ({"concurrency": 65536}, "concurrency is 65,536: engines run at most 256 to 1,024 requests at once"),
        ({"k": None}, "k is null"),
        ({"engine_version": "banana"}, "no release can be read"),
        ({"engine_version": "9.99.0"}, "after the newest known release"),
        ({"dtype": "banana"}, "no number format can be read"),
        ({"dtype": "float99"}, "no number format can be read"),
        ({"quantization": "banana"}, "no number format can be read"),
        ({"quantization": "gguf"}, "how many bits"),
        ({"tensor_parallel": 8}, "n_gpus is 1"),
        ({"n_gpus": 7, "tensor_parallel": 7}, "split a model's heads"),
        ({"target": "meta-llama/Llama-3.1-405B-Instruct"}, "is quantization or n_gpus missing"),
        ({"tree": True}, "chain of k tokens"),
        ({"mean_acceptance_length": 6.0}, "no step gives more than k + 1"),
    ],
)
def test_what_is_left_open_or_stated_oddly_is_noted_and_widens_the_interval(changes: dict[str, Any], part: str) -> None:
    found = predicted(**changes)
    assert found["error"] is None
    assert part in found["note"]
    # A quantized or another target has another interval anyway: what is compared is the same setup, soundly stated.
    sound = {
        "target": {**changes, "n_gpus": 16, "tensor_parallel": 16},
        "tensor_parallel": {"n_gpus": 8, "tensor_parallel": 8},
        "mean_acceptance_length": {"mean_acceptance_length": 4.0},
    }
    plain = next((predicted(**sound[name]) for name in sound if name in changes and "gpu" not in changes), predicted())
    assert width(found) > width(plain)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"method": "dflash", "engine_version": "0.12.0"}, "vLLM 0.12.0 has no method dflash"),
        ({"method": "draft_model", "draft_params_b": 1.0, "engine_version": "v0.10.1"}, "vLLM 0.10.1 has no method"),
        ({"method": "mtp", "target": "MiniMaxAI/MiniMax-M2", "n_gpus": 8, "tensor_parallel": 8},
         "vLLM runs none for the model type minimax_m2"),
        ({"method": "mtp", "draft": "built-in MTP"}, "has no multi-token-prediction layers in its checkpoint"),
        ({"method": "mtp", "target": "Qwen/Qwen3.6-27B", "engine_version": "0.16.0"}, "0.17 brought them"),
    ],
)
def test_speculation_that_the_release_does_not_run_is_noted(changes: dict[str, Any], part: str) -> None:
    found = predicted(**changes)
    assert found["error"] is None
    assert part in found["note"]
    # Another engine has other methods: nothing is known of them.
    assert part not in (predicted(**{**changes, "engine": "sglang"})["note"] or "")


@pytest.mark.parametrize("changes", [
    {"method": "mtp", "target": "Qwen/Qwen3.6-27B"}, {"method": "dflash", "engine_version": "nightly 2026-05"},
    {"method": "dflash", "engine_version": None}, {"method": "mtp", "draft": "acme/own-mtp-layers"},
])
def test_speculation_that_runs_or_of_which_nobody_can_tell_is_not_doubted(changes: dict[str, Any]) -> None:
    assert "priced as if" not in (predicted(**changes)["note"] or "")



def test_another_engine_is_noted() -> None:
    assert "priced as vLLM" in predicted(engine="llamacpp")["note"]


def test_a_local_measurement_faster_than_any_step_can_be_is_noted() -> None:
    point = {"load_kind": "concurrency", "load_value": 1, "k": 3, "speedup": 5.0}
    assert "k + 1 times as fast" in predicted(measured=[point])["note"]


def test_no_speculation_is_no_change_whatever_k_stands_beside_it() -> None:
    assert predicted(method="none", k=5)["speedup"] == 1.0


# --- acceptance ------------------------------------------------------------------------------------------------------
def test_rates_that_rise_are_no_shares_of_steps() -> None:
    assert "rises" in predicted(per_position_acceptance=[0.5, 0.7, 0.6])["error"]
    found = predicted(per_position_acceptance=[0.5, 0.7, 0.6], mean_acceptance_length=2.4)
    assert "taken alone" in found["note"]
    assert found["acceptance_length"] == pytest.approx(2.4)


def test_rates_give_the_length_where_none_is_stated() -> None:
    assert predicted(per_position_acceptance=[0.8, 0.5, 0.3])["acceptance_length"] == pytest.approx(2.6)


def test_rates_that_do_not_give_the_stated_length_make_it_less_sure() -> None:
    agreed = predicted(per_position_acceptance=[0.8, 0.5, 0.3], mean_acceptance_length=2.6)
    apart = predicted(per_position_acceptance=[0.3, 0.1, 0.0], mean_acceptance_length=2.6)
    assert agreed["note"] is None
    assert "mean_acceptance_length is 2.6" in apart["note"]
    assert apart["speedup"] == pytest.approx(agreed["speedup"], rel=1e-3)
    assert width(apart) > width(agreed)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 12), st.none() | st.floats(1, 20))
def test_a_stated_length_is_within_what_k_tokens_can_give(rates: list[float], k: int, length: float | None) -> None:
    rates = sorted(rates, reverse=True)
    found = stated_acceptance(length, rates, k)
    assert found.length is not None
    assert 1.0 <= found.length <= k + 1.0
    assert found.log_sd >= 0.0
    if found.log_sd > 0.0:
        assert found.notes


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_rates_are_refused_only_where_they_rise(rates: list[float]) -> None:
    rising = any(b > a + 0.005 for a, b in itertools.pairwise(rates))
    if rising:
        with pytest.raises(InputError, match="rises"):
            stated_acceptance(None, rates, len(rates))
    else:
        assert stated_acceptance(None, rates, len(rates)).length == pytest.approx(1 + sum(rates))


# --- lines nobody should write ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "line",
    [
        '{"measured": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"method": "ngram", "measured": ' + "[" * 900 + "]" * 900 + "}",
        '{"method": "ngram", "k": ' + "9" * 4000 + "}",
        '{"method": "ngram", "k": 1' + "0" * 400 + "}",
        '{"method": "ngram", "target": "' + "x" * 5000 + '"}',
        '{"method": "ngram", "measured": [' + ", ".join(['{"load_value": 1, "speedup": 1.1}'] * 500) + "]}",
        '{"id": "' + "x" * LONGEST_LINE + '"}',
        '{"method": "ngram", "target": "' + "q4_" * 90 + '!"}',
    ],
    ids=["deep", "deep-but-read", "digits", "beyond-floats", "long-name", "many-points", "long-line", "slow-name"],
)
def test_deep_and_huge_lines_get_an_error_and_stop_nothing(line: str) -> None:
    found = list(predict_lines([line, json.dumps(CASE)]))
    assert [row["error"] is None for row in found] == [False, True]
    assert len(found[0]["error"]) < 700


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"id": "x", "method": "ngram", "target": "Qwen/Qwen3-8B", "k": 3, "k": 5}', "k"),
        ('{"id": "x", "method": "ngram", "target": "Qwen/Qwen3-8B", "measured": '
         '[{"load_value": 1, "speedup": 1.2, "speedup": 2.1}]}', "speedup"),
        ('{"id": "x", "a": {"b": 1, "b": 2}, "method": "ngram", "k": 1, "method": "eagle3"}', "method"),
    ],
)
def test_a_key_that_stands_twice_is_refused_by_name_and_with_the_lines_id(line: str, key: str) -> None:
    (found,) = predict_lines([line])
    assert found["id"] == "x"
    assert f"key '{key}' stands twice" in found["error"]
    assert found["speedup"] is None


def test_a_line_of_very_many_keys_is_answered_at_once() -> None:
    line = "{" + ", ".join(f'"{i}": 0' for i in range(70_000)) + ', "69999": 1}'
    (found,) = predict_lines([line])
    assert "key '69999' stands twice" in found["error"]
