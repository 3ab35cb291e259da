"""Cost: a draft has to be much cheaper than its target, and the batch must leave room to verify."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.catalog.shapes import ModelShape

_PAIR = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n"
         "  method: draft_model\n  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n")
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: {}\nmax-num-batched-tokens: 8192\n"
           "max-cudagraph-capture-size: 1024\nspeculative-config:\n  method: eagle3\n  model: "
           "AngelSlim/Qwen3-8B_eagle3\n"
           "  num_speculative_tokens: 3\n")
_MOST_DRAFTING = 0.75
"""Share of a target's step that k draft passes may read before they hardly can pay: at an acceptance of 0.75 a token,
four drafts gain 2.3 tokens a step, and drafting at this share with its launches takes about as much again."""
_LARGEST_RATIO = 1 / 3
_EXPERTS, _EXPERT_K = 8, 4


def _pass_bytes(shape: ModelShape) -> float:
    return shape.active_params * shape.bits_per_weight / 8


def _ratio(subject: Subject) -> float | None:
    """Bytes one draft pass reads over those of a target's step."""
    if subject.speculation is None or subject.speculation.method != "draft_model":
        return None
    if traits.head_of(subject.draft) is not None:
        return None
    draft = subject.draft.shape if subject.draft is not None else None
    target = subject.target.shape if subject.target is not None else None
    if draft is None or target is None or _pass_bytes(target) <= 0:
        return None
    return _pass_bytes(draft) / _pass_bytes(target)


def _too_costly(subject: Subject) -> Iterable[Fault]:
    speculation, ratio = subject.speculation, _ratio(subject)
    if speculation is None or ratio is None:
        return
    k = speculation.k or 1
    where = speculation.path("model")
    passes = 1 if speculation.settings.get("parallel_drafting") is True else k
    deep, target_deep = traits.layers(subject.draft), traits.layers(subject.target)
    if ratio > _LARGEST_RATIO or passes * ratio > _MOST_DRAFTING:
        stored = traits.quantization(subject.target).get("quant_method")
        note = (f" (The target is quantised, {stored}, and the draft is not.)"
                if stored and not traits.is_quantized(subject.draft) else "")
        yield Fault(where, f"The draft reads {ratio:.2f} of the target's weights in each pass, and a step takes "
                           f"{passes} "
                    f"of them: drafting costs {passes * ratio:.2f} of a target step before anything is gained. The "
                    f"draft "
                    "is too large for this target." + note, thumb=True)
    elif deep is not None and target_deep is not None and deep >= target_deep and passes > 1:
        yield Fault(where, f"The draft has {deep} layers and the target {target_deep}: at small batches time goes by "
                           f"layers "
                    "launched, so each draft pass costs about as much as the target's step, although its weights are "
                    "small.", thumb=True)
    elif not 1 / 60 <= ratio <= 1 / 8:
        side = "less than" if ratio > 1 / 8 else "more than"
        yield Fault(where, f"The draft is {1 / ratio:.0f} times smaller than its target, {side} the rule of thumb of "
                           "10 to 50.", severity="info", remedy="Compare with another draft in a trial.", thumb=True)


