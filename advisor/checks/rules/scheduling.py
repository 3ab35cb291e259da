"""Asynchronous and multi-step scheduling beside speculation."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.catalog.releases import Release
from profiles.methods import METHODS

_NGRAM = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n  method: ngram\n"
          "  num_speculative_tokens: 3\n  prompt_lookup_max: 4\n  prompt_lookup_min: 2\n")
_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_OLD = ("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
        "ngram-prompt-lookup-max: 4\n")
_SPLIT = ("model: meta-llama/Llama-3.1-70B-Instruct\ntensor-parallel-size: 4\nmax-model-len: 8192\n"
          "gpu-memory-utilization: 0.85\nspeculative-model: meta-llama/Llama-3.2-1B-Instruct\n"
          "num-speculative-tokens: 3\n")


def _works_async(method: str, release: Release) -> bool:
    if method == "custom_class" or method not in METHODS:
        return False
    if METHODS[method].drafter == "model":
        return release.has("async_with_draft_model")
    if METHODS[method].passes == "single":
        return METHODS[method].async_scheduling and release.has("async_with_dflash")
    return METHODS[method].async_scheduling


def _refused(subject: Subject) -> Iterable[Fault]:
    speculation, engine, release = subject.speculation, subject.engine, subject.release
    if speculation is None or speculation.method is None:
        return
    if engine.async_scheduling is not True or engine.runner == "v0":
        return
    where = ("async-scheduling",)
    if not release.has("any_async_with_speculation"):
        yield Fault(where, f"Asynchronous scheduling and speculation exclude each other in vLLM {release.version}: the "
                    "server does not start.")
    elif not _works_async(speculation.method, release):
        yield Fault(where, f"Asynchronous scheduling is on explicitly, and vLLM {release.version} does not combine it "
                           f"with "
                    f"{speculation.method}: the server does not start.")
    elif speculation.settings.get("disable_padded_drafter_batch") is True:
        yield Fault(where, "Asynchronous scheduling needs padded drafter batches, and disable_padded_drafter_batch is "
                           "on: "
                    "the server does not start.")


def _turned_off(subject: Subject) -> Iterable[Fault]:
    speculation, engine, release = subject.speculation, subject.engine, subject.release
    if (speculation is None or engine.async_scheduling is not None or speculation.method not in METHODS
            or engine.runner == "v0" or subject.platform == "cpu" or not release.has("async_by_default")):
        return
    if not _works_async(speculation.method, release):
        yield Fault(speculation.path("method"), f"With {speculation.method}, vLLM turns asynchronous scheduling off: "
                                                f"part of "
                    "what speculation gains is lost again on the host.")


def _padded(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.settings.get("disable_padded_drafter_batch") is not True:
        return
    if not subject.release.accepts("disable_padded_drafter_batch"):
        return
    if speculation.method == "draft_model" or speculation.settings.get("parallel_drafting") is True:
        yield Fault(speculation.path("disable_padded_drafter_batch"), "disable_padded_drafter_batch does not go with "
                                                                      "draft "
                    "models or parallel drafting: the drafter cannot be set up.")


def _several_steps(subject: Subject) -> Iterable[Fault]:
    steps = subject.engine.whole("num-scheduler-steps")
    if subject.speculation is not None and subject.release.has("v0_engine") and steps is not None and steps > 1:
        yield Fault(("num-scheduler-steps",), f"num-scheduler-steps is {steps}: vLLM refuses multi-step scheduling "
                                              f"with "
                    "speculation.")


def _chunked_on_v0(subject: Subject) -> Iterable[Fault]:
    speculation, engine, release = subject.speculation, subject.engine, subject.release
    if speculation is None or engine.runner != "v0" or engine.switch("enable-chunked-prefill") is not True:
        return
    where = ("enable-chunked-prefill",)
    split = speculation.whole("draft_tensor_parallel_size") or engine.tensor_parallel
    if not release.has("v0_chunked_prefill_speculates"):
        yield Fault(where, f"Chunked prefill and speculation exclude each other in vLLM {release.version}: the "
                           "server does "
                    "not start.", remedy="Leave chunked prefill off.")
    elif speculation.method == "mtp":
        yield Fault(where, "Chunked prefill with MTP on the V0 engine: shapes differ as soon as several requests "
                           "run, and "
                    "the engine stops.")
    elif not speculation.is_lookup and split > 1:
        yield Fault(where, f"Chunked prefill with a draft split over {split} GPUs (tensor parallel): the V0 engine "
                           "refuses "
                    "the two together.", remedy="Leave chunked prefill off, or run the draft on one GPU "
                    "(draft_tensor_parallel_size 1).")


RULES = (
    Rule("SPD381", "Asynchronous scheduling that is refused",
         "Turned on explicitly, it has to be possible: with ngram, suffix, medusa and MLP speculators it is not.",
         "Remove async-scheduling, or use ngram_gpu or an EAGLE head.", "error", "vllm/config/vllm.py of 0.12 to 0.32",
         Example(_NGRAM + "async-scheduling: true\n"), Example(_NGRAM + "async-scheduling: false\n"), _refused,
         releases="0.10 and newer"),
    Rule("SPD382", "Asynchronous scheduling is turned off", "Left to vLLM, it is on by default, but not with this "
                                                            "method.",
         "Compare with ngram_gpu, which keeps it.", "info", "vllm/config/vllm.py of 0.14 to 0.32", Example(_NGRAM),
         Example(_EAGLE3), _turned_off, releases="0.14 and newer"),
    Rule("SPD383", "Unpadded drafter batches where they cannot be", "Draft models and parallel drafting need padded "
                                                                    "batches.",
         "Remove disable_padded_drafter_batch.", "error", "vllm/v1/spec_decode/llm_base_proposer.py of 0.15 to 0.32",
         Example("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nspeculative-config:\n  method: draft_model\n"
                 "  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n  disable_padded_drafter_batch: true\n",
                 gpus=2),
         Example(_EAGLE3 + "  disable_padded_drafter_batch: true\n"), _padded, releases="0.15 and newer"),
    Rule("SPD384", "Multi-step scheduling", "The V0 engine refuses the two together.", "Remove num-scheduler-steps.",
         "error",
         "vllm/engine/arg_utils.py of 0.8.5 to 0.10", Example(_OLD + "num-scheduler-steps: 8\n", "0.6.6", "A100-80GB"),
         Example(_OLD, "0.6.6", "A100-80GB"), _several_steps, releases="before 0.10"),
    Rule("SPD385", "Chunked prefill with a draft on the old engine",
         "Up to 0.6.3 the V0 engine refuses the two together, later where the draft runs on several GPUs.",
         "Leave chunked prefill off.", "error", "vllm pulls 9291, 10136 and 15153; vllm issue 10276",
         Example(_SPLIT + "enable-chunked-prefill: true\n", "0.6.6", "A100-80GB", 4),
         Example(_SPLIT, "0.6.6", "A100-80GB", 4), _chunked_on_v0, releases="before 0.10"),
)
