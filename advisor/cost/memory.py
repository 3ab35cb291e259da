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
from advisor.cost.shape_bytes import bytes_per_param, kv_bytes_per_token
from advisor.cost.stated_kv import BYTES, StatedKv, stated_kv, stated_option
from advisor.cost.step import runner_for
from advisor.cost.window import Side, window_of
from advisor.record import Memory
from advisor.situation import Runner, Situation
from advisor.workload_load import traffic_of
from profiles.catalog.shapes import ModelShape
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


def _start(situation: Situation, k: int, runner: Runner) -> EngineStart:
    engine, gpu, release = situation.deployment.engine, situation.gpu, situation.release
    limits = engine_limits(situation)
    captured = release.capture_ceiling(limits.max_num_seqs, k, gpu.compute_capability if gpu else None)
    return EngineStart(
        runner=runner,
        batched_tokens=limits.max_num_batched_tokens,
        seqs=limits.max_num_seqs,
        captured_tokens=0 if engine.enforce_eager else captured,
        graphs_from_kv=release.has("graphs_taken_from_kv") and runner == "v1",
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
class _Room:
    """GiB of one GPU. None where its memory is unknown; the CPU engine has a KV space only."""

    total: float | None = None
    usable: float | None = None
    overhead_without: float | None = None
    overhead_with: float | None = None
    left_without: float | None = None
    """What is left for KV beside weights and overhead: of `usable`, or of the CPU engine's KV space."""
    left_with: float | None = None
    source: Source = Source.MODELLED
    notes: tuple[str, ...] = ()


def _cpu_space(situation: Situation) -> float | None:
    """GiB of KV space that the CPU engine is started with; None where nobody states it."""
    variable = situation.deployment.engine.env.get("VLLM_CPU_KVCACHE_SPACE", "")
    return situation.deployment.hardware.memory_gib or (float(variable) if _is_number(variable) else None)


def _stated(situation: Situation) -> StatedKv | None:
    """The KV cache's size where an option states it. On the CPU engine the variable wins over the bytes."""
    found = stated_kv(situation.deployment.engine)
    if found is not None and found.option == BYTES and situation.runner == "cpu" and _cpu_space(situation) is not None:
        return None
    return found


def _cpu_room(situation: Situation, stated: StatedKv | None) -> _Room:
    if stated is not None:
        # How much memory the host has is not known: nothing says whether it is there.
        return _Room(notes=(f"{stated.option} sizes the CPU engine's KV cache; weights live beside it in the host's "
                            "memory",))
    room = _cpu_space(situation)
    if room is None:
        note = "the CPU engine's KV space is not stated (VLLM_CPU_KVCACHE_SPACE): a share of the host's memory"
    else:
        note = f"the CPU engine's KV space is {room:g} GiB; weights live beside it in the host's memory"
    return _Room(left_without=room, left_with=room, notes=(note,))


def _gpu_room(
    situation: Situation, served_on: Runner, k: int, drafter: ModelShape | None, target_gib: float, draft_gib: float,
    stated: StatedKv | None,
) -> _Room:
    """Each side on the runner it would be served on: the baseline on the deployment's, the candidate on its own."""
    engine, target = situation.deployment.engine, situation.target
    total, origin = total_memory_gib(situation)
    if total is None:
        return _Room(source=Source.ASSUMED,
                     notes=("the GPU's memory is unknown: name the GPU or its memory_gib",))
    others, said = _other_gib(situation)
    seen = _seen_gib(situation, total, origin)
    # Beside a KV cache of a stated size the engine may take whatever is there.
    share = 1.0 if stated is not None else engine.gpu_memory_utilization
    usable = max(0.0, min(share * seen, total - others))
    plain, own = _start(situation, 0, situation.runner), _start(situation, k, served_on)
    without = sum(overhead_parts_gib(target, plain, None, 0).values())
    beside = sum(overhead_parts_gib(target, own if k else plain, drafter if k else None, k).values())
    return _Room(total, usable, without, beside, usable - target_gib - without,
                 usable - target_gib - draft_gib - beside, notes=tuple(said))


def plan_memory(
    situation: Situation, candidate: Candidate, k: int, served_on: Runner | None = None, tokens: float | None = None
) -> Memory:
    """KV room with and without a candidate at its k, per GPU (pipeline stages share the layers evenly).

    KV tokens of both sides are those of an engine started with the same max_model_len, the one that speculation leaves
    room for.

    Args:
        served_on: the runner that the candidate ends up on, where a config says so; the one it is priced on otherwise.
        tokens: of a request that is to fit, prompt and output; those of the workload's mean otherwise.
    """
    engine, target = situation.deployment.engine, situation.target
    tensor_parallel, stages = engine.tensor_parallel_size, engine.pipeline_parallel_size
    described = method(candidate.method)
    draft = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    drafter = draft_layers(target, draft, described)
    draft_parallel = candidate.tensor_parallel_size or tensor_parallel
    kv_target = kv_bytes_per_token(target, engine.kv_cache_dtype, tensor_parallel) / stages
    kv_draft = kv_bytes_per_token(drafter, engine.kv_cache_dtype, draft_parallel) if drafter is not None else 0.0
    target_gib = _target_gib(situation)
    draft_gib = draft_weights_bytes(target, draft, described) / draft_parallel / GIB
    tokens = request_tokens(situation) if tokens is None else tokens
    stated = _stated(situation)
    runner = served_on or runner_for(candidate, situation)
    room = (_cpu_room(situation, stated) if situation.runner == "cpu" else
            _gpu_room(situation, runner, k, drafter, target_gib, draft_gib, stated))
    base_arm, own_arm = _arm(situation, "none"), _arm(situation, candidate.label)
    seen = base_arm.kv_cache_tokens or None if base_arm is not None else None
    seen_beside = None
    if seen is not None and own_arm is not None and own_arm.kv_cache_tokens:
        seen_beside = own_arm.kv_cache_tokens
    elif seen is not None and situation.runner == "cpu":
        seen_beside = int(seen * kv_target / (kv_target + kv_draft))
    window, by_length = window_of(situation), situation.release.has("kv_tokens_by_length")
    without = Side(
        pool_of(situation, None, tensor_parallel, 0), _bytes(room.left_without), window, by_length, seen, stated)
    beside = Side(
        pool_of(situation, drafter, draft_parallel, k), _bytes(room.left_with), window, by_length, seen_beside, stated)
    limit = engine.max_num_seqs
    # One request fits or not by its own tokens, whatever the engine's limit on running requests.
    fits = _serves(beside, situation.deployment.objective.min_concurrency or 1, tokens)
    target_fits = _serves(without, 1, tokens)
    if without.tokens is None and room.usable is not None and room.overhead_without is not None:
        # A model that keeps nothing per token still has to be loaded.
        target_fits = target_gib + room.overhead_without < room.usable
        loaded = target_gib + draft_gib + (room.overhead_with or 0.0)
        fits = loaded < room.usable if kv_target + kv_draft <= 0 else fits
    if base_arm is not None and seen is None and target_fits is False:
        # It ran: what the plan says of the target alone is refuted.
        target_fits = None
    return Memory(
        fits=fits,
        target_fits=target_fits,
        gpu_memory_gib=room.total,
        usable_gib=room.usable,
        target_weights_gib=target_gib,
        draft_weights_gib=draft_gib,
        overhead_gib=room.overhead_without,
        overhead_with_gib=room.overhead_with,
        kv_bytes_per_token_target=kv_target,
        kv_bytes_per_token_draft=kv_draft,
        kv_tokens_without=without.tokens_with(beside.started_with),
        kv_tokens_with=beside.tokens,
        max_concurrency_without=without.concurrency(tokens, limit),
        max_concurrency_with=beside.concurrency(tokens + k, limit),
        max_model_len_without=without.longest,
        max_model_len_with=beside.longest,
        window=window.tokens if window.known else None,
        window_fits_without=without.window_fits,
        window_fits_with=beside.window_fits,
        kv_gib_without=_gib(without.available),
        kv_gib_with=_gib(beside.available),
        kv_stated_by=stated.option if stated is not None else "",
        kv_fits_without=without.kv_fits,
        kv_fits_with=beside.kv_fits,
        write_max_model_len_without=without.to_write,
        write_max_model_len_with=beside.to_write,
        source=Source.MEASURED if seen is not None else room.source,
        notes=room.notes,
    )


def _target_gib(situation: Situation) -> float:
    """The target's weights on one GPU. Routed experts are spread over the data parallel ranks too, the rest is not."""
    engine, target = situation.deployment.engine, situation.target
    routed = 0.0
    if target.moe is not None:
        moe = target.moe
        routed = float(moe.moe_layers) * moe.num_experts * moe.expert_params * bytes_per_param(target)
    rest = max(0.0, target.weights_bytes - routed)
    routed = target.weights_bytes - rest
    each = (rest + routed / engine.data_parallel_size) / engine.tensor_parallel_size
    return each / engine.pipeline_parallel_size / GIB


def _bytes(gib: float | None) -> float | None:
    return None if gib is None else gib * GIB


def _gib(size: float | None) -> float | None:
    return None if size is None else max(0.0, size) / GIB


def _serves(side: Side, requests: int, tokens: float) -> bool | None:
    """Whether so many requests of mean length run at once, the longest one known to come fits, and the engine starts
    with the window and the KV size that are stated; None where the memory is unknown or the model keeps nothing."""
    found = side.concurrency(max(1.0, tokens), None)
    if found is None:
        return None
    starts = (side.window_fits is not False or not side.window.stated) and side.kv_fits is not False
    return found >= requests and starts and side.holds(side.window.needed) is not False


def _seen_gib(situation: Situation, total: float, origin: Source) -> float:
    """What the engine sees of the GPU's memory: a stated figure is taken as it is."""
    gpu, stated = situation.gpu, situation.deployment.hardware.memory_gib
    if stated is not None or gpu is None:
        return total
    return visible_gib(
        total, unified=gpu.unified_memory, from_driver=origin is Source.MEASURED or gpu.memory_from == "nvml"
    )


def _is_number(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False
