"""Memory: will target, draft and one request fit, and what concurrency is left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import ValidationError

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from advisor.cost.memory import plan_memory
from advisor.cost.overhead import GIB
from advisor.cost.stated_kv import BLOCKS, BYTES
from advisor.cost.taken import drafter_takes, drafter_verb, engine_takes, joined
from advisor.record import Memory
from advisor.situation import Situation
from profiles.catalog.shapes import ModelShape
from profiles.deployment import NO_SPECULATION, Candidate, Deployment
from profiles.methods import METHODS
from profiles.model_ref import ModelRef

_PAIR = ("model: meta-llama/Llama-3.1-70B-Instruct\ntensor-parallel-size: {}\nmax-model-len: 16384\nmax-num-seqs: 32\n"
         "speculative-config:\n  method: draft_model\n  model: meta-llama/Llama-3.2-1B-Instruct\n"
         "  num_speculative_tokens: 3\n")
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
_PASSED_ON = ("block-size", "enable-prefix-caching", BYTES, BLOCKS)
_NOT_PLANNED = ("cpu-offload-gb", "cpu-offload-params", "decode-context-parallel-size", "offload-backend",
                "prefill-context-parallel-size")
"""Options that move weights or KV to where the plan does not look."""


def _utilization(subject: Subject) -> float:
    default = subject.release.default_gpu_memory_utilization
    value = subject.config.get("gpu-memory-utilization", default)
    return float(value) if isinstance(value, (int, float)) and 0 < float(value) <= 1 else default


def _planned(subject: Subject) -> Memory | None:
    """The plan that the advice makes for the same engine; None where something it needs is not known."""
    target = subject.target.shape if subject.target is not None else None
    if target is None or (subject.gpu is None and subject.platform != "cpu"):
        return None
    if any(subject.config.get(option) not in (None, 0, 1, False) for option in _NOT_PLANNED):
        return None
    if subject.config.get("quantization") is not None and target.quantization is None:
        # Quantized while it loads: what then lies in memory is not what is stored.
        return None
    try:
        candidate, drafts = _candidate(subject)
        situation = _situation(subject, target, candidate, drafts)
    except (LookupError, ValidationError):
        return None
    served_on: Literal["v1", "v2", "cpu"] = "cpu" if situation.runner == "cpu" else _gpu_runner(subject.engine.runner)
    return plan_memory(situation, candidate, candidate.k[0] if subject.speculation is not None else 0, served_on)


def _gpu_runner(runner: str) -> Literal["v1", "v2"]:
    """The runner whose sizes the plan knows: the V0 engine is taken for the V1 one."""
    return "v2" if runner == "v2" else "v1"


def _candidate(subject: Subject) -> tuple[Candidate, dict[str, ModelShape]]:
    """What the config speculates with. LookupError where a draft model's shape, or the method, is not known."""
    speculation = subject.speculation
    if speculation is None:
        return NO_SPECULATION, {}
    described = METHODS[speculation.method or ""]
    shape = subject.draft.shape if subject.draft is not None else None
    if described.drafter == "model" and shape is None:
        raise LookupError
    settings = {key: value for key, value in speculation.settings.items() if key in described.settings}
    named = speculation.model if described.drafter not in ("lookup", "none") else None
    candidate = Candidate(
        method=described.name, draft=ModelRef(id=named) if named else None, k=(max(speculation.k or 1, 1),),
        settings=settings, tensor_parallel_size=speculation.whole("draft_tensor_parallel_size"))
    return candidate, {named: shape} if named and shape is not None else {}


def _situation(
    subject: Subject, target: ModelShape, candidate: Candidate, drafts: dict[str, ModelShape]
) -> Situation:
    engine = subject.engine
    plain = _gpu_runner(engine.plain_runner)
    workload = subject.workload
    lengths = {
        "prompt_tokens": workload.prompt_len if workload is not None else None,
        "output_tokens": workload.output_len if workload is not None else None,
    }
    stated: dict[str, Any] = {
        "target": target.id or "unnamed",
        "engine": {
            "tensor_parallel_size": engine.tensor_parallel, "pipeline_parallel_size": engine.pipeline_parallel,
            "data_parallel_size": engine.data_parallel, "max_model_len": engine.stated_window,
            "max_num_seqs": engine.stated_seqs, "max_num_batched_tokens": engine.stated_tokens,
            "gpu_memory_utilization": _utilization(subject), "enforce_eager": engine.eager,
            "kv_cache_dtype": str(subject.config.get("kv-cache-dtype", "auto")),
            "extra_args": {name: value for name in _PASSED_ON if (value := subject.config.get(name)) is not None},
            "env": {name: str(value) for name, value in subject.env.items()},
        },
        "workload": {name: value for name, value in lengths.items() if value is not None},
    }
    deployment = Deployment.model_validate(stated)
    if subject.hardware is not None:
        deployment = deployment.model_copy(update={"hardware": subject.hardware})
    on_cpu = subject.platform == "cpu"
    window = traits.window(subject.target, engine.overrides)
    return Situation(
        deployment=deployment, target=target.model_copy(update={"max_position_embeddings": window}), drafts=drafts,
        candidates=(candidate,), release=subject.release,
        runner="cpu" if on_cpu else plain, gpu=subject.gpu,
        gpu_count=subject.gpu_count or 0, evidence=subject.evidence)


