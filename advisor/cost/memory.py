"""The memory plan: weights, both models' KV in one pool, and the concurrency that leaves.

vLLM loads the draft before it sizes the KV pool, and every block holds a page of each layer of target and draft: bytes
per token of both simply add up.
"""

from __future__ import annotations

from advisor.cost.machine import engine_limits
from advisor.cost.pool import GIB, draft_weights_bytes, drafter_kv_bytes, overhead_gib, tokens_in
from advisor.cost.shape_bytes import kv_bytes_per_token
from advisor.record import Memory
from advisor.situation import Situation
from advisor.workload_load import traffic_of
from profiles.deployment import Candidate
from profiles.evidence import ArmEvidence, ArmStatus
from profiles.methods import method
from profiles.schema import Source


def _other_gib(situation: Situation) -> tuple[float, list[str]]:
    """GiB of the GPU that other processes hold, where it was probed."""
    evidence = situation.gpu_evidence
    if evidence is None or not evidence.devices:
        return 0.0, []
    held = 0.0
    for device in evidence.devices:
        if device.processes is not None:
            held = max(held, sum(p.used_bytes or 0 for p in device.processes) / GIB)
    return held, [f"other processes hold {held:.1f} GiB"] if held > 0.1 else []


def total_memory_gib(situation: Situation) -> tuple[float | None, Source]:
    """Memory of one GPU in GiB: stated, else probed, else the catalog's."""
    stated = situation.deployment.hardware.memory_gib
    if stated is not None:
        return stated, Source.MODELLED
    evidence = situation.gpu_evidence
    if evidence is not None:
        sizes = [d.total_bytes for d in evidence.devices if d.total_bytes]
        if sizes:
            return min(sizes) / GIB, Source.MEASURED
    return (situation.gpu.memory_gib, Source.MODELLED) if situation.gpu is not None else (None, Source.ASSUMED)


def draft_kv_bytes_per_token(situation: Situation, candidate: Candidate, tensor_parallel: int) -> float:
    """KV bytes one token takes in the drafter's layers, on one GPU."""
    if not method(candidate.method).draft_has_kv:
        return 0.0
    shape = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    return drafter_kv_bytes(situation.target, shape, situation.deployment.engine.kv_cache_dtype, tensor_parallel)


def _draft_weights_bytes(situation: Situation, candidate: Candidate) -> float:
    shape = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    return draft_weights_bytes(method(candidate.method).drafter, situation.target, shape)


def _overhead_gib(situation: Situation, k: int, tensor_parallel: int) -> float:
    """Activations, logits, graphs and the runtime's own share of one GPU."""
    limits = engine_limits(situation)
    return overhead_gib(
        situation.target, k, tensor_parallel, limits.max_num_batched_tokens, limits.max_num_seqs,
        eager=situation.deployment.engine.enforce_eager,
    )


def request_tokens(situation: Situation) -> float:
    """Mean tokens a request holds in KV when it ends: prompt and output, the lengths that prices are made for."""
    traffic = traffic_of(situation)
    return traffic.prompt_tokens + traffic.output_tokens


def _arm(situation: Situation, label: str) -> ArmEvidence | None:
    trial = situation.trial
    if trial is None or (trial.device.strip().lower() == "cpu") != (situation.runner == "cpu"):
        return None
    return next((arm for arm in trial.arms if arm.candidate.label == label and arm.status is ArmStatus.DONE), None)


