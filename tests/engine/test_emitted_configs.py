"""Every emitted file is accepted by vLLM itself: its parser, its configuration stage, and one boots and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from advisor.emit.vllm_config import emit
from profiles.methods import METHODS
from tests.advisor.emit.situations import decision, memory, situation
from tests.engine.accept_configs import ask_engine
from tests.engine.engine_configs import write_folders
from tests.engine.served import SERVE, serving

pytestmark = pytest.mark.engine

RELEASE = "0.32.0"
SCHEDULE = ((1, 4, 3), (5, 16, 2), (17, 256, 0))
RICH = {
    "max_model_len": 2048,
    "max_num_seqs": 32,
    "max_num_batched_tokens": 4096,
    "dtype": "bfloat16",
    "extra_args": {
        "seed": 7,
        "enable_prefix_caching": False,
        "served-model-name": ["one", "two"],
        "disable-log-stats": False,
        "kv_transfer_config.kv_role": "kv_both",
        "kv_transfer_config.kv_connector": "ExampleConnector",
        "override_generation_config": {"top_k": 5},
    },
}


@dataclass(frozen=True)
class Case:
    """What is decided, for which deployment, and what the engine must have understood."""

    method: str
    k: int = 3
    draft: str | None = None
    schedule: tuple[tuple[int, int, int], ...] | None = None
    engine: dict[str, Any] = field(default_factory=dict)
    runner: str = "cpu"
    target: str = "target"
    settings: dict[str, float] = field(default_factory=dict)
    running: int = 4
    enable: bool | None = True
    room: dict[str, Any] = field(default_factory=dict)
    """What the memory plan says besides the usual."""


CASES: dict[str, Case] = {
    "off": Case("none", enable=False),
    "off, a window shorter than the model's": Case(
        "none", enable=False, room={"window": 4096, "write_max_model_len_without": 1024}),
    "off for a GPU, a window that the engine fits": Case(
        "none", enable=False, runner="v1", room={"kv_tokens_without": 20_000}),
    "abstained, rich arguments": Case("none", enable=None, engine=RICH),
    "draft_model": Case("draft_model", draft="draft"),
    "draft_model, schedule": Case("draft_model", draft="draft", schedule=SCHEDULE, engine=RICH),
    "draft_model for a GPU, V1, wide batch": Case(
        "draft_model",
        k=4,
        draft="draft",
        runner="v1",
        running=128,
        engine={"max_num_seqs": 256, "max_num_batched_tokens": 8192},
    ),
    "draft_model, tensor parallel": Case("draft_model", draft="draft", engine={"tensor_parallel_size": 2}),
    "ngram": Case("ngram", settings={"prompt_lookup_max": 4, "prompt_lookup_min": 2}),
    "ngram, schedule, async asked for": Case(
        "ngram", schedule=SCHEDULE, engine={"extra_args": {"async-scheduling": True}}
    ),
    "ngram, LoRA under a small budget": Case(
        "ngram", k=7, engine={"max_num_seqs": 256, "max_num_batched_tokens": 2048, "extra_args": {"enable-lora": True}}
    ),
    "ngram, per-request metrics": Case("ngram", engine={"extra_args": {"per-request-spec-decode-metrics": "summary"}}),
    "off, per-request metrics": Case(
        "none", enable=False, engine={"extra_args": {"per-request-spec-decode-metrics": "summary"}}
    ),
    "ngram_gpu for a GPU": Case("ngram_gpu", runner="v2"),
    "suffix": Case(
        "suffix", k=8, settings={"suffix_decoding_max_spec_factor": 2.0, "suffix_decoding_max_tree_depth": 24}
    ),
    "suffix, schedule that it cannot follow": Case("suffix", schedule=SCHEDULE),
    "eagle": Case("eagle", draft="eagle-head"),
    "eagle3, schedule": Case("eagle3", draft="eagle3-head", schedule=SCHEDULE, runner="v2"),
    "mtp": Case("mtp", k=1, target="mtp-target", runner="v2"),
    "medusa": Case("medusa", draft="medusa-head", runner="v2"),
    "dflash": Case("dflash", k=7, draft="dflash-head", runner="v2"),
}

NOT_JUDGED_HERE = {
    "mlp_speculator": "0.32 knows no generation architecture for its checkpoints: its configuration stage refuses each",
    "dspark": "needs the V2 runner, which needs Triton: the CPU platform refuses it before looking at the file",
    "none": "stands for no speculation: the cases `off` and `abstained`",
}
"""Methods without an accepted case, and why: a method is never just missing."""

REFUSED = {
    "unknown option": {"no-such-option": 1},
    "removed key": {"speculative-config": {"method": "ngram", "num_speculative_tokens": 3, "disable_by_batch_size": 4}},
}
"""Files that this oracle must refuse: otherwise its yes would mean nothing."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    write_folders(root)
    return root