def _does_not_fit(subject: Subject) -> Iterable[Fault]:
    plan = _planned(subject)
    if plan is None:
        return
    weights = _weights(subject, plan)
    # Once the weights run out of memory, nothing further is reached.
    found = (weights,) if weights is not None else (_stated_size(subject, plan), _window(subject, plan))
    yield from (fault for fault in found if fault is not None)


def _drafted(subject: Subject, plan: Memory) -> bool:
    return subject.speculation is not None and plan.draft_weights_gib > 0


def _drafter(subject: Subject) -> str:
    """Kind of drafter that the config names: model, head, lookup, ..."""
    speculation = subject.speculation
    return METHODS[speculation.method].drafter if speculation is not None and speculation.method in METHODS else "none"


def _weights_gib(subject: Subject, plan: Memory) -> tuple[float, str]:
    """Weights of one GPU, and whose they are."""
    if _drafted(subject, plan):
        return plan.target_weights_gib + plan.draft_weights_gib, "target and draft"
    return plan.target_weights_gib, "the target"


def _weights(subject: Subject, plan: Memory) -> Fault | None:
    weights, whose = _weights_gib(subject, plan)
    if plan.usable_gib is None or weights < plan.usable_gib:
        return None
    speculation = subject.speculation
    named = speculation.path("model") if speculation is not None else ("model",)
    where = ("gpu-memory-utilization",) if subject.config.get("gpu-memory-utilization") else named
    # No draft is small enough where the target alone is too large.
    smaller = ", or a smaller draft" if plan.target_weights_gib < plan.usable_gib else ", or larger GPUs"
    return Fault(where, f"Weights of {whose} take {weights:.1f} GiB of each GPU's memory, and "
                        f"{plan.usable_gib:.1f} GiB may be used: the server runs out of memory while it loads.",
                 remedy=f"Use more GPUs (tensor-parallel-size), weights of fewer bits{smaller}.")


def _stated_size(subject: Subject, plan: Memory) -> Fault | None:
    """A KV cache that an option makes larger than the memory beside the weights."""
    speculating = subject.speculation is not None
    fits = plan.kv_fits_with if speculating else plan.kv_fits_without
    asked = plan.kv_gib_with if speculating else plan.kv_gib_without
    overhead = plan.overhead_with_gib if speculating else plan.overhead_gib
    if not plan.kv_stated_by or fits is True or asked is None or plan.usable_gib is None or overhead is None:
        return None
    weights, whose = _weights_gib(subject, plan)
    left = plan.usable_gib - weights - overhead
    return Fault((plan.kv_stated_by,), f"{plan.kv_stated_by} asks for {asked:.1f} GiB of KV cache, and beside "
                 f"{weights:.1f} GiB of weights ({whose}) and {overhead:.1f} GiB for activations and runtime "
                 f"{max(0.0, left):.1f} GiB of each GPU are left: the server "
                 f"{'runs' if fits is False else 'may run'} out of memory while it starts.",
                 severity="error" if fits is False else "warn",
                 remedy=f"State less, or leave {plan.kv_stated_by} out: gpu-memory-utilization then decides.")


