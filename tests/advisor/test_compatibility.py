"""What cannot run is said before it is priced: candidates beside their target, engines on their hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from advisor.advice import advise
from advisor.compatibility import (
    accelerator_note,
    doubts,
    foreign_evidence,
    incompatible,
    refused_accelerator,
    refused_engine,
    unusable,
    with_runnable_k,
)
from advisor.report import render
from profiles.catalog.gpus import find_gpu
from profiles.catalog.models import find_model
from profiles.catalog.releases import release
from profiles.catalog.shapes import ModelShape, TokenizerFingerprint
from profiles.deployment import Candidate, Deployment, Engine
from profiles.evidence import Evidence, ServerEvidence
from tests.advisor.situations import gpu_situation, llama_1b, llama_8b

CREATED = "2026-01-01T00:00:00Z"


def model(model_id: str) -> ModelShape:
    found = find_model(model_id)
    assert found is not None
    return found


def why(
    stated: dict[str, Any] | str,
    draft: ModelShape | None = None,
    target: ModelShape | None = None,
    version: str = "0.32.0",
    runner: Any = "v1",
    **engine: Any,
) -> str | None:
    candidate = Candidate.model_validate(stated)
    return unusable(candidate, target or llama_8b(), draft, Engine(**engine), release(version), runner)


def drafted(draft: ModelShape, **stated: Any) -> dict[str, Any]:
    return {"method": "draft_model", "draft": draft.id, **stated}


# --- candidates ---------------------------------------------------------------------------------------------------
def test_mtp_needs_layers_in_the_targets_checkpoint_and_k_that_fits_them() -> None:
    assert "no multi-token-prediction layers" in str(why("mtp"))
    three = llama_8b().model_copy(update={"mtp_layers": 3})
    assert why({"method": "mtp", "k": [1, 4]}, target=three) is None
    assert "multiple" in str(why({"method": "mtp", "k": [4, 5]}, target=three))
    assert with_runnable_k(Candidate(method="mtp", k=(1, 3, 4, 6)), three).k == (1, 3, 6)


def test_mtp_is_refused_or_taken_by_what_vllm_runs_not_by_what_the_config_states() -> None:
    assert why("mtp", target=model("zai-org/GLM-4.5-Air")) is None
    assert why("mtp", target=model("Qwen/Qwen3-Next-80B-A3B-Instruct")) is None
    assert "runs none for the model type minimax_m2" in str(why("mtp", target=model("MiniMaxAI/MiniMax-M2")))
    assert "0.15 brought them" in str(why("mtp", target=model("zai-org/GLM-4.7-Flash"), version="0.14.0"))


def test_a_draft_model_speaks_the_targets_tokens() -> None:
    draft = llama_1b()
    assert why(drafted(draft), draft) is None
    assert "vocabulary" in str(why(drafted(draft), draft.model_copy(update={"vocab_size": 32000})))
    mapped = drafted(draft, settings={"use_heterogeneous_vocab": True})
    assert why(mapped, draft.model_copy(update={"vocab_size": 32000})) is None
    assert "V1 runner" in str(why(mapped, draft, runner="v2"))
    assert "use_heterogeneous_vocab" in str(why(mapped, draft, version="0.24.0"))
    one, other = (TokenizerFingerprint(vocab_size=128256, vocab_hash=text) for text in "ab")
    target = llama_8b().model_copy(update={"tokenizer": one})
    assert why(drafted(draft), draft.model_copy(update={"tokenizer": one}), target) is None
    assert "different tokens" in str(why(drafted(draft), draft.model_copy(update={"tokenizer": other}), target))
    families = [TokenizerFingerprint(vocab_size=128256, family=name) for name in ("llama3", "other")]
    target = target.model_copy(update={"tokenizer": families[0]})
    assert "different tokens" in str(why(drafted(draft), draft.model_copy(update={"tokenizer": families[1]}), target))


def test_a_head_belongs_to_its_target_and_its_method() -> None:
    head = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    llama, qwen = model("meta-llama/Llama-3.1-8B-Instruct"), model("Qwen/Qwen3-8B")
    assert why({"method": "eagle3", "draft": head}, model(head), llama) is None
    assert "trained for" in str(why({"method": "eagle3", "draft": head}, model(head), qwen))
    assert "eagle3 head" in str(why({"method": "eagle", "draft": head}, model(head), llama))
    assert "eagle3 head" in str(why({"method": "draft_model", "draft": head}, model(head), llama))


@pytest.mark.parametrize("name", ["eagle", "eagle3", "medusa", "dflash", "dspark"])
def test_an_ordinary_model_is_no_head(name: str) -> None:
    said = str(why({"method": name, "draft": llama_1b().id}, llama_1b(), version="0.32.0"))
    assert "ordinary model" in said
    own = llama_1b().model_copy(update={"id": "./mine", "architectures": ("LlamaForCausalLM",)})
    assert "ordinary model" in str(why({"method": name, "draft": "./mine"}, own))


def test_an_unpublished_head_is_held_against_the_width_of_the_targets_hidden_states() -> None:
    head = llama_1b().model_copy(update={"id": "./head", "num_layers": 1, "hidden_size": 4096})
    assert why({"method": "eagle", "draft": "./head"}, head) is None
    assert "wide" in str(why({"method": "eagle", "draft": "./head"}, head.model_copy(update={"hidden_size": 2048})))
    assert why({"method": "eagle", "draft": "./head"}, None) is None


@pytest.mark.parametrize(("split", "whole", "runner", "runs"), [
    (2, 4, "v2", False), (1, 4, "v2", True), (1, 4, "v1", False), (4, 4, "v1", True), (None, 4, "v1", True)])
def test_a_draft_is_split_over_one_gpu_or_like_the_target(
    split: int | None, whole: int, runner: str, runs: bool
) -> None:
    stated = drafted(llama_1b(), tensor_parallel_size=split)
    assert (why(stated, llama_1b(), runner=runner, tensor_parallel_size=whole) is None) is runs


def test_a_method_is_one_that_the_release_and_the_engine_have() -> None:
    assert "no method draft_model" in str(why(drafted(llama_1b()), llama_1b(), version="0.14.0"))
    assert "no method medusa" in str(why({"method": "medusa", "draft": "x"}, version="0.33.0"))
    assert "CPU engine" in str(why("ngram_gpu", runner="cpu"))
    assert "does not speculate" in str(why("ngram", version="0.16.0", runner="cpu"))
    assert why("ngram", runner="cpu") is None


@pytest.mark.parametrize("settings", [
    {"prompt_lookup_min": 5, "prompt_lookup_max": 2}, {"prompt_lookup_max": 0}, {"prompt_lookup_min": 1.5}])
def test_lookup_lengths_that_no_engine_takes_are_refused(settings: dict[str, float]) -> None:
    assert "prompt_lookup" in str(why({"method": "ngram", "settings": settings}))
    assert why({"method": "ngram", "settings": {"prompt_lookup_min": 2, "prompt_lookup_max": 5}}) is None


# --- what is advised ----------------------------------------------------------------------------------------------
def test_the_advice_is_off_with_every_reason_when_no_stated_candidate_can_run() -> None:
    situation = gpu_situation(
        candidates=[{"method": "mtp"}, {"method": "eagle3", "draft": llama_1b().id}],
        concurrency=1, prompt_tokens=100, output_tokens=100)
    record = advise(situation, CREATED)
    assert record.decision.enable is False
    said = " ".join(record.decision.reasons)
    assert "no multi-token-prediction layers" in said
    assert "ordinary model" in said
    assert "speculative-config" not in yaml.safe_load(record.emitted.vllm_yaml)


def test_a_candidate_that_cannot_run_never_wins_and_the_others_go_on() -> None:
    able = {"method": "draft_model", "draft": llama_1b().id}
    load = {"concurrency": 1, "prompt_tokens": 300, "output_tokens": 384, "tasks": "json"}
    alone = advise(gpu_situation(candidates=[able], **load), CREATED)
    both = advise(gpu_situation(candidates=["mtp", able], **load), CREATED)
    assert (both.decision.method, both.decision.k) == (alone.decision.method, alone.decision.k)
    assert any("mtp is left out" in sentence for sentence in both.decision.reasons)
    assert not any(cell.fits for cell in both.candidates if cell.label == "mtp")
    assert "cannot run" in render(both, "text")


def test_a_draft_as_large_as_its_target_runs_but_is_said_to_be_of_no_use() -> None:
    situation = gpu_situation(concurrency=1)
    situation = replace(situation, target=llama_1b(), drafts={llama_1b().id: llama_8b()})
    assert incompatible(situation) == {}
    assert "no draft can save time" in doubts(situation, {})[0]


def test_only_no_speculation_is_priced_when_that_is_what_was_stated() -> None:
    deployment = Deployment.model_validate({"target": llama_8b().id, "candidates": ["none"]})
    assert [c.method for c in deployment.candidates] == ["none"]
    assert [c.method for c in Deployment.model_validate(
        {"target": "x", "candidates": ["off", "ngram"]}).candidates] == ["ngram"]
    situation = replace(gpu_situation(concurrency=1), candidates=(), deployment=deployment.model_copy(
        update={"workload": gpu_situation(concurrency=1).deployment.workload}))
    record = advise(situation, CREATED)
    assert record.decision.enable is False
    assert "Only no speculation" in record.decision.reasons[0]


def test_the_same_candidate_stated_twice_is_one_with_the_k_of_both() -> None:
    stated = [{"method": "ngram", "k": 3}, {"method": "ngram", "k": [1, 3]},
              {"method": "ngram", "k": 3, "settings": {"prompt_lookup_max": 4}}]
    found = Deployment.model_validate({"target": "x", "candidates": stated}).candidates
    assert [c.k for c in found] == [(1, 3), (3,)]


# --- engines ------------------------------------------------------------------------------------------------------
def refusal(count: int = 8, on_cpu: bool = False, **stated: Any) -> str | None:
    deployment = Deployment.model_validate({"target": llama_8b().id, **stated})
    target = llama_8b().model_copy(update={"max_position_embeddings": 8192})
    return refused_engine(deployment, target, count, release("0.32.0"), on_cpu=on_cpu)


@pytest.mark.parametrize(("engine", "word"), [
    ({"tensor_parallel_size": 3}, "attention heads"),
    ({"pipeline_parallel_size": 64}, "layers"),
    ({"tensor_parallel_size": 8, "data_parallel_size": 2}, "need 16 GPUs"),
    ({"max_model_len": 8193}, "vLLM refuses more"),
    ({"max_num_batched_tokens": 1}, "at least 2"),
    ({"max_num_batched_tokens": 64, "max_num_seqs": 128}, "max_num_seqs"),
    ({"dtype": "int4"}, "bfloat16"),
    ({"kv_cache_dtype": " "}, "empty"),
    ({"env": {"VLLM_USE_V2_MODEL_RUNNER": "yes"}}, "0 or 1"),
])
def test_an_engine_that_would_not_start_is_refused_with_the_field(engine: dict[str, Any], word: str) -> None:
    said = str(refusal(engine=engine))
    assert word in said
    assert "\n" not in said


def test_engines_that_start_are_not_refused() -> None:
    assert refusal() is None
    assert refusal(engine={"tensor_parallel_size": 4, "data_parallel_size": 2, "max_model_len": 8192}) is None
    assert refusal(count=0, on_cpu=True) is None
    assert "need 1 GPUs" in str(refusal(count=0))
    longer = {"max_model_len": 32768, "extra_args": {"hf-overrides": "{}"}}
    assert refusal(engine=longer) is None


def test_a_workload_longer_than_the_window_is_refused() -> None:
    assert "together" in str(refusal(workload={"prompt_tokens": 9000}))
    short = {"max_model_len": 1000}
    assert "together" in str(refusal(engine=short, workload={"prompt_tokens": 800, "output_tokens": 300}))
    assert refusal(engine=short, workload={"prompt_tokens": 700, "output_tokens": 300}) is None


# --- accelerators and evidence ------------------------------------------------------------------------------------
def test_accelerators_that_vllm_serves_through_a_plugin_are_refused_and_other_makers_are_warned_of() -> None:
    assert "plugin" in str(refused_accelerator(find_gpu("TPU v6e")))
    assert "plugin" in str(refused_accelerator(find_gpu("Gaudi 3")))
    assert refused_accelerator(find_gpu("MI300X")) is None
    assert "CUDA" in str(accelerator_note(find_gpu("MI300X")))
    assert accelerator_note(find_gpu("H100")) is None


@pytest.mark.parametrize(("served", "foreign"), [
    (("meta-llama/Llama-3.1-8B-Instruct",), False), (("/models/llama-3.1-8b-instruct",), False),
    (("alias", "LLAMA-3.1-8B-INSTRUCT"), False), (("Qwen/Qwen3-8B",), True), ((), False)])
def test_evidence_of_another_model_is_a_warning_in_the_record(served: tuple[str, ...], foreign: bool) -> None:
    server = ServerEvidence(url="synthetic", engine="vllm", models=served, window_s=1.0, running=None, waiting=None,
                            kv_cache_usage=None)
    evidence = Evidence(kind="server", collected_at=CREATED, tool_version="0", command="synthetic", server=server)
    assert bool(foreign_evidence(llama_8b().id, (evidence,))) is foreign
    record = advise(gpu_situation(evidence=(evidence,), concurrency=1), CREATED)
    assert any("may be of another model" in warning for warning in record.warnings) is foreign
