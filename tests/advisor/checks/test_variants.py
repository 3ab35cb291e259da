"""The same fault written differently: other spellings of the file, other methods with the same limit, other releases of
the range. And the same config where the fault is mended. All synthetic."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml

from advisor.checks.examples import subject_of
from advisor.checks.registry import all_rules
from advisor.checks.rule import Example, Rule
from advisor.checks.run import run
from advisor.checks.sources import read_source
from advisor.checks.subject import Subject

ABOUT_THE_FILE = frozenset({"SPD105", "SPD107", "SPD110", "SPD112", "SPD113", "SPD114"})
"""Rules about how a config file is written: their examples mean something else on a command line."""


def values_of(rule: Rule) -> dict[str, Any]:
    found = yaml.safe_load(rule.fails.config)
    assert isinstance(found, dict)
    return found


def said(subject: Subject) -> set[tuple[str, str]]:
    return {(finding.code, finding.severity) for finding in run(subject)}


def underscores(values: dict[str, Any]) -> str:
    return yaml.safe_dump({option.replace("-", "_"): value for option, value in values.items()}, sort_keys=False)


def json_texts(values: dict[str, Any]) -> str:
    return yaml.safe_dump({option: json.dumps(value) if isinstance(value, dict) else value
                           for option, value in values.items()}, sort_keys=False)


def dotted(values: dict[str, Any]) -> str:
    flat: dict[str, Any] = {}
    for option, value in values.items():
        inside = isinstance(value, dict)
        flat |= {f"{option}.{key}": inner for key, inner in value.items()} if inside else {option: value}
    return yaml.safe_dump(flat, sort_keys=False)


def command_line(values: dict[str, Any]) -> str:
    words = ["vllm", "serve", str(values["model"])]
    for option, value in values.items():
        if option == "model":
            continue
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, list):
            words += [f"--{option}", *map(str, value)]
        else:
            words += [f"--{option}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return shlex.join(words)


RULES = [rule for rule in all_rules() if rule.code not in ABOUT_THE_FILE]


@pytest.mark.parametrize("spell", [underscores, json_texts, dotted], ids=lambda spell: spell.__name__)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_spelling_of_a_faulty_file_is_judged_alike(rule: Rule, spell: Any) -> None:
    respelled = subject_of(replace(rule.fails, config=spell(values_of(rule))))
    assert said(respelled) == said(subject_of(rule.fails))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_command_line_is_judged_like_the_file_that_says_the_same(rule: Rule) -> None:
    subject = subject_of(rule.fails)
    (config,) = read_source(command_line(values_of(rule)), "start.sh", env=rule.fails.env)
    assert said(replace(subject, config=config)) == said(subject)


# --- other methods, releases and models of the same kind ------------------------------------------------------------
HEAD = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "draft_vocab_size": 32000, "max_position_embeddings": 131072}
EAGLE = {**HEAD, "architectures": ["EagleLlamaForCausalLM"], "eagle_config": {}}
HYBRID = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": {
    "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
    "num_key_value_heads": 4, "intermediate_size": 17408, "vocab_size": 248320, "max_position_embeddings": 262144,
    "head_dim": 256, "layer_types": ["linear_attention", "full_attention"] * 32, "mtp_num_hidden_layers": 1}}
STATED = {"architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "hidden_size": 3072,
          "num_hidden_layers": 62, "num_attention_heads": 48, "vocab_size": 200064, "use_mtp": True,
          "num_mtp_modules": 3}
MODELS = {"models/stated": {"config": STATED},
          "models/head3": {"config": HEAD}, "models/head": {"config": EAGLE}, "models/hybrid": {"config": HYBRID}}
TARGET = "model: meta-llama/Llama-3.1-8B-Instruct\nmax-model-len: 8192\nmax-num-seqs: 16\n"
SPECULATING = {
    "eagle3": "speculative-config: {method: eagle3, model: models/head3, num_speculative_tokens: 3}\n",
    "eagle": "speculative-config: {method: eagle, model: models/head, num_speculative_tokens: 3}\n",
    "detected": "speculative-config: {model: org/EAGLE3-head, num_speculative_tokens: 3}\n",
    "draft": "speculative-config: {method: draft_model, model: meta-llama/Llama-3.2-1B-Instruct, "
             "num_speculative_tokens: 3}\n",
    "ngram": "speculative-config: {method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 4}\n",
    "suffix": "speculative-config: {method: suffix, num_speculative_tokens: 8}\n",
    "mtp": "speculative-config: {method: mtp, num_speculative_tokens: 1}\n",
    "dflash": "speculative-config: {method: dflash, model: org/x-dflash, num_speculative_tokens: 7}\n",
    "mlp": "speculative-config: {method: mlp_speculator, model: org/accelerator, num_speculative_tokens: 3}\n",
    "old ngram": "speculative-model: '[ngram]'\nnum-speculative-tokens: 4\nngram-prompt-lookup-max: 4\n",
    "old draft": "speculative-model: meta-llama/Llama-3.2-1B-Instruct\nnum-speculative-tokens: 4\n",
}


def codes(version: str, speculating: str, extra: str = "", *, gpu: str = "H100", gpus: int = 8, target: str = TARGET,
          **env: str) -> set[str]:
    example = Example(target + SPECULATING[speculating] + extra, version, gpu, gpus, env, models=MODELS)
    return {finding.code for finding in run(subject_of(example)) if finding.severity != "info"}


V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
HYBRID_TARGET = "model: models/hybrid\nmax-model-len: 8192\nmax-num-seqs: 16\n"
FAULTY: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("SPD584", "0.9.2", "eagle3", "kv-cache-dtype: fp8\n", {}), ("SPD584", "0.10.2", "eagle", "kv_cache_dtype: "
                                                                                              "fp8_e5m2\n", {}),
    ("SPD584", "0.20.0", "dflash", "kv-cache-dtype: fp8_e4m3\n", {"gpu": "RTX 4090"}),
    ("SPD584", "0.30.0", "dflash", "kv-cache-dtype: fp8_ds_mla\n", {}),
    ("SPD385", "0.6.3", "old ngram", "enable-chunked-prefill: true\n", {}),
    ("SPD385", "0.7.3", "old draft", "enable-chunked-prefill: true\ntensor-parallel-size: 4\n", {}),
    ("SPD701", "0.32.0", "mtp", "enable-sleep-mode: true\n", {}),
    ("SPD701", "0.28.0", "draft", "enable-sleep-mode: true\n", {}),
    ("SPD701", "0.24.0", "dflash", "enable_sleep_mode: true\n", {}),
    ("SPD310", "0.20.0", "eagle3", "tensor-parallel-size: 8\ndecode-context-parallel-size: 2\n", {}),
    ("SPD122", "0.10.0", "mlp", "", {}), ("SPD122", "0.20.0", "mlp", "", {}), ("SPD122", "0.32.0", "mlp", "", {}),
    ("SPD523", "0.9.1", "ngram", "enable-lora: true\n", {}), ("SPD523", "0.10.2", "ngram", "enable-lora: true\n", {}),
    ("SPD145", "0.32.0", "eagle3", "enable-dbo: true\n", V2),
    ("SPD682", "0.20.0", "mtp", "", {"gpu": "Arc Pro B60", "target": HYBRID_TARGET}),
    ("SPD683", "0.12.0", "eagle3", "", {"gpu": "MI300X", "VLLM_ROCM_USE_AITER": "1"}),
    ("SPD683", "0.12.0", "eagle3", "attention-backend: ROCM_AITER_FA\n", {"gpu": "MI300X"}),
    ("SPD381", "0.24.0", "suffix", "async-scheduling: true\n", {}),
    ("SPD345", "0.28.0", "draft", "enforce-eager: true\n", {}),
    ("SPD122", "0.12.0", "draft", "", {}), ("SPD141", "0.30.0", "suffix", "", V2),
    ("SPD141", "0.28.0", "ngram", "", V2),
    ("SPD217", "0.32.0", "mtp", "", {"target": "model: MiniMaxAI/MiniMax-M2\n"}),
    ("SPD217", "0.32.0", "mtp", "", {"target": "model: models/stated\n"}),
    ("SPD217", "0.14.0", "mtp", "", {"target": "model: zai-org/GLM-4.7-Flash\n"}),
    ("SPD222", "0.9.1", "detected", "", {"target": "model: Qwen/Qwen3-8B\nmax-model-len: 8192\n"}),
]
MENDED: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("SPD217", "0.32.0", "mtp", "", {"target": "model: zai-org/GLM-4.5-Air\n"}),
    ("SPD217", "0.32.0", "mtp", "", {"target": "model: Qwen/Qwen3-Next-80B-A3B-Instruct\n"}),
    ("SPD217", "0.32.0", "mtp", "", {"target": "model: models/hybrid\n"}),
    ("SPD217", "0.15.0", "mtp", "", {"target": "model: zai-org/GLM-4.7-Flash\n"}),
    ("SPD217", "0.32.0", "mtp", "", {"target": "model: org/nobody-knows\n"}),
    ("SPD584", "0.12.0", "eagle3", "kv-cache-dtype: fp8\n", {}), ("SPD584", "0.9.2", "eagle3", "kv-cache-dtype: "
                                                                                               "auto\n", {}),
    ("SPD584", "0.9.2", "ngram", "kv-cache-dtype: fp8\n", {}), ("SPD584", "0.32.0", "dflash", "kv-cache-dtype: "
                                                                                              "fp8\n", {}),
    ("SPD385", "0.7.3", "old draft", "enable-chunked-prefill: true\n", {}),
    ("SPD385", "0.7.3", "old ngram", "enable-chunked-prefill: true\n", {}),
    ("SPD385", "0.12.0", "eagle3", "enable-chunked-prefill: true\n", {}),
    ("SPD701", "0.32.0", "ngram", "enable-sleep-mode: true\n", {}),
    ("SPD701", "0.32.0", "mtp", "enable-sleep-mode: false\n", {}),
    ("SPD310", "0.20.0", "ngram", "tensor-parallel-size: 8\ndecode-context-parallel-size: 2\n", {}),
    ("SPD310", "0.20.0", "eagle3", "tensor-parallel-size: 8\ndecode-context-parallel-size: 1\n", {}),
    ("SPD145", "0.32.0", "eagle3", "enable-dbo: true\n", {}),
    ("SPD682", "0.30.0", "mtp", "", {"gpu": "Arc Pro B60", "target": HYBRID_TARGET}),
    ("SPD682", "0.20.0", "ngram", "", {"gpu": "Arc Pro B60", "target": HYBRID_TARGET}),
    ("SPD683", "0.12.0", "eagle3", "", {"gpu": "MI300X"}), ("SPD683", "0.20.0", "eagle3", "",
                                                           {"gpu": "MI300X", "VLLM_ROCM_USE_AITER": "1"}),
    ("SPD683", "0.12.0", "eagle3", "", {"gpu": "MI300X", "VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_USE_AITER_MHA": "0"}),
    ("SPD301", "0.20.0", "eagle3", "tensor-parallel-size: 4\n", {}),
]


@pytest.mark.parametrize(("code", "version", "speculating", "extra", "more"), FAULTY,
                         ids=[f"{case[0]}-{case[1]}-{case[2]}" for case in FAULTY])
def test_a_fault_is_found_whatever_method_or_release_of_its_kind_it_meets(
    code: str, version: str, speculating: str, extra: str, more: dict[str, Any]
) -> None:
    assert code in codes(version, speculating, extra, **more)


@pytest.mark.parametrize(("code", "version", "speculating", "extra", "more"), MENDED,
                         ids=[f"{case[0]}-{case[1]}-{case[2]}" for case in MENDED])
def test_where_the_fault_is_mended_the_rule_is_silent(
    code: str, version: str, speculating: str, extra: str, more: dict[str, Any]
) -> None:
    assert code not in codes(version, speculating, extra, **more)
