"""Sampling: parameters that are refused or ignored with speculation, the model's own defaults included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS
from profiles.yaml_lines import KeyPath

_EPSILON = 1e-5
_LARGE_BUFFER = 0.03
"""Share of a GPU's memory from which on cached logits of drafts are missed in the KV cache."""
_LOGIT_BYTES = {"v1": 4, "v2": 2}
_NEUTRAL = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_EAGLE3 = ("model: models/target\nmax-model-len: 8192\nmax-num-seqs: 16\nspeculative-config:\n  method: ngram\n"
           "  num_speculative_tokens: 3\n  prompt_lookup_max: 4\n  prompt_lookup_min: 2\n")


def _defaults(subject: Subject) -> dict[str, tuple[Any, KeyPath, str]]:
    """Sampling that applies when a request says nothing: value, where it stands, and what it is called."""
    found: dict[str, tuple[Any, KeyPath, str]] = {}
    loaded = subject.config.get("generation-config", "auto")
    if loaded == "auto" and subject.release.has("v1_by_default") and subject.target is not None:
        for name, value in subject.target.generation.items():
            found[name] = value, ("model",), "the model's generation_config.json"
    stated = subject.config.get("override-generation-config")
    if isinstance(stated, Mapping):
        for name, value in stated.items():
            found[name] = value, ("override-generation-config", name), "override-generation-config"
    return found


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _penalties(subject: Subject) -> list[tuple[str, float, KeyPath, str]]:
    found = []
    for name, (value, where, called) in _defaults(subject).items():
        number = _number(value)
        if name in _NEUTRAL and number is not None and number != _NEUTRAL[name]:
            found.append((name, number, where, called))
    return found


def _min_p_refused(subject: Subject) -> Iterable[Fault]:
    if subject.speculation is None or not subject.release.has("min_p_refused"):
        return
    defaults = _defaults(subject)
    value = _number(defaults["min_p"][0]) if "min_p" in defaults else None
    if value is not None and value > _EPSILON:
        _, where, called = defaults["min_p"]
        yield Fault(where, f"min_p is {value:g} by default ({called}): requests with min_p are refused with "
                           f"speculation "
                    "(HTTP 400), so every request that does not override it fails.")
    if defaults.get("logit_bias", (None,))[0]:
        yield Fault(defaults["logit_bias"][1], "logit_bias is set by default: such requests are refused with "
                                               "speculation "
                    "(HTTP 400).")


def _not_speculated(subject: Subject) -> Iterable[Fault]:
    if subject.speculation is None or not subject.release.has("sampling_gates_speculation"):
        return
    if subject.engine.runner == "v0":
        return
    for name, value, where, called in _penalties(subject):
        yield Fault(where, f"{name} is {value:g} by default ({called}): in vLLM {subject.release.version} requests "
                           f"with "
                    "penalties or logprobs run without speculation, and nothing says so.")
    defaults = _defaults(subject)
    min_p = _number(defaults["min_p"][0]) if "min_p" in defaults else None
    if min_p is not None and min_p > _EPSILON:
        yield Fault(defaults["min_p"][1], f"min_p is {min_p:g} by default: in vLLM {subject.release.version} requests "
                                          f"with "
                    "it run without speculation, and nothing says so.")
    if subject.workload is not None and subject.workload.logprobs:
        yield Fault(subject.speculation.path(), f"The workload asks for logprobs: in vLLM {subject.release.version} "
                                                f"such "
                    "requests run without speculation.")


def _not_applied(subject: Subject) -> Iterable[Fault]:
    if (subject.speculation is None or not subject.release.has("penalties_not_applied")
            or subject.engine.runner != "v1"):
        return
    for name, value, where, called in _penalties(subject):
        yield Fault(where, f"{name} is {value:g} by default ({called}): the V1 engine of vLLM "
                           f"{subject.release.version} "
                    "does not apply penalties to speculated tokens, without warning or error.")