def _small_target(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    shape = subject.target.shape if subject.target is not None else None
    if speculation is None or shape is None or speculation.is_lookup or subject.platform == "cpu":
        return
    if shape.active_params > 2e9 or shape.moe is not None:
        return
    yield Fault(speculation.path(), f"The target has {shape.params / 1e9:.1f} billion parameters: its own step takes "
                                    f"little "
                "more than its launches, so a small target leaves drafts hardly anything to gain.", thumb=True)


def _experts(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    number = traits.experts(subject.target)
    if speculation is None or speculation.k is None or number < _EXPERTS or speculation.k < _EXPERT_K:
        return
    if speculation.schedule_stated or speculation.settings.get("enable_adaptive_verification") is True:
        return
    yield Fault(speculation.path("num_speculative_tokens"), f"num_speculative_tokens is {speculation.k} at every batch "
                                                            f"size, "
                f"on a mixture of {number} experts (MoE): each verified token wakes further experts, so verifying "
                f"costs "
                "more than on a dense target.", thumb=True)


def _ridge(subject: Subject) -> float | None:
    """Tokens of a step from which on the GPU computes longer than it reads weights."""
    gpu, shape = subject.gpu, subject.target.shape if subject.target is not None else None
    if gpu is None or shape is None or shape.moe is not None:
        return None
    tflops = gpu.tflops("bf16") or gpu.tflops("fp16")
    if 6 < shape.bits_per_weight <= 12:
        tflops = gpu.tflops("fp8") or tflops
    if not tflops or not gpu.memory_bandwidth_gbs:
        return None
    return tflops * 1e12 / (gpu.memory_bandwidth_gbs * 1e9) * shape.bits_per_weight / 16


def _no_room(subject: Subject) -> Iterable[Fault]:
    speculation, ridge = subject.speculation, _ridge(subject)
    if speculation is None or speculation.k is None or ridge is None or speculation.schedule_stated:
        return
    if speculation.settings.get("enable_adaptive_verification") is True or subject.engine.runner == "cpu":
        return
    load = subject.workload.concurrency if subject.workload is not None else None
    width = speculation.k + 1
    where = speculation.path("num_speculative_tokens")
    if load is not None:
        tokens, most = load * width, 1.5
    else:
        stated = subject.engine.stated_seqs
        if stated is None or "disable_by_batch_size" in speculation.settings:
            return
        low_bits = subject.target is not None and subject.target.shape is not None and (
            subject.target.shape.bits_per_weight < 6)
        tokens, most = stated * width, 6.0 if low_bits else 2.5
    running = tokens // width
    if tokens > most * ridge:
        what = f"{running} requests run at once" if load is not None else f"up to {running} requests may run at once"
        yield Fault(where, f"{what}, {tokens} tokens to verify in a step at k={speculation.k}: by its roofline this "
                           f"GPU is compute-bound from about {ridge:.0f} tokens on, so at high concurrency (batch "
                           "size) each drafted token costs time and the gain in throughput shrinks. Whether it turns "
                           "into a loss depends on how many are accepted, which this rule does not price.", thumb=True)


def _short_outputs(subject: Subject) -> Iterable[Fault]:
    speculation, workload = subject.speculation, subject.workload
    if speculation is None or workload is None or workload.output_len is None:
        return
    prompt = workload.prompt_len or 0
    if workload.output_len <= 2 * ((speculation.k or 1) + 1):
        yield Fault(speculation.path(), f"Outputs are {workload.output_len} tokens long: a few steps in all, and "
                                        f"drafting "
                    "adds to the first of them.", severity="warn", thumb=True)
    elif prompt >= 50 * workload.output_len:
        yield Fault(speculation.path(), f"Prompts are {prompt // workload.output_len} times as long as outputs: most "
                                        f"of the "
                    "time goes into prefill, which speculation does not shorten.", thumb=True)


_LARGE_DRAFT = _PAIR.replace("Qwen3-0.6B", "Qwen3-4B").replace("tokens: 3", "tokens: 10")
_MOE = ("model: Qwen/Qwen3-235B-A22B\ntensor-parallel-size: 8\nmax-model-len: 16384\nmax-num-seqs: "
        "32\nspeculative-config:\n"
        "  method: eagle3\n  model: nvidia/Qwen3-235B-A22B-Eagle3\n  num_speculative_tokens: {}\n")
RULES = (
    Rule("SPD421", "Draft too costly for its target",
         "A step pays for k draft passes before it verifies; they have to be a small part of the target's own step.",
         "Use a draft 10 to 50 times smaller than the target, k of 3 or 4, or an EAGLE head.", "warn",
         "vllm issues 5239, 8731 and 21278", Example(_LARGE_DRAFT, env=_V1, gpus=2), Example(_PAIR, env=_V1, gpus=2),
         _too_costly),
    Rule("SPD422", "Small target", "A step that is mostly launches cannot be shortened by further launches.",
         "Measure before relying on it.", "info", "published measurements of small targets",
         Example("model: meta-llama/Llama-3.2-1B-Instruct\nmax-num-seqs: 32\nspeculative-config:\n  method: "
                 "draft_model\n"
                 "  model: meta-llama/Llama-3.2-1B-Instruct\n  num_speculative_tokens: 3\n", env=_V1),
         Example(_PAIR, env=_V1, gpus=2), _small_target),
    Rule("SPD423", "Static k on a mixture of experts",
         "Tokens of one step share few experts: verifying k + 1 tokens reads several times the weights of one.",
         "Use k of 1 to 3, or a schedule that lowers k with the batch.", "warn", "vllm issue 44506",
         Example(_MOE.format(5), gpu="H200", gpus=8), Example(_MOE.format(2), gpu="H200", gpus=8), _experts),
    Rule("SPD424", "No compute left to verify with",
         "Verification is free while a step is bound by reading weights; at large batches it is bound by compute.",
         "Lower k, or add a schedule with k = 0 for large batches.", "warn",
         "the roofline of the GPU (catalog: dense TFLOP/s and bandwidth)",
         Example(_EAGLE3.format(256), workload={"concurrency": 200}), Example(_EAGLE3.format(256),
                                                                            workload={"concurrency": 32}), _no_room),
    Rule("SPD425", "Short outputs or very long prompts", "Speculation shortens decoding only.",
         "Measure end-to-end latency, not tokens per second of decoding.", "info", "the share of decoding in a request",
         Example(_EAGLE3.format(32), workload={"prompt_len": 4000, "output_len": 8}),
         Example(_EAGLE3.format(32), workload={"prompt_len": 1000, "output_len": 300}), _short_outputs),
)