def _window(subject: Subject, plan: Memory) -> Fault | None:
    """A KV cache that does not hold one request of full length."""
    config, engine = subject.config, subject.engine
    # The V0 engine sizes its cache for the target alone: what the draft then lacks is another rule's.
    alone = engine.runner == "v0"
    window, longest = plan.window, plan.max_model_len_without if alone else plan.max_model_len_with
    stated = engine.stated_window is not None
    left_to_engine = config.get("max-model-len") is not None and not stated
    if window is None or longest is None or longest >= window or left_to_engine:
        # `auto` and -1: the engine takes what fits.
        return None
    sure = (plan.window_fits_without if alone else plan.window_fits_with) is False
    asked = (f"one request may be {window} long (max-model-len)" if stated else
             f"max-model-len is not stated, so one request may be as long as the model takes, {window}")
    weights, _ = _weights_gib(subject, plan)
    if plan.kv_stated_by:
        has = f"{plan.kv_stated_by} {config.get(plan.kv_stated_by)} has"
    else:
        has = "The KV space has" if plan.usable_gib is None else f"Beside {weights:.1f} GiB of weights, memory has"
    unchecked = plan.kv_stated_by == BLOCKS and not subject.release.has("blocks_override_checked")
    then = (f"vLLM {subject.release.version} starts all the same, and a longer request waits for ever" if unchecked else
            f"the server {'does' if sure else 'may'} not start")
    where = (plan.kv_stated_by,) if plan.kv_stated_by else ("max-model-len",) if stated else ("model",)
    return Fault(where, f"{has} room for about {longest} tokens of one request's KV cache, and {asked}: {then}.",
                 severity="error" if sure else "warn", remedy=_more_room(subject, plan, longest, alone))


def _more_room(subject: Subject, plan: Memory, longest: int, alone: bool) -> str | None:
    """What would hold the window: only what would help here is named."""
    if longest <= 0 and not plan.kv_stated_by:
        return None
    ways = [f"a larger {plan.kv_stated_by}, or none"] if plan.kv_stated_by else ["more GPUs"]
    if _drafted(subject, plan) and not alone and (plan.max_model_len_without or 0) >= (plan.window or 0):
        # Without any draft it would fit, so a smaller one may.
        ways.append("a smaller draft" if _drafter(subject) == "model" else "a lookup instead of the draft")
    if str(subject.config.get("kv-cache-dtype", "auto")) in ("auto", "bfloat16", "float16"):
        ways.append("an fp8 KV cache")
    room = f"make room: {', '.join(ways[:-1]) + ', or ' if ways[1:] else ''}{ways[-1]}"
    if longest <= 0:
        return f"{room[0].upper()}{room[1:]}."
    return f"State a max-model-len of at most {longest}, or {room}."


def _concurrency(subject: Subject) -> Iterable[Fault]:
    plan = _planned(subject) if subject.speculation is not None else None
    if plan is None or subject.speculation is None or not plan.kv_tokens_without or plan.kv_tokens_with is None:
        return
    with_it, without = plan.kv_tokens_with, plan.kv_tokens_without
    where, workload = subject.speculation.path("model"), subject.workload
    left = f"Speculation takes memory from the KV cache: {with_it:,} tokens are left of {without:,}"
    takes = _taken(subject, plan)
    beside, alone = plan.requests_with, plan.requests_without
    expected = workload.concurrency if workload is not None and workload.prompt_len and workload.output_len else None
    if expected is not None and beside is not None and alone is not None and beside < min(expected, alone):
        other = {"model": "Use a smaller draft or a lookup, an", "lookup": "Use an"}.get(_drafter(subject),
                                                                                        "Use a lookup, an")
        yield Fault(where, f"{left}, which hold {beside:,} requests of the expected length at once where {expected:,} "
                           f"run: the others wait. Without speculation there is room for {alone:,}.{takes}",
                    severity="warn", remedy=f"{other} fp8 KV cache, or more GPUs; or turn speculation off.")
    elif with_it / without < 0.85 and with_it > 0:
        window = subject.engine.window
        requests = "" if not window else (f", {with_it / window:.1f} requests of full length instead of "
                                          f"{without / window:.1f}")
        yield Fault(where, f"{left}{requests}.{takes}")


def _taken(subject: Subject, plan: Memory) -> str:
    """Who takes it, as a sentence behind another one; empty where nothing can be named."""
    target = subject.target.shape if subject.target is not None else None
    speculation = subject.speculation
    described = METHODS.get(speculation.method or "none") if speculation is not None else None
    whose = {drafter_verb(described or METHODS["none"]): drafter_takes(plan),
             "the engine takes": engine_takes(plan, target, subject.engine.runner, subject.engine.plain_runner)}
    said = "; ".join(f"{who} {joined(parts)}" for who, parts in whose.items() if parts)
    return f" {said[0].upper()}{said[1:]}." if said else ""


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
