"""Adaptive verification: the engine decides how many drafts of each request to verify."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject

_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_ON = "  enable_adaptive_verification: true\n"
_MANY = 128


def _is_on(subject: Subject) -> bool:
    return (subject.speculation is not None and subject.release.accepts("enable_adaptive_verification")
            and subject.speculation.settings.get("enable_adaptive_verification") is True)


def _refused(subject: Subject) -> Iterable[Fault]:
    engine, speculation = subject.engine, subject.speculation
    if speculation is None or not _is_on(subject):
        return
    where = speculation.path("enable_adaptive_verification")
    if engine.switch("enable-lora") is True:
        yield Fault(where, "Adaptive verification does not go with LoRA: the server does not start.")
    if engine.pipeline_parallel > 1:
        yield Fault(where, "Adaptive verification does not go with pipeline stages: the server does not start.")
    if engine.eager or engine.graph_mode in ("NONE", "PIECEWISE"):
        yield Fault(where, "Adaptive verification needs full CUDA graphs: the server does not start.")
    if speculation.settings.get("use_local_argmax_reduction") is True:
        yield Fault(where, "Adaptive verification does not go with use_local_argmax_reduction: the server does not "
                           "start.")
    if speculation.is_lookup:
        yield Fault(where, f"Adaptive verification needs a drafter with probabilities, and {speculation.method} has "
                           f"none.")


def _young(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _is_on(subject):
        return
    where = speculation.path("enable_adaptive_verification")
    if subject.release.has("adaptive_young") and subject.engine.max_num_seqs >= _MANY:
        yield Fault(where, f"Adaptive verification at up to {subject.engine.max_num_seqs} requests: in vLLM "
                    f"{subject.release.version} acceptance was reported to collapse under load, and the server to hang "
                    f"while "
                    "draining.", severity="warn")
    else:
        yield Fault(where, "Adaptive verification is experimental, and documented for dspark before other methods.")


RULES = (
    Rule("SPD661", "Adaptive verification where it cannot be",
         "It needs the V2 runner, full graphs, one pipeline stage, no adapters and drafts with probabilities.",
         "Remove enable_adaptive_verification, or what excludes it.", "error", "vllm/config/vllm.py of 0.28 to 0.32",
         Example(_EAGLE3 + _ON + "enforce-eager: true\n"), Example(_EAGLE3 + _ON), _refused, releases="0.28 and newer"),
    Rule("SPD662", "Adaptive verification is young", "It came with 0.28 for dspark; other methods followed.",
         "Remove enable_adaptive_verification, or test it at full load first.", "info", "vllm issue 54011",
         Example(_EAGLE3.replace("max-num-seqs: 32", "max-num-seqs: 256") + _ON, "0.28.0"), Example(_EAGLE3, "0.28.0"),
         _young,
         releases="0.28 and newer"),
)
