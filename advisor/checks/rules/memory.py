"""Memory: will target, draft and one request fit, and what concurrency is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from advisor.cost.drafter import draft_layers, draft_weights_bytes
from advisor.cost.kv_pool import cut_pool, pool_layers
from advisor.cost.overhead import GIB, EngineStart, overhead_parts_gib, visible_gib
from profiles.catalog.shapes import ModelShape
from profiles.methods import METHODS

_PAIR = ("model: meta-llama/Llama-3.1-70B-Instruct\ntensor-parallel-size: {}\nmax-model-len: 16384\nmax-num-seqs: 32\n"
         "speculative-config:\n  method: draft_model\n  model: meta-llama/Llama-3.2-1B-Instruct\n"
         "  num_speculative_tokens: 3\n")
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
_LIKELY = 0.8
"""Below this share of what one full-length request needs, the estimate's own error no longer explains it."""


def _utilization(subject: Subject) -> float:
    value = subject.config.get("gpu-memory-utilization", 0.9)
    return float(value) if isinstance(value, (int, float)) and 0 < float(value) <= 1 else 0.9


@dataclass(frozen=True)
class _Plan:
    """One GPU's memory with this config's speculation."""

    usable_gib: float
    weights_gib: float
    """Target and draft."""
    tokens_without: int | None
    tokens_with: int | None


def _planned(subject: Subject) -> _Plan | None:
    """The same arithmetic as the advice's memory plan; None where something it needs is not known."""
    speculation, engine, gpu = subject.speculation, subject.engine, subject.gpu
    target = subject.target.shape if subject.target is not None else None
    if speculation is None or target is None or gpu is None or speculation.method not in METHODS:
        return None
    described = METHODS[speculation.method]
    draft = subject.draft.shape if subject.draft is not None else None
    if described.drafter == "model" and draft is None:
        return None
    k = max(speculation.k or 1, 1)
    whole, stages = engine.tensor_parallel, engine.pipeline_parallel
    split = speculation.whole("draft_tensor_parallel_size") or whole
    kv_dtype = str(subject.config.get("kv-cache-dtype", "auto"))
    seen = visible_gib(gpu.memory_gib, unified=gpu.unified_memory, from_driver=gpu.memory_from == "nvml")
    usable = _utilization(subject) * seen
    own = target.weights_bytes / whole / stages / GIB
    drafts = draft_weights_bytes(target, draft, described) / split / GIB
    drafter = draft_layers(target, draft, described)
    window = engine.window or target.max_position_embeddings or engine.max_num_batched_tokens

    def tokens(drafter: ModelShape | None, k: int) -> int | None:
        start = EngineStart(
            runner="v2" if engine.runner == "v2" else "v1", batched_tokens=engine.max_num_batched_tokens,
            seqs=engine.max_num_seqs, tensor_parallel=whole, unified=gpu.unified_memory,
            captured_tokens=0 if engine.eager else subject.release.capture_ceiling(
                engine.max_num_seqs, k, gpu.compute_capability),
            graphs_from_kv=subject.release.has("graphs_taken_from_kv") and engine.runner == "v1")
        layers = [replace(one, layers=ceil(one.layers / stages)) for one in pool_layers(target, kv_dtype, whole, k)]
        layers += pool_layers(drafter, kv_dtype, split, k) if drafter is not None else ()
        pool = cut_pool(layers, step_tokens=engine.max_num_batched_tokens, speculated=k)
        taken = sum(overhead_parts_gib(target, start, drafter, k).values()) + own + (drafts if k else 0.0)
        return pool.tokens((usable - taken) * GIB, window, by_length=subject.release.has("kv_tokens_by_length"))

    return _Plan(usable_gib=usable, weights_gib=own + drafts, tokens_without=tokens(None, 0),
                 tokens_with=tokens(drafter, k))


def _does_not_fit(subject: Subject) -> Iterable[Fault]:
    plan = _planned(subject)
    if plan is None or subject.speculation is None:
        return
    weights = plan.weights_gib
    where = ("gpu-memory-utilization",
             ) if subject.config.get("gpu-memory-utilization") else subject.speculation.path("model")
    if weights >= plan.usable_gib:
        yield Fault(where, f"Weights of target and draft take {weights:.1f} GiB of each GPU's memory, and "
                    f"{plan.usable_gib:.1f} GiB may be used: the server runs out of memory while it loads.")
        return
    window, tokens = subject.engine.window, plan.tokens_with
    if window is None or tokens is None or tokens >= window or not subject.engine.stated_window:
        return
    sure = tokens < _LIKELY * window
    yield Fault(("max-model-len",), f"Beside {weights:.1f} GiB of weights, memory is left for about {tokens} tokens of "
                                    f"KV "
                f"cache, and one request may be {window} long: the server "
                f"{'does not start' if sure else 'may not start'}.",
                severity="error" if sure and tokens < 0.5 * window else "warn")


