"""The memory plan: weights, both models' KV in one pool, and the tokens, requests and lengths that leaves.

vLLM loads the draft before it sizes the KV pool, and every block holds a page of each layer of target and draft: for
plain attention the bytes per token of both simply add up, for other models `advisor.cost.kv_pool` says how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from advisor.cost.drafter import draft_layers, draft_weights_bytes
from advisor.cost.kv_pool import BLOCK_TOKENS, Pool, cut_pool, pool_layers
from advisor.cost.machine import engine_limits
from advisor.cost.overhead import GIB, EngineStart, overhead_parts_gib, visible_gib
from advisor.cost.shape_bytes import kv_bytes_per_token
from advisor.record import Memory
from advisor.situation import Situation
from advisor.workload_load import traffic_of
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate, Engine
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


def stated_option(engine: Engine, name: str) -> object:
    """A serve option of `extra_args`, whatever its dashes; None where it is not stated."""
    return next((v for k, v in engine.extra_args.items() if k.strip("-").replace("_", "-") == name), None)


def _start(situation: Situation, k: int) -> EngineStart:
    engine, gpu, release = situation.deployment.engine, situation.gpu, situation.release
    limits = engine_limits(situation)
    captured = release.capture_ceiling(limits.max_num_seqs, k, gpu.compute_capability if gpu else None)
    return EngineStart(
        runner=situation.runner,
        batched_tokens=limits.max_num_batched_tokens,
        seqs=limits.max_num_seqs,
        captured_tokens=0 if engine.enforce_eager else captured,
        graphs_from_kv=release.has("graphs_taken_from_kv") and situation.runner == "v1",
        tensor_parallel=engine.tensor_parallel_size,
        unified=gpu is not None and gpu.unified_memory,
    )


def pool_of(situation: Situation, drafter: ModelShape | None, draft_parallel: int, k: int) -> Pool:
    """The KV pool of a situation's target, with a drafter's layers where there are any."""
    engine, target = situation.deployment.engine, situation.target
    layers = pool_layers(target, engine.kv_cache_dtype, engine.tensor_parallel_size, k)
    if drafter is not None:
        layers += pool_layers(drafter, engine.kv_cache_dtype, draft_parallel, k)
    stages = engine.pipeline_parallel_size
    block, caching = stated_option(engine, "block-size"), stated_option(engine, "enable-prefix-caching")
    states = any(group.kind == "linear" for group in target.attention)
    in_flight = 2 if situation.release.has("window_keeps_steps_in_flight") and situation.runner != "cpu" else 1
    return cut_pool(
        [replace(one, layers=math.ceil(one.layers / stages)) for one in layers],
        step_tokens=engine_limits(situation).max_num_batched_tokens * in_flight,
        speculated=k,
        # Models with state layers cache prefixes only where it is asked for.
        prefix_caching=bool(caching) if caching is not None else not states,
        block_tokens=block if isinstance(block, int) and block > 0 else BLOCK_TOKENS,
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


@dataclass(frozen=True)
class _Side:
    """One side of the comparison: with or without speculation."""

    pool: Pool
    available: float | None
    """Bytes left for KV on one GPU; None where the memory is unknown."""
    longest: int
    by_length: bool

    @property
    def tokens(self) -> int | None:
        if self.available is None:
            return None
        return self.pool.tokens(self.available, self.longest, by_length=self.by_length)

    def concurrency(self, tokens: float, limit: int | None) -> float | None:
        found = None if self.available is None else self.pool.concurrency(self.available, tokens)
        return found if found is None or limit is None else min(found, float(limit))

    @property
    def max_model_len(self) -> int | None:
        return None if self.available is None else self.pool.longest_request(self.available, self.longest)


def plan_memory(situation: Situation, candidate: Candidate, k: int) -> Memory:
    """KV room with and without a candidate at its k, per GPU (pipeline stages share the layers evenly)."""
    engine, target = situation.deployment.engine, situation.target
    tensor_parallel, stages = engine.tensor_parallel_size, engine.pipeline_parallel_size
    described = method(candidate.method)
    draft = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    drafter = draft_layers(target, draft, described)
    draft_parallel = candidate.tensor_parallel_size or tensor_parallel
    kv_target = kv_bytes_per_token(target, engine.kv_cache_dtype, tensor_parallel) / stages
    kv_draft = kv_bytes_per_token(drafter, engine.kv_cache_dtype, draft_parallel) if drafter is not None else 0.0
    target_gib = target.weights_bytes / tensor_parallel / stages / GIB
    draft_gib = draft_weights_bytes(target, draft, described) / draft_parallel / GIB
    tokens = request_tokens(situation)
    notes: list[str] = []
    source = Source.MODELLED
    total: float | None = None
    usable: float | None = None
    overhead: float | None = None
    loaded: float | None = None
    pool_without: float | None
    pool_with: float | None
    if situation.runner == "cpu":
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
        seen = _seen_gib(situation, total, origin)
        usable = max(0.0, min(engine.gpu_memory_utilization * seen, total - others))
        overhead = sum(overhead_parts_gib(target, _start(situation, 0), None, 0).values())
        loaded = sum(overhead_parts_gib(target, _start(situation, k), drafter if k else None, k).values())
        pool_without = (usable - target_gib - overhead) * GIB
        pool_with = (usable - target_gib - draft_gib - loaded) * GIB
        fixed = stated_option(engine, "kv-cache-memory-bytes")
        if isinstance(fixed, int) and fixed > 0:
            pool_without = pool_with = float(fixed)
    longest = engine.max_model_len or target.max_position_embeddings or math.ceil(tokens)
    by_length = situation.release.has("kv_tokens_by_length")
    without = _Side(pool_of(situation, None, tensor_parallel, 0), pool_without, longest, by_length)
    beside = _Side(pool_of(situation, drafter, draft_parallel, k), pool_with, longest, by_length)
    limit = engine.max_num_seqs
    tokens_without, tokens_with = without.tokens, beside.tokens
    requests_without, requests_with = without.concurrency(tokens, limit), beside.concurrency(tokens + k, limit)
    base_arm, own_arm = _arm(situation, "none"), _arm(situation, candidate.label)
    if base_arm is not None and base_arm.kv_cache_tokens:
        tokens_without, source = base_arm.kv_cache_tokens, Source.MEASURED
        if own_arm is not None and own_arm.kv_cache_tokens:
            tokens_with = own_arm.kv_cache_tokens
        elif situation.runner == "cpu":
            tokens_with = int(base_arm.kv_cache_tokens * kv_target / (kv_target + kv_draft))
        requests_without = _concurrency(tokens_without, tokens, limit)
        requests_with = _concurrency(tokens_with, tokens + k, limit)
    needed = situation.deployment.objective.min_concurrency or 1
    # One request fits or not by its own tokens, whatever the engine's limit on running requests.
    fits = _holds(tokens_with, beside, needed, tokens, measured=source is Source.MEASURED)
    target_fits = _holds(tokens_without, without, 1, tokens, measured=source is Source.MEASURED)
    if tokens_without is None and usable is not None and overhead is not None:
        # A model that keeps nothing per token still has to be loaded.
        target_fits = target_gib + overhead < usable
        fits = target_gib + draft_gib + (loaded or 0.0) < usable if kv_target + kv_draft <= 0 else fits
    if base_arm is not None and not base_arm.kv_cache_tokens and target_fits is False:
        # It ran: what the plan says of the target alone is refuted.
        target_fits = None
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
        max_concurrency_without=requests_without,
        max_concurrency_with=requests_with,
        max_model_len_without=without.max_model_len,
        max_model_len_with=beside.max_model_len,
        source=source,
        notes=tuple(notes),
    )


def _seen_gib(situation: Situation, total: float, origin: Source) -> float:
    """What the engine sees of the GPU's memory: a stated figure is taken as it is."""
    gpu, stated = situation.gpu, situation.deployment.hardware.memory_gib
    if stated is not None or gpu is None:
        return total
    return visible_gib(
        total, unified=gpu.unified_memory, from_driver=origin is Source.MEASURED or gpu.memory_from == "nvml"
    )


def _holds(kv_tokens: int | None, side: _Side, requests: int, tokens: float, *, measured: bool) -> bool | None:
    if kv_tokens is None:
        return None
    if measured or side.available is None:
        return kv_tokens >= max(1.0, requests * tokens)
    found = side.pool.concurrency(side.available, max(1.0, tokens))
    return None if found is None else found >= requests


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