def emitted(case: Case, root: Path) -> tuple[str, dict[str, str]]:
    draft = str(root / case.draft) if case.draft else None
    candidates = [{"method": case.method, "draft": draft, "settings": case.settings}] if case.method != "none" else []
    on_gpu = case.runner != "cpu"
    stated = situation(
        RELEASE,
        runner=case.runner,
        gpu="H100" if on_gpu else None,
        target=str(root / case.target),  # type: ignore[arg-type]
        candidates=candidates,
        engine=case.engine,
    )
    chosen = decision(
        case.method, draft, case.k, enable=case.enable, schedule=case.schedule, running=case.running, **case.settings
    )
    room = memory().model_copy(update=case.room)
    config = emit(chosen, stated, room, ["A reason: with a colon, a # and a 'quote'."])
    return config.vllm_yaml, config.env


@pytest.fixture(scope="module")
def verdicts(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What vLLM says of every case, from one child process (importing the engine takes longer than judging)."""
    root = tmp_path_factory.mktemp("configs")
    paths = {}
    for number, (name, case) in enumerate(CASES.items()):
        paths[name] = root / f"case-{number}.yaml"
        paths[name].write_text(emitted(case, folders)[0])
    for number, (name, wrong) in enumerate(REFUSED.items()):
        paths[name] = root / f"refused-{number}.yaml"
        paths[name].write_text(yaml.safe_dump({"model": str(folders / "target"), **wrong}))
    answers = ask_engine([(path, {}) for path in paths.values()], root)
    return {name: answers[str(path)] for name, path in paths.items()}


@pytest.mark.parametrize("name", list(CASES))
def test_vllm_accepts_the_file_and_understands_it(name: str, verdicts: dict[str, dict[str, Any]]) -> None:
    case, verdict = CASES[name], verdicts[name]
    assert verdict.get("accepted"), verdict.get("error")
    if not case.enable:
        assert "speculation" not in verdict
    else:
        assert verdict["speculation"]["method"] == case.method
        followed = case.schedule is not None and case.method != "suffix"
        assert verdict["speculation"]["k"] == case.k
        assert verdict["speculation"]["schedule"] == (
            [list(band) for band in case.schedule or ()] if followed else None
        )
    assert verdict["tensor_parallel_size"] == case.engine.get("tensor_parallel_size", 1)
    if case.room:
        # Left to the engine, it is the model's own until the KV cache is sized.
        assert verdict["max_model_len"] == case.room.get("write_max_model_len_without", 4096)
    if case.engine is RICH:
        assert (verdict["max_model_len"], verdict["prefix_caching"]) == (2048, False)


@pytest.mark.parametrize("name", list(REFUSED))
def test_the_same_check_refuses_what_the_release_does_not_accept(
    name: str, verdicts: dict[str, dict[str, Any]]
) -> None:
    assert not verdicts[name].get("accepted")
    assert verdicts[name]["error"]


def test_every_method_has_a_case_or_a_reason_why_not() -> None:
    assert {case.method for case in CASES.values() if case.enable} | set(NOT_JUDGED_HERE) == set(METHODS)


# --- one boots -----------------------------------------------------------------------------------------------------
def counters(base: str) -> dict[str, float]:
    """Speculation counters of the server's metrics page, summed over their labels."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{base}/metrics", timeout=30, trust_env=False).text):
        for sample in family.samples:
            if sample.name.startswith("vllm:spec_decode_num") and sample.name.endswith("_total"):
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


def test_the_emitted_file_boots_a_server_that_answers_and_speculates(cpu_pair: Any, tmp_path: Path) -> None:
    # The small model drafts for itself: quick to start, and every draft is right, so that each counter must move.
    model = str(cpu_pair.draft)
    stated = situation(
        RELEASE,
        runner="cpu",
        gpu=None,
        target=model,
        hardware={"gpu": "cpu", "memory_gib": 1},
        candidates=[{"method": "draft_model", "draft": model}],
        engine={"max_model_len": 512, "max_num_seqs": 4, "enforce_eager": True, "dtype": "bfloat16"},
    )
    config = emit(
        decision("draft_model", model, 3, schedule=((1, 2, 3), (3, 4, 1))), stated, None, ["It pays."]
    )
    path = tmp_path / "vllm.yaml"
    path.write_text(config.vllm_yaml)
    assert config.env == {"VLLM_CPU_KVCACHE_SPACE": "1"}
    with serving(SERVE, path, model, config.env) as server:
        before = counters(server.url)
        server.complete("def factorial(n):", max_tokens=24)
        assert server.usages[0]["completion_tokens"] == 24
        after = counters(server.url)
        moved = {name: value - before.get(name, 0.0) for name, value in after.items()}
        assert moved["vllm:spec_decode_num_drafts_total"] > 0
        assert moved["vllm:spec_decode_num_draft_tokens_total"] > 0
        assert moved["vllm:spec_decode_num_accepted_tokens_total"] > 0
