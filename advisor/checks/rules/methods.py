"""Methods: which release, engine and model has them, and what each needs."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS
from profiles.schema import shown

_NGRAM = ("model: Qwen/Qwen3-8B\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n  "
          "prompt_lookup_max: 4\n")
_DRAFT = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: "
          "32\nspeculative-config:\n"
          "  method: draft_model\n  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n")


def _unknown(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or speculation.stated_method is None:
        return
    stated = speculation.stated_method
    if speculation.method is None:
        known = ", ".join(sorted(release.methods))
        later = [name for name in (stated,) if name in METHODS]
        if later:
            return
        yield Fault(speculation.path("method"), f"{shown(stated)} is no method of vLLM {release.version}: it takes "
                                                f"{known}.")
    elif stated == "mtp" and "mtp" not in release.methods and release.method_spellings:
        names = ", ".join(sorted(release.method_spellings))
        yield Fault(speculation.path("method"), f"vLLM {release.version} has no method `mtp` yet: it takes the name of "
                    f"the model family ({names}).")


def _not_in_release(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or speculation.method is None or speculation.method == "mtp":
        return
    method = speculation.method
    if method in release.methods:
        return
    if method == "draft_model":
        yield Fault(
            speculation.path("method" if speculation.stated_method else "model"),
            f"Speculation with a draft model is not implemented in vLLM {release.version} (NotImplementedError): the "
            f"V1 "
            "engine had none from 0.10 to 0.14.",
            remedy="Upgrade to 0.28 or newer for a draft model, or use ngram or an EAGLE head on this release.",
        )
        return
    yield Fault(speculation.path("method"), f"vLLM {release.version} does not support the method {method}: the server "
                "does not start.", remedy=f"Use a release that has {method}, or one of "
                                          f"{', '.join(sorted(release.methods))}.")


def _needs_model(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.model is not None or speculation.method not in METHODS:
        return
    if METHODS[speculation.method].needs_draft and speculation.method != "dspark":
        yield Fault(speculation.path("method"), f"{speculation.method} needs a draft: speculative-config.model is "
                                                f"missing.")


def _old_name(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or speculation.stated_method is None:
        return
    stated = speculation.stated_method
    if stated not in release.method_spellings or "mtp" not in release.methods:
        return
    family, kind = stated.removesuffix("_mtp"), traits.model_type(subject.target).removesuffix("_text")
    other = bool(kind) and not _same_family(family, kind)
    message = f"{stated} is a deprecated alias: vLLM {release.version} warns and takes it as mtp."
    if other:
        message += f" It also names another model family than this target's ({kind})."
    yield Fault(speculation.path("method"), message, severity="warn" if other else None)


def _same_family(family: str, kind: str) -> bool:
    one, other = family.replace("_", ""), kind.replace("_", "")
    return one[:5] == other[:5] and (one in other or other in one or (not (one[:6].isalpha() ^ other[:6].isalpha())
                                     and one[-1:] == other[-1:]))


def _no_v1(subject: Subject) -> Iterable[Fault]:
    speculation, release, engine = subject.speculation, subject.release, subject.engine
    if speculation is None or not release.has("v0_engine"):
        return
    if engine.forced_engine == "v1" and not release.has("v1_speculates"):
        yield Fault(speculation.path(), f"VLLM_USE_V1=1 forces the V1 engine, which has no speculation in vLLM "
                    f"{release.version}.", remedy="Unset VLLM_USE_V1, or use 0.8.5 or newer.")
    elif engine.forced_engine == "v1" and speculation.method not in (None, *release.v1_methods):
        yield Fault(speculation.path(), f"VLLM_USE_V1=1 forces the V1 engine, which does not speculate with "
                    f"{speculation.method} in vLLM {release.version}: the start is refused.",
                    remedy="Unset VLLM_USE_V1, or use a method that V1 has.")


def _forced_v0(subject: Subject) -> Iterable[Fault]:
    if (subject.speculation is not None and not subject.release.has("v0_engine")
            and subject.engine.forced_engine == "v0"):
        yield Fault(subject.speculation.path(), f"VLLM_USE_V1=0 asks for the V0 engine, which in vLLM "
                    f"{subject.release.version} is gone or does not speculate.", remedy="Unset VLLM_USE_V1.")


def _old_engine(subject: Subject) -> Iterable[Fault]:
    speculation, release, engine = subject.speculation, subject.release, subject.engine
    if speculation is None or not release.has("v0_engine") or not release.has("v1_by_default"):
        return
    if engine.runner == "v0" and engine.forced_engine is None and speculation.method is not None:
        yield Fault(speculation.path(), f"With {speculation.method}, vLLM {release.version} falls back to the legacy "
                                        f"V0 "
                    "engine, which is deprecated and removed in 0.10.")


def _early_v1(subject: Subject) -> Iterable[Fault]:
    """0.8: speculation in V1 is young; ngram there finds next to nothing with a long window."""
    speculation, release, engine = subject.speculation, subject.release, subject.engine
    if speculation is None or engine.runner != "v1" or not release.has("v0_engine") or speculation.method != "ngram":
        return
    low = speculation.whole("prompt_lookup_min") or 0
    if low >= 8 or (speculation.k or 0) > 64:
        yield Fault(speculation.path("prompt_lookup_min"), "Lookup on the young V1 engine of this release hardly "
                                                           "drafts "
                    f"with prompt_lookup_min {low} and k {speculation.k}.")


RULES = (
    Rule("SPD121", "Unknown method", "method has a fixed list of values; anything else ends the start.",
         "Use one of the methods named.", "error", "vllm/config/speculative.py of 0.8.5 to 0.33",
         Example(_NGRAM.replace("ngram", "lookahead")), Example(_NGRAM), _unknown),
    Rule("SPD122", "Method that this release does not have",
         "Methods come and go: draft models are missing from 0.10 to 0.14, medusa and mlp_speculator from 0.33 on.",
         "Use a release that has the method.", "error", "vllm/config/speculative.py of 0.8.5 to 0.33",
         Example(_DRAFT, "0.10.0", gpus=2), Example(_DRAFT, "0.28.0", gpus=2), _not_in_release),
    Rule("SPD123", "No draft named", "The method runs a model or head of its own, which has to be named.",
         "Name it in speculative-config.model.", "error", "vllm/config/speculative.py (0.32)",
         Example("model: Qwen/Qwen3-8B\nspeculative-config:\n  method: eagle3\n  num_speculative_tokens: 3\n"),
         Example(_NGRAM), _needs_model),
    Rule("SPD124", "Deprecated method name", "Names by model family still work, with a warning, and become mtp.",
         "Write method: mtp.", "info", "vllm/config/speculative.py of 0.12 to 0.33",
         Example("model: deepseek-ai/DeepSeek-V3\ntensor-parallel-size: 8\nspeculative-config:\n  method: "
                 "deepseek_mtp\n"
                 "  num_speculative_tokens: 1\n", gpu="H200", gpus=8),
         Example("model: deepseek-ai/DeepSeek-V3\ntensor-parallel-size: 8\nspeculative-config:\n  method: mtp\n"
                 "  num_speculative_tokens: 1\n", gpu="H200", gpus=8), _old_name, releases="0.11 and newer"),
    Rule("SPD125", "V1 engine forced on a release whose V1 does not speculate like this",
         "Before 0.8 the V1 engine has no speculation; in 0.8 and 0.9 it has ngram and EAGLE heads (0.9: medusa, MTP).",
         "Leave the engine to the release.", "error", "vllm/engine/arg_utils.py of 0.8.5 and 0.9; vllm issue 12901",
         Example("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
                 "ngram-prompt-lookup-max: 4\n", "0.7.3", "A100-80GB", env={"VLLM_USE_V1": "1"}),
         Example("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
                 "ngram-prompt-lookup-max: 4\n", "0.7.3", "A100-80GB"), _no_v1, releases="0.6 to 0.9"),
    Rule("SPD126", "V0 engine asked for where there is none",
         "From 0.10 on the V0 engine does not speculate; from 0.11 on it is gone.", "Unset VLLM_USE_V1.", "error",
         "vllm/platforms/cuda.py of 0.10 to 0.11", Example(_NGRAM, "0.10.2", env={"VLLM_USE_V1": "0"}),
         Example(_NGRAM, "0.10.2"), _forced_v0, releases="0.10 and newer"),
    Rule("SPD127", "Fallback to the old engine",
         "A method that the V1 engine of 0.8 and 0.9 lacks takes the whole server back to V0, without V1's speed.",
         "Use a method that the V1 engine has (ngram, an EAGLE head), or a release from 0.28 on.", "warn",
         "vllm/engine/arg_utils.py of 0.8.5 to 0.9.2; vllm issue 19775",
         Example("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nspeculative-config: '{\"model\": "
                 "\"Qwen/Qwen3-0.6B\", "
                 "\"num_speculative_tokens\": 3}'\n", "0.9.1", gpus=2),
         Example(_NGRAM, "0.9.1"), _old_engine, releases="0.8 and 0.9"),
    Rule("SPD128", "Long lookups on the young V1 engine",
         "The V1 engine of 0.8 and 0.9 drafts next to nothing where V0 did, with long windows and large k.",
         "Use a window of 2 to 4 tokens and k of 3 to 8.", "warn", "vllm issue 16883",
         Example(_NGRAM.replace("  prompt_lookup_max: 4\n", "  prompt_lookup_min: 10\n  prompt_lookup_max: 50\n"),
                 "0.8.4"),
         Example(_NGRAM, "0.8.4"), _early_v1, releases="0.8 and 0.9"),
)
