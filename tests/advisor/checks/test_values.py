"""Options that a release does not have, and values that an option does not take."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.examples import subject_of
from advisor.checks.finding import Finding
from advisor.checks.rule import Example
from advisor.checks.run import run
from advisor.checks.values import taken_as_key, taken_as_option
from profiles.catalog.options import Option, newest_read

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
SUFFIX = {"method": "suffix", "num_speculative_tokens": 8}


def found(values: dict[str, Any], version: str = "0.32.0", gpu: str = "H100") -> list[Finding]:
    text = yaml.safe_dump({"model": "Qwen/Qwen3-8B", **values})
    return [finding for finding in run(subject_of(Example(text, version, gpu)))
            if finding.family in ("values", "options") and finding.severity != "info"]


def codes(values: dict[str, Any], version: str = "0.32.0", gpu: str = "H100") -> set[tuple[str, str]]:
    return {(finding.code, finding.severity) for finding in found(values, version, gpu)}


@pytest.mark.parametrize("values", [
    {"max-num-seqs": "many"}, {"max-num-seqs": 0}, {"max-num-seqs": -4}, {"max-num-seqs": 4.5}, {"max-num-seqs": True},
    {"max-num-seqs": [1, 2]}, {"max-num-seqs": None}, {"gpu-memory-utilization": 1.5}, {"gpu-memory-utilization": 0},
    {"gpu-memory-utilization": -0.5}, {"gpu-memory-utilization": "most"}, {"tensor-parallel-size": 0},
    {"tensor_parallel_size": "two"}, {"max-model-len": -7}, {"max-model-len": "long"}, {"dtype": "float17"},
    {"kv-cache-dtype": "fp9"}, {"enforce-eager": 1}, {"enable-lora": [True]},
    {"max-num-batched-tokens": "8q"}, {"compilation-config": "{not json"}, {"block-size": 0},
    {"cudagraph-capture-sizes": ["one", "two"]}, {"model": {"a": "b"}}, {"model": ["a", "b"]}, {"tokenizer": {"a": 1}},
])
def test_a_value_that_the_option_does_not_take_is_an_error(values: dict[str, Any]) -> None:
    assert ("SPD112", "error") in codes(values)


@pytest.mark.parametrize("values", [
    {"max-num-seqs": 64}, {"max-num-seqs": "64"}, {"max-num-batched-tokens": "8k"}, {"max-num-batched-tokens": "8K"},
    {"max-model-len": "auto"}, {"max-model-len": -1}, {"max-model-len": "16k"}, {"gpu-memory-utilization": 1},
    {"gpu-memory-utilization": "0.9"}, {"device-memory-utilization": 0.8}, {"enforce-eager": True},
    {"enforce-eager": False}, {"no-enable-prefix-caching": True}, {"served-model-name": "a"},
    {"served-model-name": ["a", "b"]}, {"hf-overrides": {"a": 1}}, {"hf-token": True}, {"hf-token": "secret"},
    {"kv-cache-dtype": "fp8"}, {"seed": 7}, {"quantization": "fp8"}, {"moe-backend": "deep-gemm"},
    {"compilation-config": {"cudagraph_mode": "FULL", "cudagraph_capture_sizes": [4, 8]}},
    {"compilation-config": '{"cudagraph_mode": "FULL"}'}, {"disable-log-stats": False},
    {"port": 8000}, {"api-key": "x"},
    {"limit-mm-per-prompt": {"image": 0}}, {"override-generation-config": {"temperature": 0.6}},
])
def test_what_the_server_takes_is_left_alone(values: dict[str, Any]) -> None:
    assert codes(values) == set()


@pytest.mark.parametrize(("values", "hint"), [
    ({"max-number-seqs": 8}, "max-num-seqs"), ({"gpu_memory_utilisation": 0.9}, "gpu-memory-utilization"),
    ({"tensor-paralel-size": 2}, "tensor-parallel-size"), ({"num_speculative_tokens": 3}, "speculative-config"),
    ({"cudagraph_mode": "FULL"}, "compilation-config"),
    ({"speculative_conf1g": {"method": "ngram"}}, "speculative-config"),
])
def test_an_option_that_the_release_does_not_have_is_an_error_and_the_near_one_is_named(
    values: dict[str, Any], hint: str
) -> None:
    (finding,) = [one for one in found(values) if one.code in ("SPD111", "SPD103")]
    assert finding.severity == "error"
    assert hint in finding.remedy


def test_options_that_went_or_came_later_say_so() -> None:
    assert ("SPD111", "error") in codes({"num-scheduler-steps": 8})
    (gone,) = found({"num-scheduler-steps": 8})
    assert "gone since" in gone.message
    (early,) = found({"max-cudagraph-capture-size": 64}, "0.10.0")
    assert "it came with" in early.message


def test_of_a_release_that_was_not_read_an_unknown_option_is_a_warning() -> None:
    assert codes({"brand-new-option": 3}, "0.99.0") == {("SPD111", "warn")}
    assert codes({"brand-new-option": 3}, "nightly") == {("SPD111", "warn")}
    assert codes({"plugin-option": 3}, gpu="Ascend 910") == {("SPD111", "warn")}
    assert codes({"long-gone-option": 3}, "0.6.3") == set()


def test_a_line_that_is_dropped_is_named_and_a_shortened_name_too() -> None:
    assert codes({"no-such-option": False}) == {("SPD113", "warn")}
    assert codes({"served-model-name": []}) == {("SPD113", "warn")}
    assert codes({"max-model": 8192}) == {("SPD114", "warn")}


@pytest.mark.parametrize("word", ["true", "False", "yes", "off"])
@pytest.mark.parametrize("switch", ["enforce-eager", "enable-lora", "trust-remote-code", "async-scheduling"])
def test_a_switch_in_quotes_is_an_error(switch: str, word: str) -> None:
    assert ("SPD110", "error") in codes({switch: word})


@pytest.mark.parametrize(("extra", "base"), [
    ({"suffix_decoding_max_tree_depth": 0}, SUFFIX), ({"suffix_decoding_max_cached_requests": -1}, SUFFIX),
    ({"suffix_decoding_max_spec_factor": -0.5}, SUFFIX), ({"suffix_decoding_min_token_prob": 1.5}, SUFFIX),
    ({"suffix_decoding_max_tree_depth": "deep"}, SUFFIX), ({"draft_tensor_parallel_size": 0}, NGRAM),
    ({"draft_tensor_parallel_size": "all"}, NGRAM), ({"max_model_len": 0}, NGRAM), ({"max_model_len": "long"}, NGRAM),
    ({"parallel_drafting": "maybe"}, NGRAM), ({"draft_sample_method": "random"}, NGRAM),
    ({"moe_backend": "none-such"}, NGRAM),
    ({"revision": 7}, NGRAM),
])
def test_a_key_of_speculative_config_out_of_its_bounds_is_an_error(extra: dict[str, Any], base: dict[str, Any]) -> None:
    assert ("SPD109", "error") in codes({"speculative-config": {**base, **extra}})


@pytest.mark.parametrize("extra", [
    {"suffix_decoding_max_tree_depth": 1}, {"suffix_decoding_max_cached_requests": 0},
    {"suffix_decoding_min_token_prob": 0}, {"suffix_decoding_max_spec_factor": 2},
])
def test_a_key_of_speculative_config_at_its_bounds_is_left_alone(extra: dict[str, Any]) -> None:
    assert codes({"speculative-config": {**SUFFIX, **extra}}) == set()


def test_keys_of_other_mappings_are_judged_as_the_release_does() -> None:
    assert codes({"compilation-config": {"cudagraph_modes": "FULL"}}) == {("SPD115", "error")}
    assert codes({"compilation-config": {"cudagraph_capture_sizes": "all"}}) == {("SPD116", "error")}


def test_a_name_of_any_length_leaves_the_finding_short() -> None:
    for values in ({"x" * 5000: 1}, {"speculative-config": {**NGRAM, "y" * 5000: 1}}):
        (finding,) = found(values)
        assert len(finding.message) + len(finding.remedy) <= 700


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(-1e18, 1e18) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6)
OPTIONS = st.builds(Option, kind=st.sampled_from(["int", "size", "window", "float", "switch", "switch or text", "flag",
                                                  "text", "choice", "list", "json", "any"]),
                    optional=st.booleans(), choices=st.just(("a", 1)), of=st.sampled_from([None, "int"]),
                    min=st.sampled_from([None, 0.0]), loose=st.booleans())


@given(OPTIONS, VALUES)
def test_any_value_of_any_option_is_judged(option: Option, value: object) -> None:
    assert taken_as_option(option, value) in (True, False)
    assert taken_as_key(option, value) in (True, False)


@given(st.integers(-(10**12), 10**12))
def test_a_number_and_its_text_are_one(number: int) -> None:
    option = Option("int", min=1)
    assert taken_as_option(option, number) == taken_as_option(option, str(number))
    assert taken_as_key(option, number) == (number >= 1)


# --- names that the engine registers ---------------------------------------------------------------------------------
@pytest.mark.parametrize("place", [
    lambda name: {"attention-backend": name}, lambda name: {"attention-config": {"backend": name}},
    lambda name: {"speculative-config": {**NGRAM, "attention_backend": name}}])
def test_an_attention_backend_is_known_in_any_case_and_a_slip_names_the_one_meant(place: Any) -> None:
    for name in ("FLASH_ATTN", "flash_attn", "FlashInfer", "auto", "TRITON_MLA"):
        assert found(place(name)) == []
    (slip,) = found(place("FLASH_ATN"))
    assert (slip.severity, slip.remedy) == ("error", "Did you mean FLASH_ATTN?")


def test_a_backend_that_only_a_plugin_can_know_is_a_warning() -> None:
    assert codes({"attention-backend": "ACME_KERNELS"}) == {("SPD112", "warn")}


# --- secrets ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("values", [
    {"speculative-config": '{"method": "eagle3", "hf_token": "hf_hidden"'},
    {"speculative-config": "method=eagle3, token: hf_hidden"},
    {"speculative-config": "http://user:hf_hidden@host/x"},
    {"kv-transfer-config": '{"kv_connector": "x", "api_key": "hf_hidden"'},
    {"max-num-seqs": "api_key=hf_hidden"},
])
def test_no_finding_quotes_what_looks_like_a_secret(values: dict[str, Any]) -> None:
    said = found(values)
    assert said
    assert not any("hf_hidden" in f"{f.message} {f.remedy}" for f in said)


def test_a_torn_json_object_is_told_by_the_place_where_it_ends() -> None:
    (torn,) = [f for f in found({"speculative-config": '{"method": "ngram",, "num_speculative_tokens": 3}'})
               if f.code == "SPD105"]
    assert "line 1, column 20" in torn.message
    (word,) = [f for f in found({"speculative-config": "ngram"}) if f.code == "SPD105"]
    assert "'ngram'" in word.message


@given(st.text(min_size=1, max_size=30))
def test_whatever_follows_a_secrets_name_stays_unsaid(value: str) -> None:
    from advisor.checks.values import said

    hidden = "a value that carries a secret (not shown)"
    assert said(f"hf_token: {value}") == said({"password": value}) == said(value, "api-key") == hidden


def test_of_a_release_that_was_not_read_the_finding_names_the_one_that_was() -> None:
    (unknown,) = [f for f in found({"some-new-option": 3}, "0.33.0") if f.code == "SPD111"]
    assert unknown.severity == "warn"
    assert f"is no option of vLLM {newest_read()}, the newest whose options are known here" in unknown.message
    assert "where 0.33.0 does not know it either" in unknown.message
