"""Situations and decisions to emit from, built by hand (synthetic)."""

from __future__ import annotations

from typing import Any

from advisor.record import Decision, Memory
from advisor.release_rules import picked_runner
from advisor.situation import Runner, Situation
from profiles.catalog.gpus import find_gpu
from profiles.catalog.releases import release
from profiles.catalog.shapes import AttentionGroup, ModelShape
from profiles.deployment import Deployment
from profiles.methods import method
from profiles.schema import Source


def shape(name: str) -> ModelShape:
    return ModelShape(
        id=name,
        params=8_000_000_000,
        active_params=8_000_000_000,
        num_layers=32,
        hidden_size=4096,
        num_attention_heads=32,
        vocab_size=128_256,
        attention=(AttentionGroup(kind="full", layers=32, kv_heads=8, head_dim=128),),
    )


def situation(
    version: str = "0.32.0", runner: Runner | None = None, gpu: str | None = "H100", **deployment: Any
) -> Situation:
    stated = Deployment.model_validate({"target": "org/target", **deployment})
    facts = release(version)
    return Situation(
        deployment=stated,
        target=shape(stated.target.id),
        drafts={c.draft.id: shape(c.draft.id) for c in stated.candidates if c.draft},
        candidates=stated.candidates,
        release=facts,
        runner=runner or picked_runner(facts, shape(stated.target.id)),
        gpu=find_gpu(gpu) if gpu else None,
        gpu_count=1 if gpu else 0,
    )


def decision(
    name: str = "draft_model",
    draft: str | None = "org/draft",
    k: int | None = 3,
    *,
    enable: bool | None = True,
    schedule: tuple[tuple[int, int, int], ...] | None = None,
    running: int = 4,
    **settings: float,
) -> Decision:
    on = bool(enable)
    return Decision(
        enable=enable,
        method=name if on else None,
        draft=draft if on and method(name).needs_draft else None,
        k=k if on else None,
        settings=settings,
        schedule=schedule,
        running=running,
        speedup=1.5 if on else None,
        speedup_low=1.3 if on else None,
        speedup_high=1.7 if on else None,
        speedup_source=Source.MODELLED,
        probability_of_gain=0.9 if on else 0.1,
        break_even_acceptance_length=1.4,
        crossover_load=60,
        reasons=(),
        would_settle="a trial of 10 minutes" if enable is None else None,
    )


def memory() -> Memory:
    return Memory(
        fits=True,
        gpu_memory_gib=80,
        usable_gib=72,
        target_weights_gib=15,
        draft_weights_gib=2.3,
        overhead_gib=3,
        kv_bytes_per_token_target=131072,
        kv_bytes_per_token_draft=32768,
        kv_tokens_without=400_000,
        kv_tokens_with=310_000,
        max_concurrency_without=500,
        max_concurrency_with=390,
    )
