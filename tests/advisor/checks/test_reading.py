"""One reading of a config, whichever way it is written and whichever release it is for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.examples import subject_of
from advisor.checks.rule import Example
from advisor.checks.run import run
from advisor.checks.serve_config import from_values, from_yaml
from advisor.checks.speculation import Speculation
from profiles.errors import InputError

NESTED: dict[str, Any] = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
SPELLINGS = {
    "mapping": yaml.safe_dump({"model": "m", "speculative-config": NESTED}),
    "underscores": yaml.safe_dump({"model": "m", "speculative_config": NESTED}),
    "dashes inside": yaml.safe_dump({"model": "m", "speculative-config": {k.replace("_", "-"): v for k,
                                                                          v in NESTED.items()}}),
    "JSON text": yaml.safe_dump({"model": "m", "speculative-config": json.dumps(NESTED)}),
    "dotted keys": yaml.safe_dump({"model": "m", **{f"speculative-config.{k}": v for k, v in NESTED.items()}}),
}


def speculation(config: str, version: str = "0.32.0", **models: Any) -> Speculation | None:
    return subject_of(Example(config, version, models=models)).speculation


@pytest.mark.parametrize("config", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_spelling_of_one_config_is_read_alike(config: str) -> None:
    found = speculation(config)
    assert found is not None
    assert (found.method, found.k, found.settings["prompt_lookup_max"]) == ("ngram", 3, 4)


def test_the_separate_options_of_old_releases_are_read_like_todays_keys() -> None:
    found = speculation("model: m\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 5\nngram-prompt-lookup-max: "
                        "4\n",
                        "0.6.6")
    assert found is not None
    assert (found.method, found.k, found.settings["prompt_lookup_max"]) == ("ngram", 5, 4)
    assert found.path("prompt_lookup_max") == ("ngram-prompt-lookup-max",)


def test_no_speculation_is_none() -> None:
    assert speculation("model: m\n") is None
    assert speculation("model: m\nspeculative-config: null\n") is None


@pytest.mark.parametrize(
    ("model", "version", "method"),
    [
        ("org/EAGLE3-thing", "0.32.0", "eagle3"),
        ("org/EAGLE-thing", "0.32.0", "eagle"),
        ("org/x-dflash", "0.32.0", "dflash"),
        ("org/plain", "0.32.0", "draft_model"),
        ("pkg.module.Proposer", "0.32.0", "custom_class"),
        ("org/EAGLE3-thing", "0.7.3", "draft_model"),
    ],
)
def test_a_method_left_out_is_told_as_the_engine_tells_it(model: str, version: str, method: str) -> None:
    key = "speculative-model" if version.startswith("0.7") else "spec-model"
    count = "num-speculative-tokens" if version.startswith("0.7") else "spec-tokens"
    found = speculation(f"model: m\n{key}: {model}\n{count}: 3\n", version)
    assert found is not None
    assert found.method == method


@pytest.mark.parametrize(
    ("version", "env", "config", "runner"),
    [
        ("0.7.3", {}, "method: ngram", "v0"),
        ("0.9.1", {}, "method: ngram", "v1"),
        ("0.9.1", {}, "method: draft_model\n  model: org/d", "v0"),
        ("0.9.1", {"VLLM_USE_V1": "0"}, "method: ngram", "v0"),
        ("0.23.0", {}, "method: eagle3\n  model: org/h", "v2"),
        ("0.26.0", {}, "method: eagle3\n  model: org/h", "v2"),
        ("0.26.0", {}, "method: ngram", "v1"),
        ("0.32.0", {}, "method: ngram", "v2"),
        ("0.32.0", {}, "method: suffix", "v1"),
        ("0.32.0", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "method: ngram", "v1"),
    ],
)
def test_the_runner_is_the_one_the_release_ends_up_with(
    version: str, env: dict[str, str], config: str, runner: str
) -> None:
    target = {"config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
                         "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 128256}}
    text = f"model: org/t\nspeculative-config:\n  {config}\n  num_speculative_tokens: 3\n"
    assert subject_of(Example(text, version, env=env, models={"org/t": target})).engine.runner == runner


@pytest.mark.parametrize(("text", "said"), [
    ("max-num-seqs: 4\nmax_num_seqs: 8\n",
     "vllm.yaml:2: option 'max-num-seqs' stands twice, as 'max-num-seqs' and as 'max_num_seqs': vLLM takes the last"),
    ("speculative-config: {method: ngram}\nspeculative_config: {method: mtp}\n",
     "vllm.yaml:2: option 'speculative-config' stands twice"),
    ("speculative-config: {method: ngram}\nspeculative_config.num_speculative_tokens: 3\n",
     "vllm.yaml:2: option 'speculative-config' stands both whole and with dots"),
    ("speculative_config.num_speculative_tokens: 3\nspeculative-config: {method: ngram}\n",
     "vLLM takes those with dots alone"),
    ("speculative-config.prompt-lookup-max: 3\nspeculative_config.prompt_lookup_max: 4\n",
     "vllm.yaml:2: 'speculative-config.prompt_lookup_max' stands twice"),
    ("speculative-config: {prompt-lookup-max: 3, prompt_lookup_max: 4}\n",
     "vllm.yaml:1: speculative-config: key 'prompt_lookup_max' stands twice"),
])
def test_an_option_in_two_spellings_is_refused_with_the_one_that_vllm_takes(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        from_yaml(text, "vllm.yaml")
    assert said in str(error.value)


def test_a_list_is_no_config() -> None:
    with pytest.raises(InputError, match="expected `option: value` lines"):
        from_yaml("- a\n", "vllm.yaml")


def test_lines_are_those_of_the_text() -> None:
    config = from_yaml("model: m\nspeculative_config:\n  num-speculative-tokens: 3\n", "vllm.yaml")
    assert config.line(("speculative-config", "num_speculative_tokens")) == 3
    assert config.line(("speculative-config", "no-such-key")) == 2
    assert config.line(("no-such-option",)) is None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(-(2.0**56), 2.0**56, width=32)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6,
)
_OPTIONS = ["model", "tensor-parallel-size", "pipeline-parallel-size", "max-model-len", "max-num-seqs",
            "max-num-batched-tokens",
            "speculative-config", "speculative-model", "num-speculative-tokens", "compilation-config", "enforce-eager",
            "cudagraph-capture-sizes", "async-scheduling", "hf-overrides", "kv-transfer-config", "generation-config",
            "override-generation-config", "gpu-memory-utilization", "quantization", "attention-backend"]
_KEYS = ["method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max", "max_model_len",
         "draft_tensor_parallel_size", "num_speculative_tokens_per_batch_size", "quantization", "parallel_drafting",
         "rejection_sample_method", "use_heterogeneous_vocab", "enable_adaptive_verification", "attention_backend"]


@given(
    st.dictionaries(st.sampled_from(_OPTIONS), _VALUES, max_size=6),
    st.dictionaries(st.sampled_from(_KEYS), _VALUES | st.sampled_from(["ngram", "mtp", "eagle3", "draft_model"]),
                    max_size=6),
    st.sampled_from(["0.6.0", "0.8.5", "0.10.1", "0.18.0", "0.26.0", "0.32.0", "nightly"]),
    st.sampled_from(["H100", "cpu", "MI300X", "GB10", "Ascend 910"]),
)
def test_no_rule_breaks_on_values_that_make_no_sense(
    options: dict[str, Any], nested: dict[str, Any], version: str, gpu: str
) -> None:
    subject = subject_of(Example("model: Qwen/Qwen3-8B\n", version, gpu))
    config = from_values({**options, **({"speculative-config": nested} if nested else {})})
    for finding in run(replace(subject, config=config)):
        assert finding.message