def _logprobs_off(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or subject.engine.runner != "v0":
        return
    asked = subject.workload.logprobs if subject.workload is not None else None
    if asked is not None and not asked:
        return
    stated = speculation.settings.get("disable_logprobs")
    if stated is False or str(stated).lower() == "false":
        return
    yield Fault(speculation.path("disable_logprobs"), "The V0 engine returns no logprobs for speculated tokens unless "
                                                      "told "
                "to: disable_logprobs is on by default.",
                remedy="Set disable-logprobs-during-spec-decoding (speculative-config.disable_logprobs) to false.")


def _processors(subject: Subject) -> Iterable[Fault]:
    if (subject.speculation is not None and subject.release.has("logits_processors_refused")
            and subject.config.get("logits-processors") is not None):
        yield Fault(("logits-processors",), "Custom logits processors are refused with speculation: the server does "
                                            "not "
                    "start.")


def _greedy_drafts(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.method not in METHODS or METHODS[speculation.method].drafter in ("lookup",
                                                                                                           "none"):
        return
    if subject.engine.runner == "v0" or speculation.settings.get("draft_sample_method") == "probabilistic":
        return
    if speculation.settings.get("use_heterogeneous_vocab") is True:
        # Drafts of another vocabulary are greedy ones only.
        return
    temperature, stated = _temperature(subject)
    if temperature <= 0:
        return
    who = "Requests sample" if stated else "A request that states no temperature samples"
    default = "Greedy drafts are the engine's default and what `advise` prices"
    if subject.release.accepts("draft_sample_method"):
        size = _logits_gib(subject)
        cached = f"{size:.1f} GiB of cached logits" if size is not None and size >= 0.05 else "some memory for logits"
        remedy = (f"{default}; draft_sample_method: probabilistic may let more through, for {cached}: compare the two "
                  "before relying on it.")
    else:
        remedy = f"{default}; from vLLM 0.21 on draft_sample_method: probabilistic may let more through."
    yield Fault(speculation.path("draft_sample_method"), f"{who} at temperature {temperature:g}, and drafts are taken "
                "greedily: their probabilities are not used, which lowers acceptance.", remedy=remedy)


def _logits_gib(subject: Subject) -> float | None:
    """What the drafts' logits take of each GPU where they are kept from one step to the next; None where unknown."""
    speculation, engine, words = subject.speculation, subject.engine, traits.vocab_size(subject.target)
    if speculation is None or speculation.k is None or words is None or engine.runner not in _LOGIT_BYTES:
        return None
    return engine.max_num_seqs * speculation.k * words * _LOGIT_BYTES[engine.runner] / 2**30


def _logits_buffer(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or speculation.settings.get("draft_sample_method") != "probabilistic":
        return
    size, words = _logits_gib(subject), traits.vocab_size(subject.target)
    if subject.gpu is not None and size is not None and size >= _LARGE_BUFFER * subject.gpu.memory_gib:
        yield Fault(speculation.path("draft_sample_method"), f"Probabilistic drafts keep the logits of every draft: "
                    f"{engine.max_num_seqs} requests x {speculation.k} x {words} tokens of vocabulary are "
                    f"{size:.1f} GiB of "
                    "each GPU's memory, taken from the KV cache.")


def _temperature(subject: Subject) -> tuple[float, bool]:
    """The temperature of requests, and whether anything states it: vLLM's own default is 1."""
    if subject.workload is not None and subject.workload.temperature is not None:
        return float(subject.workload.temperature), True
    defaults = _defaults(subject)
    found = _number(defaults["temperature"][0]) if "temperature" in defaults else None
    return (found, True) if found is not None else (1.0, False)


def _cpu_sampling(subject: Subject) -> Iterable[Fault]:
    if (subject.speculation is None or subject.platform != "cpu"
            or not subject.release.has("cpu_sampled_speculation_wrong")):
        return
    temperature, stated = _temperature(subject)
    if temperature == 0:
        return
    yield Fault(subject.speculation.path(), "The CPU engine of this release reads memory that nothing filled when it "
                                            "samples "
                "with speculation (temperature above 0): texts become wrong.",
                severity="error" if stated else "info",
                remedy="Send temperature 0, or turn speculation off on the CPU engine.")


_QWEN = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
         "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
         "max_position_embeddings": 32768}


def _with(**generation: float) -> dict[str, dict[str, Any]]:
    return {"models/target": {"config": _QWEN, "generation": generation}}


_HEAD = _EAGLE3.replace("models/target", "Qwen/Qwen3-8B").replace(
    "  method: ngram\n  num_speculative_tokens: 3\n  prompt_lookup_max: 4\n  prompt_lookup_min: 2\n",
    "  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_OLD = ("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
        "ngram-prompt-lookup-max: 4\n")
RULES = (
    Rule("SPD501", "Default sampling that is refused with speculation",
         "min_p and logit_bias are refused at the request; generation_config.json counts as if every request had sent "
         "it.",
         "Set generation-config: vllm, or override min_p with 0 in override-generation-config.", "error",
         "vllm/sampling_params.py (0.32); vllm issue 42744", Example(_EAGLE3, models=_with(min_p=0.05)),
         Example(_EAGLE3 + "generation-config: vllm\n", models=_with(min_p=0.05)), _min_p_refused,
         releases="0.14 and newer"),
    Rule("SPD502", "Requests that are silently not speculated",
         "From 0.9.2 to 0.13, penalties, min_p and logprobs switch speculation off for the request.",
         "Set generation-config: vllm, or use vLLM 0.14 or newer.", "warn",
         "vllm/v1/spec_decode/utils.py of 0.9.2 to 0.13; vllm issue 34497",
         Example(_EAGLE3, "0.12.0", models=_with(repetition_penalty=1.05)),
         Example(_EAGLE3, models=_with(repetition_penalty=1.05)), _not_speculated, releases="0.9.2 to 0.13"),
    Rule("SPD503", "Penalties that are not applied", "The first V1 engines drop penalties for speculated tokens.",
         "Use vLLM 0.14 or newer, or set generation-config: vllm.", "error", "vllm issue 18902",
         Example(_EAGLE3, "0.9.0", models=_with(repetition_penalty=1.05)),
         Example(_EAGLE3 + "generation-config: vllm\n", "0.9.0", models=_with(repetition_penalty=1.05)), _not_applied,
         releases="0.8 to 0.9.1"),
    Rule("SPD504", "Logprobs turned off", "The V0 engine turns logprobs off while it speculates, to save time.",
         "Turn them on.", "info", "documentation of 0.6 to 0.9; vllm issue 17876",
         Example(_OLD, "0.7.3", "A100-80GB", workload={"logprobs": 1}),
         Example(_OLD + "disable-logprobs-during-spec-decoding: 'false'\n", "0.7.3", "A100-80GB",
                 workload={"logprobs": 1}),
         _logprobs_off, releases="before 0.10"),
    Rule("SPD505", "Custom logits processors", "They cannot see the drafts of a step one by one.",
         "Remove one of the two.",
         "error", "vllm/v1/sample/logits_processor/__init__.py of 0.12 to 0.32",
         Example(_HEAD + "logits-processors: [mine:Processor]\n"), Example(_HEAD), _processors,
         releases="0.12 and newer"),
    Rule("SPD506", "Greedy drafts for sampled requests", "A greedy draft is accepted with the target's probability of "
                                                         "that one "
         "token; a sampled one, more often.", "Nothing has to be done: `advise` prices greedy drafts, the engine's "
                                              "default. Compare probabilistic ones where sampling is hot.", "info",
         "vllm/config/speculative.py (0.32); "
                                                                                   "vllm "
         "pull 40149", Example(_HEAD, workload={"temperature": 0.8}), Example(_HEAD, workload={"temperature": 0}),
         _greedy_drafts, releases="0.10 and newer"),
    Rule("SPD507", "Sampled speculation on the CPU engine", "The sampler's kernel reads uninitialised memory.",
         "Send temperature 0.", "error", "vllm/utils/cpu_triton_utils.py (0.32)",
         Example(_EAGLE3, gpu="cpu", gpus=0, workload={"temperature": 0.8}, models=_with()),
         Example(_EAGLE3, gpu="cpu", gpus=0, workload={"temperature": 0}, models=_with()), _cpu_sampling,
         releases="0.32"),
    Rule("SPD508", "Probabilistic drafts of many requests", "The drafter's logits are cached from one step to the "
                                                            "next: "
         "max_num_seqs x k x vocabulary.", "Lower max-num-seqs or k, or take greedy drafts.", "warn",
         "vllm/v1/worker/gpu/spec_decode/speculator.py (0.32)",
         Example(_HEAD.replace("max-num-seqs: 16", "max-num-seqs: 1024") + "  draft_sample_method: probabilistic\n",
                 gpu="L4"),
         Example(_HEAD + "  draft_sample_method: probabilistic\n"), _logits_buffer, releases="0.21 and newer"),
)
