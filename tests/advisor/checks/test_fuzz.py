"""Whatever a config says, every rule judges it or passes it over: nothing but a sentence may come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.checks.finding import CheckResult
from advisor.checks.serve_config import from_values, from_yaml
from advisor.cli.check_input import Given, judge
from advisor.cli.check_models import SubjectBuilder
from advisor.report.findings import formats, render
from profiles.catalog.releases import release
from profiles.errors import InputError

OPTIONS = (
    "model", "tokenizer", "max-model-len", "max-num-seqs", "max-num-batched-tokens", "tensor-parallel-size",
    "pipeline-parallel-size", "data-parallel-size", "gpu-memory-utilization", "dtype", "quantization", "kv-cache-dtype",
    "enforce-eager", "enable-prefix-caching", "enable-lora", "max-loras", "max-lora-rank", "async-scheduling",
    "cudagraph-capture-sizes", "max-cudagraph-capture-size", "compilation-config", "structured-outputs-config",
    "hf-overrides", "override-generation-config", "logits-processors", "limit-mm-per-prompt", "kv-transfer-config",
    "speculative-model", "num-speculative-tokens", "ngram-prompt-lookup-max", "spec-method", "spec-tokens",
    "disable-log-stats", "enable-expert-parallel", "block-size", "enable-chunked-prefill", "attention-backend",
)
KEYS = (
    "method", "model", "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "prompt_lookup_max",
    "prompt_lookup_min", "draft_tensor_parallel_size", "max_model_len", "parallel_drafting", "rejection_sample_method",
    "synthetic_acceptance_length", "synthetic_acceptance_rates", "draft_sample_method", "quantization", "revision",
    "use_heterogeneous_vocab", "enable_adaptive_verification", "suffix_decoding_max_tree_depth", "enforce_eager",
    "disable_by_batch_size", "kv_cache_dtype", "tensor_parallel_size",
)
MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1", "nobody/knows", "./m", "")
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.integers(-(10**18), 10**18), st.floats(-10, 10),
    st.sampled_from(MODELS),
    st.sampled_from(("ngram", "eagle3", "draft_model", "mtp", "suffix", "dspark", "fp8", "auto", "none", "8k", "{")),
    st.text(max_size=8),
)
values = st.recursive(scalars, lambda inner: st.one_of(
    st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=3)), max_leaves=8)
speculation = st.one_of(values, st.dictionaries(st.sampled_from(KEYS), values, max_size=6),
                        st.fixed_dictionaries({"method": st.sampled_from(("ngram", "eagle3", "draft_model", "mtp")),
                                               "num_speculative_tokens": scalars, "model": st.sampled_from(MODELS)}))
configs = st.builds(lambda options, spec: {**options, "speculative-config": spec},
                    st.dictionaries(st.sampled_from(OPTIONS), values, max_size=8), speculation)
BUILDERS = {
    version: SubjectBuilder(release=release(version), gpu_name=gpu, gpu_count=count)
    for version, gpu, count in (("0.32.0", "H100", 1), ("0.6.3", "A100-40GB", 4), ("0.16.0", "", None),
                                ("nightly", "cpu", 0), ("0.28.0", "MI300X", 8))
}


def failures(results: list[CheckResult]) -> list[str]:
    """Rules that broke: a user sees them as notes, here they are faults."""
    return [note for result in results for note in result.notes if "could not be judged" in note]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(configs, st.sampled_from(sorted(BUILDERS)))
def test_any_values_of_known_options_are_judged(config: dict[str, Any], version: str):
    try:
        given_config = from_values(config, name="vllm.yaml")
        results = judge([Given(given_config, Path("/nonexistent"))], BUILDERS[version])
    except InputError:
        return
    assert failures(results) == []
    for finding in results[0].findings:
        assert finding.message
        assert finding.remedy


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(configs)
def test_any_findings_can_be_printed_in_every_format(config: dict[str, Any]):
    try:
        results = judge([Given(from_values(config, name="vllm.yaml"), Path("/nonexistent"))], BUILDERS["0.32.0"])
    except InputError:
        return
    for format in formats():
        assert render(results, format).endswith("\n")


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="abm:- \n#&*{}[]'\"|>!1.\t", max_size=60))
def test_any_text_is_a_config_or_refused(text: str):
    try:
        config = from_yaml(text, "vllm.yaml")
    except InputError:
        return
    assert all(isinstance(option, str) for option in config.values)


@pytest.mark.parametrize("value", [10**18, -(10**18), 1e18, [[1, 2]], {"a": {}}, True, "", None])
def test_every_known_option_takes_an_odd_value_without_a_crash(value: object):
    for option in OPTIONS:
        speculation = {"method": "ngram", "num_speculative_tokens": 3}
        config = {"model": MODELS[0], "speculative-config": speculation, option: value}
        assert failures(judge([Given(from_values(config, name="f"), Path("/nonexistent"))], BUILDERS["0.32.0"])) == []
    for key in KEYS:
        for builder in BUILDERS.values():
            config = {"model": MODELS[0], "speculative-config": {"method": "eagle3", key: value}}
            assert failures(judge([Given(from_values(config, name="f"), Path("/nonexistent"))], builder)) == []
