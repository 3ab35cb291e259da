"""Situations for the advisor's tests: two published model shapes, and one engine's step times as a synthetic trial.

The step times are those measured on vLLM 0.32's CPU engine with an 878 M target and a 135 M draft; the evidence built
from them is synthetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.situation import Situation
from profiles.catalog.gpus import find_gpu
from profiles.catalog.releases import release
from profiles.catalog.shapes import AttentionGroup, ModelShape
from profiles.deployment import NO_SPECULATION, Candidate, Deployment
from profiles.evidence import (
    ArmEvidence,
    ArmStatus,
    Evidence,
    PairedComparison,
    PrefillSample,
    PromptSummary,
    RequestAcceptance,
    StepSample,
    TrialEvidence,
)
from profiles.workload import Task


def llama_8b() -> ModelShape:
    return ModelShape(
        id="meta-llama/Llama-3.1-8B-Instruct",
        params=8_030_261_248,
        active_params=7_504_924_672,
        embedding_params=525_336_576,
        num_layers=32,
        hidden_size=4096,
        num_attention_heads=32,
        intermediate_size=14336,
        vocab_size=128256,
        attention=(AttentionGroup(kind="full", layers=32, kv_heads=8, head_dim=128),),
    )


def llama_1b() -> ModelShape:
    return ModelShape(
        id="meta-llama/Llama-3.2-1B-Instruct",
        params=1_235_814_400,
        active_params=1_235_814_400,
        embedding_params=262_668_288,
        num_layers=16,
        hidden_size=2048,
        num_attention_heads=32,
        intermediate_size=8192,
        vocab_size=128256,
        tie_word_embeddings=True,
        attention=(AttentionGroup(kind="full", layers=16, kv_heads=8, head_dim=64),),
    )


def smol(layers: int, name: str) -> ModelShape:
    params = 28_311_552 + layers * 3_540_096
    return ModelShape(
        id=name,
        params=params,
        active_params=params,
        embedding_params=28_311_552,
        num_layers=layers,
        hidden_size=576,
        num_attention_heads=9,
        intermediate_size=1536,
        vocab_size=49152,
        tie_word_embeddings=True,
        attention=(AttentionGroup(kind="full", layers=layers, kv_heads=3, head_dim=64),),
    )


def gpu_situation(
    gpu: str = "RTX PRO 6000",
    evidence: tuple[Evidence, ...] = (),
    candidates: list[Mapping[str, Any]] | None = None,
    version: str = "0.32.0",
    engine: Mapping[str, Any] | None = None,
    objective: Mapping[str, Any] | None = None,
    runner: str = "v2",
    **workload: Any,
) -> Situation:
    """Llama-3.1-8B with a Llama-3.2-1B draft on one named GPU."""
    draft = llama_1b()
    deployment = Deployment.model_validate(
        {
            "target": llama_8b().id,
            "hardware": {"gpu": gpu},
            "workload": workload,
            "engine": engine or {},
            "objective": objective or {},
            "candidates": candidates or [{"method": "draft_model", "draft": draft.id, "k": "1-5"}],
        }
    )
    return Situation(
        deployment,
        llama_8b(),
        {draft.id: draft},
        deployment.candidates,
        release(version),
        runner,
        find_gpu(gpu),
        1,
        evidence,
    )  # type: ignore[arg-type]


# --- the CPU engine -----------------------------------------------------------------------------------------------
DRAFT_ID = "draft-135m"
BASELINE_MS = {1: 164.0, 4: 184.0, 8: 210.0}
STEP_MS = {
    (1, 0): 188.0,
    (1, 1): 218.0,
    (1, 3): 270.0,
    (1, 5): 342.0,
    (4, 1): 258.0,
    (4, 3): 405.0,
    (4, 5): 610.0,
    (8, 0): 264.0,
    (8, 1): 390.0,
    (8, 3): 660.0,
    (8, 5): 1040.0,
}
CODE_ACCEPTED = (73, 62, 57, 56, 53)
CODE_STEPS = 84
CREATIVE_ACCEPTED = (82, 64, 53, 46, 37)
CREATIVE_STEPS = 106


def split_requests(task: Task, accepted: tuple[int, ...], steps: int, parts: int = 8) -> tuple[RequestAcceptance, ...]:
    """The counts of one run dealt out over `parts` requests as evenly as they go."""

    def share(total: int, i: int) -> int:
        return total // parts + (1 if i < total % parts else 0)

    requests = []
    for i in range(parts):
        own_steps = share(steps, i)
        own = []
        limit = own_steps
        for count in accepted:
            limit = min(limit, share(count, i))
            own.append(limit)
        requests.append(
            RequestAcceptance(
                task=task,
                prompt_tokens=60,
                output_tokens=48,
                steps=own_steps,
                drafted=(own_steps,) * len(accepted),
                accepted=tuple(own),
            )
        )
    return tuple(requests)


def cpu_trial(
    comparison: PairedComparison | None = None, *, with_cells: Mapping[tuple[int, int], float] | None = None
) -> TrialEvidence:
    steps = STEP_MS if with_cells is None else with_cells
    draft = Candidate(method="draft_model", draft={"id": DRAFT_ID}, k=(1, 2, 3, 4, 5))  # type: ignore[arg-type]
    baseline = ArmEvidence(
        candidate=NO_SPECULATION,
        status=ArmStatus.DONE,
        kv_cache_tokens=40000,
        steps=tuple(
            StepSample(k=0, running=n, context_tokens=84, tokens_per_step=n, step_ms=(ms,) * 20, output_tokens=20 * n)
            for n, ms in BASELINE_MS.items()
        ),
        prefill=tuple(PrefillSample(tokens=t, step_ms=150 + 6.0 * t) for t in (20, 60, 120, 240)),
    )
    arm = ArmEvidence(
        candidate=draft,
        status=ArmStatus.DONE,
        k_control="schedule_lookup",
        kv_cache_tokens=30000,
        steps=tuple(
            StepSample(
                k=k, running=n, context_tokens=84, tokens_per_step=n * (k + 1), step_ms=(ms,) * 20, output_tokens=20 * n
            )
            for (n, k), ms in steps.items()
        ),
        prefill=tuple(PrefillSample(tokens=t, step_ms=175 + 6.9 * t) for t in (20, 60, 120, 240)),
        requests=split_requests(Task.CODE, CODE_ACCEPTED, CODE_STEPS)
        + split_requests(Task.CREATIVE, CREATIVE_ACCEPTED, CREATIVE_STEPS),
    )
    return TrialEvidence(
        engine_version="0.32.0",
        device="cpu",
        hardware="2 cores (synthetic)",
        target="target-878m",
        max_tokens=48,
        prompts=PromptSummary(source="built-in", count=16, mean_prompt_tokens=60.0),
        arms=(baseline, arm),
        comparison=comparison,
    )


def cpu_situation(
    trial: TrialEvidence | None = None, engine: Mapping[str, Any] | None = None, **workload: Any
) -> Situation:
    """The 878 M target with the 135 M draft on the CPU engine, with a synthetic trial's evidence where given."""
    deployment = Deployment.model_validate(
        {
            "target": "target-878m",
            "hardware": {"gpu": "cpu"},
            "engine": {"max_num_seqs": 16, **(engine or {})},
            "workload": workload,
            "candidates": [{"method": "draft_model", "draft": DRAFT_ID, "k": "1-5"}],
        }
    )
    evidence = (
        ()
        if trial is None
        else (
            Evidence(kind="trial", collected_at="2026-01-01T00:00:00Z", tool_version="0", command="trial", trial=trial),
        )
    )
    return Situation(
        deployment,
        smol(240, "target-878m"),
        {DRAFT_ID: smol(30, DRAFT_ID)},
        deployment.candidates,
        release("0.32.0"),
        "cpu",
        None,
        0,
        evidence,
    )
