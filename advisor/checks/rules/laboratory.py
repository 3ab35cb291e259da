"""Switches that belong into experiments, and verification that is not exact."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject

_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")


def _synthetic(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None:
        return
    if speculation.settings.get("rejection_sample_method") == "synthetic":
        yield Fault(speculation.path("rejection_sample_method"), "Synthetic acceptance is on: drafts are accepted at "
                                                                 "an "
                    "imposed rate, so the texts are not the target's. It is for benchmarks only.")
        return
    for key in ("synthetic_acceptance_length", "synthetic_acceptance_rates", "synthetic_acceptance_rate"):
        if speculation.settings.get(key) is not None and subject.release.accepts(key):
            yield Fault(speculation.path(key), f"{key} is set without rejection_sample_method synthetic: vLLM refuses "
                                               f"that.",
                        remedy=f"Remove {key}.")


def _relaxed(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None:
        return
    for key, values in (("rejection_sample_method", ("fly",)), ("acceptance_method", ("typical_acceptance_sampler",))):
        value = speculation.settings.get(key)
        if value in values:
            yield Fault(speculation.path(key), f"{key} is {value}: verification is relaxed, and texts differ from the "
                        "target's own.")


def _dummy(subject: Subject) -> Iterable[Fault]:
    if subject.speculation is None:
        return
    if subject.config.get("load-format") == "dummy":
        yield Fault(("load-format",), "load-format is dummy: weights are random, so texts and acceptance mean nothing.")
    draft = subject.speculation.settings.get("draft_load_config")
    if isinstance(draft, dict) and draft.get("load_format") == "dummy":
        yield Fault(subject.speculation.path("draft_load_config"), "The draft is loaded with dummy weights: nothing it "
                                                                   "drafts "
                    "is accepted.")


def _export(subject: Subject) -> Iterable[Fault]:
    if subject.speculation is not None and subject.speculation.method == "extract_hidden_states":
        yield Fault(subject.speculation.path("method"), "extract_hidden_states writes hidden states out for training "
                                                        "heads: "
                    "it drafts nothing and speeds nothing up.")


RULES = (
    Rule("SPD621", "Synthetic acceptance left on", "The sampler ignores what the target thinks of a draft.",
         "Remove rejection_sample_method and synthetic_acceptance_*.", "error", "vllm/config/speculative.py of 0.19 to "
                                                                                "0.33",
         Example(_EAGLE3 + "  rejection_sample_method: synthetic\n  synthetic_acceptance_length: 2.5\n"),
         Example(_EAGLE3),
         _synthetic, releases="0.19 and newer"),
    Rule("SPD622", "Relaxed verification", "Some samplers accept drafts that the target would not have chosen.",
         "Use exact verification (the default), unless the loss was measured.", "warn",
         "documentation of 0.6 to 0.9 (typical acceptance) and 0.33 (fly)",
         Example("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
                 "ngram-prompt-lookup-max: 4\nspec-decoding-acceptance-method: typical_acceptance_sampler\n", "0.7.3",
                 "A100-80GB"), Example(_EAGLE3), _relaxed),
    Rule("SPD623", "Random weights", "Dummy loading is for start-up tests.", "Remove it.", "warn",
         "vllm/config/load.py (0.32)", Example(_EAGLE3 + "load-format: dummy\n"), Example(_EAGLE3), _dummy),
    Rule("SPD624", "Export instead of speculation", "The method collects data for training.",
         "Use another method to serve.", "warn", "vllm/config/speculative.py of 0.17 to 0.33",
         Example("model: Qwen/Qwen3-8B\nspeculative-config:\n  method: extract_hidden_states\n  "
                 "num_speculative_tokens: 1\n"),
         Example(_EAGLE3), _export, releases="0.17 and newer"),
)
