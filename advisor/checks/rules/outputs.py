"""Structured output, tool calls, adapters and images beside a drafter."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS

_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\n{}speculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_NGRAM = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\n{}speculative-config:\n  method: ngram\n"
          "  num_speculative_tokens: 3\n  prompt_lookup_max: 4\n  prompt_lookup_min: 2\n")
_GRAMMAR = "structured-outputs-config:\n  backend: xgrammar\n"
_OLD = ("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
        "ngram-prompt-lookup-max: 4\n")


def _grammar(subject: Subject) -> Iterable[Fault]:
    speculation, release, option = subject.speculation, subject.release, subject.engine.grammar_option
    if speculation is None or option is None:
        return
    where = option
    if subject.engine.runner == "v0":
        yield Fault(where, "Structured output (guided decoding) is set up on the V0 engine, which does not check "
                           "drafts "
                    "against the grammar: crashes and texts that break it were reported.",
                    severity="error" if "xgrammar" in str(subject.config.get(str(option[0]))) else None)
    elif not release.has("grammar_checks_drafts"):
        yield Fault(where, f"Structured output (guided decoding) is set up, and vLLM {release.version} does not check "
                           f"drafts "
                    "against the grammar: requests fail as soon as a draft breaks it.", severity="error")
    elif not release.has("grammar_checks_drafts_well"):
        yield Fault(where, f"Structured output is set up with speculation: in vLLM {release.version} drafts that break "
                           f"the "
                    "grammar are not always taken out, and broken or truncated structured texts were reported.")
    elif release.has("grammar_after_reasoning_fault") and subject.config.get("reasoning-parser") is not None:
        yield Fault(where, "Structured output with a reasoning parser and speculation: drafts that cross the end of "
                           "the "
                    "reasoning escape the grammar, and broken JSON was reported.")
    elif speculation.method == "ngram_gpu" and release.has("ngram_gpu_grammar_fault"):
        yield Fault(where, "Structured output with ngram_gpu: requests fail with HTTP 500 under load (grammar "
                           "bitmask).")


def _tool_calls(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if (speculation is None or speculation.method not in ("ngram", "ngram_gpu")
            or not subject.release.has("ngram_tool_call_fault") or subject.config.get("tool-call-parser") is None):
        return
    low = speculation.whole("prompt_lookup_min")
    if low is None or low < 5:
        yield Fault(("tool-call-parser",), "Tool calls with n-gram lookup: copied fragments of the tools' description "
                                           "were "
                    "reported to corrupt the calls (empty or mangled arguments).")


def _adapters(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or subject.engine.switch("enable-lora") is not True:
        return
    if subject.engine.runner == "v0":
        yield Fault(("enable-lora",), f"LoRA with speculation: the V0 engine of vLLM {release.version} does not "
                                      f"support the "
                    "two together (shape errors in the adapters' kernels).")
    elif not release.has("any_async_with_speculation"):
        crashes = speculation.is_lookup
        yield Fault(("enable-lora",), f"LoRA with {speculation.method} in the V1 engine of vLLM {release.version}: "
                    + ("adapters are mapped to one token a request, and the engine was reported to crash with drafts."
                       if crashes else "the two are untested together."), severity=None if crashes else "warn")
    elif not speculation.is_lookup:
        yield Fault(("enable-lora",), "Adapters (LoRA) are applied to the target only: the drafter imitates the base "
                                      "model, "
                    "and acceptance falls with the distance between the two.", severity="info",
                    remedy="Measure acceptance per adapter.")


def _images(subject: Subject) -> Iterable[Fault]:
    speculation, release, engine = subject.speculation, subject.release, subject.engine
    if speculation is None or not traits.is_multimodal(subject.target) or speculation.method not in METHODS:
        return
    parallel = speculation.settings.get("parallel_drafting") is True and speculation.method not in ("dflash", "dspark")
    if speculation.method != "draft_model" and not parallel:
        return
    what = "A parallel-drafting head" if parallel and speculation.method != "draft_model" else "A text-only draft model"
    where = speculation.path("parallel_drafting" if parallel else "model")
    if traits.uses_mrope(subject.draft):
        yield Fault(where, "The draft itself uses M-RoPE positions (a multimodal model): vLLM does not implement that "
                           "for "
                    "draft models and parallel drafting.", severity="error" if engine.runner == "v1" else None,
                    remedy="Use a text-only draft of the same vocabulary.")
    elif engine.runner == "v1" and release.has("draft_model_refuses_multimodal"):
        yield Fault(where, f"{what} under a multimodal target: vLLM {release.version} refuses that "
                           f"(NotImplementedError).",
                    severity="error")
    else:
        yield Fault(where, f"{what} under a multimodal target: turns with images are drafted from text alone, and "
                           f"hardly "
                    "any draft is accepted there.")


_VL = {"config": {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
                  "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 5120, "num_hidden_layers": 64,
                                  "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 25600,
                                  "vocab_size": 151936, "max_position_embeddings": 262144, "head_dim": 128},
                  "vision_config": {"hidden_size": 1152, "depth": 27}}}
_TEXT = {"config": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120,
                    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
                    "intermediate_size": 25600, "vocab_size": 151936, "max_position_embeddings": 40960,
                    "head_dim": 128}}
_DRAFTED = ("model: models/target\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: "
            "32\nspeculative-config:\n"
            "  method: draft_model\n  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n")
RULES = (
    Rule("SPD521", "Structured output on a release that does not check drafts",
         "The V1 scheduler filters drafts by the grammar from 0.9 on, and reliably from 0.12 on.",
         "Use a newer release, or serve structured output without speculation.", "warn",
         "vllm issues 15554, 27969 and 52620; vllm pulls 14702, 29821 and 44993",
         Example(_EAGLE3.format(_GRAMMAR), "0.11.0"), Example(_EAGLE3.format(_GRAMMAR)), _grammar),
    Rule("SPD522", "Tool calls with n-gram lookup", "The prompt describes the tools; lookups copy from there.",
         "Raise prompt_lookup_min to 8, or use another method.", "warn", "vllm issues 40875 and 56077",
         Example(_NGRAM.format("enable-auto-tool-choice: true\ntool-call-parser: qwen3_coder\n"), "0.28.0"),
         Example(_NGRAM.format(""), "0.28.0"), _tool_calls, releases="0.12 to 0.29"),
    Rule("SPD523", "LoRA with speculation", "The V0 engine never combined the two; later engines adapt the target "
                                            "only.",
         "Serve adapters without speculation on this release.", "error", "vllm issues 4872, 6912 and 20284",
         Example(_OLD + "enable-lora: true\n", "0.6.6", "A100-80GB"), Example(_OLD, "0.6.6", "A100-80GB"), _adapters),
    Rule("SPD524", "Text-only drafter under a multimodal target",
         "Draft models and parallel drafting see no images; 0.15 to 0.20 refuse them, later releases warn.",
         "Use ngram or an EAGLE head made for this multimodal target.", "warn",
         "vllm/v1/spec_decode/llm_base_proposer.py of 0.16 to 0.32; vllm issues 33458 and 41743",
         Example(_DRAFTED, "0.28.0", gpus=2, models={"models/target": _VL}),
         Example(_DRAFTED, "0.28.0", gpus=2, models={"models/target": _TEXT}), _images, releases="0.15 and newer"),
)