def _concurrency(subject: Subject) -> Iterable[Fault]:
    plan = _planned(subject)
    if plan is None or subject.speculation is None or not plan.tokens_without or plan.tokens_with is None:
        return
    left = plan.tokens_with / plan.tokens_without
    if left < 0.85 and plan.tokens_with > 0:
        window = subject.engine.window
        requests = "" if not window else (f", {plan.tokens_with / window:.1f} requests of full length instead of "
                                          f"{plan.tokens_without / window:.1f}")
        yield Fault(subject.speculation.path("model"), f"Draft weights and KV take memory from the KV cache: "
                    f"{plan.tokens_with} tokens are left of {plan.tokens_without}{requests}.")


def _outside(subject: Subject) -> Iterable[Fault]:
    """The V0 engine sizes the KV pool for the target and loads the draft beside it."""
    speculation, gpu = subject.speculation, subject.gpu
    draft = subject.draft.shape if subject.draft is not None else None
    if (speculation is None or gpu is None or draft is None or subject.engine.runner != "v0"
            or not subject.release.has("v0_engine") or traits.head_of(subject.draft) is not None):
        return
    share = _utilization(subject)
    split = speculation.whole("draft_tensor_parallel_size") or subject.engine.tensor_parallel
    needed, free = draft.weights_bytes / split / GIB, (1 - share) * gpu.memory_gib
    where = ("gpu-memory-utilization",) if subject.config.get("gpu-memory-utilization") else speculation.path("model")
    if needed > free:
        yield Fault(where, f"The V0 engine sizes the KV cache for the target alone: at gpu_memory_utilization "
                           f"{share:g} "
                    f"{free:.1f} GiB of memory stay outside, and the draft needs {needed:.1f} GiB on a GPU. The server "
                    f"runs "
                    "out of memory.")
    elif needed + 1.0 > free:
        yield Fault(where, f"The V0 engine sizes the KV cache for the target alone: {free:.1f} GiB of memory stay "
                           f"outside, "
                    f"and the draft needs {needed:.1f} GiB of it (gpu_memory_utilization {share:g}).", severity="warn")


_OLD = ("model: meta-llama/Llama-3.1-70B-Instruct\ntensor-parallel-size: 4\ngpu-memory-utilization: {}\n"
        "speculative-model: meta-llama/Llama-3.1-8B-Instruct\nnum-speculative-tokens: 3\n")
RULES = (
    Rule("SPD401", "Weights and cache that do not fit",
         "The draft is loaded before the KV pool is sized, and the pool has to hold one request of full length.",
         "Use more GPUs, a smaller draft, a shorter max-model-len, or an fp8 KV cache.", "error",
         "the memory plan (advisor/cost/memory.py); vllm/v1/worker/gpu_worker.py (0.32)",
         Example(_PAIR.format(1), env=_V1), Example(_PAIR.format(4), gpus=4, env=_V1), _does_not_fit),
    Rule("SPD402", "Concurrency that the draft costs", "Draft weights and draft KV come out of the same pool.",
         "Check the concurrency that is left against your load.", "info",
         "the memory plan (advisor/cost/memory.py)",
         Example("model: meta-llama/Llama-3.1-8B-Instruct\nmax-model-len: 8192\nmax-num-seqs: 32\nspeculative-config:\n"
                 "  method: draft_model\n  model: meta-llama/Llama-3.2-3B-Instruct\n  num_speculative_tokens: 3\n",
                 gpu="L40S", env=_V1),
         Example(_PAIR.format(4), gpus=4, env=_V1), _concurrency),
    Rule("SPD403", "No memory outside the V0 engine's share",
         "Up to 0.9 the profile that sizes the KV cache does not see the draft's weights.",
         "Lower gpu-memory-utilization, or spread the draft over all GPUs.", "error", "vllm issue 9995",
         Example(_OLD.format(0.99), "0.6.3", "A100-80GB", 4), Example(_OLD.format(0.85), "0.6.3", "A100-80GB", 4),
         _outside,
         releases="before 0.10"),
)