def plan_memory(situation: Situation, candidate: Candidate, k: int) -> Memory:
    """KV room with and without a candidate at its k, per GPU (pipeline stages share the layers evenly)."""
    engine, target = situation.deployment.engine, situation.target
    tensor_parallel, stages = engine.tensor_parallel_size, engine.pipeline_parallel_size
    kv_target = kv_bytes_per_token(target, engine.kv_cache_dtype, tensor_parallel) / stages
    draft_parallel = candidate.tensor_parallel_size or tensor_parallel
    kv_draft = draft_kv_bytes_per_token(situation, candidate, draft_parallel)
    target_gib = target.weights_bytes / tensor_parallel / stages / GIB
    draft_gib = _draft_weights_bytes(situation, candidate) / draft_parallel / GIB
    tokens = request_tokens(situation)
    notes: list[str] = []
    source = Source.MODELLED
    if situation.runner == "cpu":
        total, usable, overhead, loaded = None, None, None, None
        stated = engine.env.get("VLLM_CPU_KVCACHE_SPACE", "")
        room = situation.deployment.hardware.memory_gib or (float(stated) if _is_number(stated) else None)
        pool_without = pool_with = None if room is None else room * GIB
        if room is None:
            notes.append(
                "the CPU engine's KV space is not stated (VLLM_CPU_KVCACHE_SPACE): a share of the host's memory"
            )
        else:
            notes.append(f"the CPU engine's KV space is {room:g} GiB; weights live beside it in the host's memory")
    else:
        total, origin = total_memory_gib(situation)
        if total is None:
            return Memory(
                fits=None,
                gpu_memory_gib=None,
                usable_gib=None,
                target_weights_gib=target_gib,
                draft_weights_gib=draft_gib,
                overhead_gib=None,
                kv_bytes_per_token_target=kv_target,
                kv_bytes_per_token_draft=kv_draft,
                kv_tokens_without=None,
                kv_tokens_with=None,
                max_concurrency_without=None,
                max_concurrency_with=None,
                source=Source.ASSUMED,
                notes=("the GPU's memory is unknown: name the GPU or its memory_gib",),
            )
        others, said = _other_gib(situation)
        notes += said
        if (
            origin is Source.MODELLED
            and situation.gpu is not None
            and situation.gpu.memory_from == "box"
            and situation.deployment.hardware.memory_gib is None
        ):
            notes.append("memory is the size on the box; drivers show up to 7 % less")
        usable = max(0.0, min(engine.gpu_memory_utilization * total, total - others))
        overhead = _overhead_gib(situation, 0, tensor_parallel)
        loaded = _overhead_gib(situation, k, tensor_parallel)
        pool_without = (usable - target_gib - overhead) * GIB
        pool_with = (usable - target_gib - draft_gib - loaded) * GIB
    tokens_without = tokens_in(pool_without, kv_target)
    tokens_with = tokens_in(pool_with, kv_target + kv_draft)
    base_arm, own_arm = _arm(situation, "none"), _arm(situation, candidate.label)
    if base_arm is not None and base_arm.kv_cache_tokens:
        tokens_without, source = base_arm.kv_cache_tokens, Source.MEASURED
        if own_arm is not None and own_arm.kv_cache_tokens:
            tokens_with = own_arm.kv_cache_tokens
        else:
            tokens_with = (
                int(base_arm.kv_cache_tokens * kv_target / (kv_target + kv_draft))
                if situation.runner == "cpu"
                else tokens_with
            )
    needed = situation.deployment.objective.min_concurrency or 1
    fits = None if tokens_with is None else tokens_with >= max(1.0, needed * tokens)
    target_fits = None if tokens_without is None else tokens_without >= max(1.0, tokens)
    if tokens_without is None and usable is not None and overhead is not None:
        # A model that keeps nothing per token still has to be loaded.
        target_fits = target_gib + overhead < usable
        fits = target_gib + draft_gib + (loaded or 0.0) < usable if kv_target + kv_draft <= 0 else fits
    if base_arm is not None and not base_arm.kv_cache_tokens and target_fits is False:
        # It ran: what the plan says of the target alone is refuted.
        target_fits = None
    limit = engine.max_num_seqs
    return Memory(
        fits=fits,
        target_fits=target_fits,
        gpu_memory_gib=total,
        usable_gib=usable,
        target_weights_gib=target_gib,
        draft_weights_gib=draft_gib,
        overhead_gib=overhead,
        overhead_with_gib=loaded,
        kv_bytes_per_token_target=kv_target,
        kv_bytes_per_token_draft=kv_draft,
        kv_tokens_without=tokens_without,
        kv_tokens_with=tokens_with,
        max_concurrency_without=_concurrency(tokens_without, tokens, limit),
        max_concurrency_with=_concurrency(tokens_with, tokens + k, limit),
        source=source,
        notes=tuple(notes),
    )


def _concurrency(kv_tokens: int | None, tokens: float, limit: int | None) -> float | None:
    if kv_tokens is None:
        return None
    found = kv_tokens / tokens
    return min(found, float(limit)) if limit is not None else found


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
