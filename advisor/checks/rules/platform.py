"""Platforms: which backend speculates, and with what."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS

_NGRAM = ("model: Qwen/Qwen3-8B\nmax-model-len: 4096\nmax-num-seqs: 4\nspeculative-config:\n  method: ngram\n"
          "  num_speculative_tokens: 3\n  prompt_lookup_max: 4\n  prompt_lookup_min: 2\n")
_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_OLD = ("model: meta-llama/Llama-2-7b-chat-hf\n{}speculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
        "ngram-prompt-lookup-max: 4\n")
_DFLASH = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 8\nspeculative-config:\n  method: dflash\n"
           "  model: z-lab/Qwen3-8B-DFlash-b16\n  num_speculative_tokens: 7\n")


def _cpu(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or subject.platform != "cpu":
        return
    if not release.has("cpu_speculation"):
        yield Fault(speculation.path(), f"The CPU backend of vLLM {release.version} does not speculate: it asserts "
                                        f"that "
                    "speculative decoding is off.", remedy="Use vLLM 0.20 or newer on the CPU, or remove speculation.")
    elif speculation.method in METHODS and not METHODS[speculation.method].runs_on_cpu:
        yield Fault(speculation.path("method"), f"The CPU backend does not run the method {speculation.method}.",
                    remedy="Use ngram, a draft model or an EAGLE head on the CPU.")


def _other_backends(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None:
        return
    if subject.platform == "tpu":
        yield Fault(speculation.path(), "vLLM's TPU backend does not support speculative decoding.")
    elif subject.platform == "xpu" and not release.has("xpu_speculation"):
        yield Fault(speculation.path(), f"The XPU backend of vLLM {release.version} does not support speculative "
                                        f"decoding.")
    elif (subject.platform == "xpu" and release.has("xpu_hybrid_fault") and not speculation.is_lookup
            and traits.is_hybrid(subject.target)):
        yield Fault(speculation.path("method"), f"The XPU kernels of recurrent layers take no drafts in vLLM "
                    f"{release.version}: a hybrid target with {speculation.method} fails in the first steps.",
                    remedy="Use vLLM 0.29 or newer, or serve without speculation.")
    elif subject.platform == "rocm" and not release.has("rocm_heads") and speculation.method in ("eagle", "eagle3",
                                                                                                 "mtp"):
        if subject.engine.runner == "v1":
            yield Fault(speculation.path("method"), f"On ROCm, {speculation.method} is not supported by the V1 engine "
                                                    f"of "
                        f"vLLM {release.version}: its drafter asserts FlashAttention.")
    elif subject.platform in ("npu", "unknown"):
        yield Fault(speculation.path(), "vLLM runs on this accelerator through a plugin, whose methods and limits are "
                                        "its "
                    "own: the rules here are those of vLLM itself.", severity="info",
                    remedy="Compare with the plugin's documentation.")


def _rocm_attention(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or subject.platform != "rocm":
        return
    backend = str(subject.config.get("attention-backend", subject.env.get("VLLM_ATTENTION_BACKEND", "")) or ""
                  ).upper() or _aiter_by_variable(subject)
    if "AITER" in backend and release.has("aiter_multi_token_fault"):
        yield Fault((), f"The attention backend {backend} of vLLM {release.version} takes one token a request: with "
                    "drafts, texts become wrong or the step fails.", remedy="Use another attention backend, or vLLM "
                                                                            "0.15 or newer.")
    draft = str(speculation.settings.get("attention_backend", "")).upper()
    if draft in ("FLASH_ATTN", "FLASHINFER"):
        yield Fault(speculation.path("attention_backend"), f"The draft's attention_backend is {draft}, which ROCm does "
                                                           f"not "
                    "have: the drafter does not start.", remedy="Use TRITON_ATTN for the draft.")


def _aiter_by_variable(subject: Subject) -> str:
    """The backend that VLLM_ROCM_USE_AITER picks where none is named; empty where it picks none."""
    on, off = ("1", "true"), ("0", "false")
    if str(subject.env.get("VLLM_ROCM_USE_AITER", "")).lower() not in on:
        return ""
    return "" if str(subject.env.get("VLLM_ROCM_USE_AITER_MHA", "1")).lower() in off else "ROCM_AITER_FA"


def _consumer_blackwell(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    capability = subject.gpu.compute_capability if subject.gpu is not None else None
    if speculation is None or capability is None or not capability.startswith("12"):
        return
    if speculation.method == "dspark" and release.has("dspark_sm12_fault"):
        yield Fault(speculation.path("method"), f"dspark on compute capability {capability}: the sparse-attention "
                                                f"kernel of "
                    f"vLLM {release.version} has no decode shape for the drafter, and the engine stops while it warms "
                    f"up.")
    elif (speculation.method == "dflash" and capability == "12.1" and release.has("dflash_sm121_fault")
            and speculation.settings.get("attention_backend") is None):
        yield Fault(speculation.path("method"), f"dflash on compute capability {capability} (GB10): FlashAttention is "
                                                f"picked "
                    "for the drafter's non-causal attention and asserts on the device.",
                    remedy="Set speculative-config.attention_backend to TRITON_ATTN or FLEX_ATTENTION.")


def _device_index(subject: Subject) -> Iterable[Fault]:
    device = subject.config.get("device")
    if subject.speculation is not None and isinstance(device, str) and ":" in device:
        yield Fault(("device",), f"device is {device}: the drafter's worker does not follow a device index, and the "
                                 f"two "
                    "models can end up on different GPUs.",
                    remedy="Choose the GPU with CUDA_VISIBLE_DEVICES and leave the index out.")


def _bfloat16(subject: Subject) -> Iterable[Fault]:
    capability = subject.gpu.compute_capability if subject.gpu is not None else None
    stated = subject.config.get("dtype")
    if stated in ("bfloat16", "bf16") and capability is not None and float(capability) < 8.0:
        yield Fault(("dtype",), f"dtype is {stated}, and a GPU of compute capability {capability} has no bfloat16: "
                                "vLLM refuses to start.")


RULES = (
    Rule("SPD681", "Speculation on the CPU backend", "Up to 0.19 the CPU runner asserts that there is none; later, "
                                                     "methods "
         "that need Triton or a GPU kernel stay out.", "Use a method the CPU backend has.", "error",
         "vllm/v1/worker/cpu_model_runner.py of 0.9 to 0.32", Example(_NGRAM, "0.19.0", "cpu", 0),
         Example(_NGRAM, "0.32.0", "cpu", 0), _cpu),
    Rule("SPD682", "Backend that does not speculate", "TPUs never did in vLLM itself; Intel GPUs from 0.10 on; AMD "
                                                      "GPUs run "
         "heads on V1 from 0.10.1 on.", "Remove speculation, or use a newer release.", "error",
         "vllm/platforms of 0.8.5 to 0.14; vllm pull 21496, issue 52262", Example(_NGRAM, "0.12.0", "TPU v6e"),
         Example(_NGRAM, "0.24.0", "MI300X"), _other_backends),
    Rule("SPD683", "Attention backend that does not take drafts on ROCm", "Verifying takes several tokens of a request "
                                                                          "at "
         "once, which not every kernel does.", "Use another attention backend.", "error",
         "vllm issues 28222 and 31625, vllm pull 32877, vllm-project/recipes pull 740",
         Example(_EAGLE3, "0.12.0", "MI300X", env={"VLLM_ATTENTION_BACKEND": "ROCM_AITER_FA"}),
         Example(_EAGLE3, "0.18.0", "MI300X", env={"VLLM_ATTENTION_BACKEND": "ROCM_AITER_FA"}), _rocm_attention),
    Rule("SPD684", "Drafters without kernels on consumer Blackwell", "Compute capability 12 lacks some kernels of 10.",
         "Use another method on this GPU, or a newer release.", "error", "vllm issues 50707 and 50720, vllm pull 51538",
         Example(_DFLASH, "0.26.0", "GB10"), Example(_DFLASH, "0.26.0", "H100"), _consumer_blackwell),
    Rule("SPD685", "GPU chosen by a device index", "The old engine builds the drafter on the default device.",
         "Use CUDA_VISIBLE_DEVICES.", "warn", "vllm issue 13722", Example(_OLD.format("device: cuda:1\n"), "0.7.3",
                                                                          "A100-80GB"),
         Example(_OLD.format(""), "0.7.3", "A100-80GB"), _device_index, releases="before 0.10"),
    Rule("SPD686", "bfloat16 on a GPU without it", "Compute capability 8.0 (Ampere) is the first with bfloat16; on "
                                                   "older ones vLLM falls back to float16 by itself.",
         "Set dtype to auto or half.", "error", "vllm/platforms/cuda.py, check_if_supports_dtype",
         Example("model: Qwen/Qwen3-0.6B\ndtype: bfloat16\nmax-model-len: 2048\n", "0.10.2", "T4"),
         Example("model: Qwen/Qwen3-0.6B\ndtype: half\nmax-model-len: 2048\n", "0.10.2", "T4"), _bfloat16),
)
