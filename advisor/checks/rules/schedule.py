"""Dynamic speculation: a schedule of k by batch size, valid, honoured and steady."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.speculation import SCHEDULE
from advisor.checks.subject import Subject
from advisor.release_rules import honours_schedule
from profiles.methods import METHODS
from profiles.schema import shown

_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 64\nmax-num-batched-tokens: 8192\n"
           "speculative-config:\n  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n"
           "  num_speculative_tokens_per_batch_size: ")
_GOOD = "[[1, 16, 3], [17, 64, 1]]\n"


def _stated(subject: Subject) -> bool:
    return (subject.speculation is not None and subject.speculation.schedule_stated
            and subject.release.accepts(SCHEDULE))


def _invalid(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _stated(subject):
        return
    where, bands = speculation.path(SCHEDULE), speculation.schedule
    if bands is None:
        yield Fault(where, f"The schedule is {shown(speculation.settings[SCHEDULE])}: vLLM takes a list of "
                    "[start, end, k], three whole numbers each.")
        return
    if any(start < 1 or start > end or k < 0 for start, end, k in bands):
        yield Fault(where, "A band of the schedule has its start below 1 or above its end, or a negative k: the engine "
                    "stops when the scheduler is built.")
    elif bands[0][0] != 1:
        yield Fault(where, f"The schedule starts at {bands[0][0]} requests: its first start has to be 1, and the "
                           f"engine "
                    "stops when the scheduler is built.")
    elif any(after[0] <= before[1] for before, after in itertools.pairwise(bands)):
        yield Fault(where, "Bands of the schedule overlap: the engine stops when the scheduler is built.")


def _unsteady(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    bands = speculation.schedule if speculation is not None and _stated(subject) else None
    if speculation is None or not bands or bands[0][0] != 1:
        return
    where, seqs = speculation.path(SCHEDULE), subject.engine.max_num_seqs
    if bands[-1][1] < seqs and subject.engine.stated_seqs is not None:
        start, end, last = bands[-1]
        yield Fault(where, f"The schedule ends at {end} requests and max_num_seqs is {seqs}: beyond its end the last k "
                    f"({last}) goes on.",
                    remedy=f"Say what holds for {end + 1} to {seqs}: end the last band there "
                           f"([{start}, {seqs}, {last}]), or add one ([{end + 1}, {seqs}, 0] drafts nothing).")
    k, most = speculation.k, max(band[2] for band in bands)
    if k is not None and most > k:
        yield Fault(where, f"The schedule asks for k={most}, and num_speculative_tokens is {k}: vLLM cuts it to that.",
                    remedy=f"Raise num_speculative_tokens to {most}, or ask for no more than {k} in any band.")
    load = subject.workload.concurrency if subject.workload is not None else None
    for before, after in itertools.pairwise(bands):
        if load is not None and before[2] != after[2] and 0.8 * after[0] <= load <= 1.2 * after[0]:
            yield Fault(where, f"The schedule changes k at {after[0]} requests, about the usual load ({load}): k flips "
                        "from step to step.",
                        remedy=f"Move that threshold a fifth of the load or more away from {load}, to one side.")


def _not_honoured(subject: Subject) -> Iterable[Fault]:
    speculation, engine, release = subject.speculation, subject.engine, subject.release
    if speculation is None or not _stated(subject) or speculation.method not in METHODS:
        return
    method, where = METHODS[speculation.method], speculation.path(SCHEDULE)
    if speculation.method in ("suffix", "medusa") or (speculation.method == "ngram_gpu" and engine.runner == "v1"):
        yield Fault(where, f"{speculation.method} does not take a schedule: it asserts that k never changes, and the "
                           f"first "
                    "step with another k stops the engine.", severity="error")
    elif engine.runner == "v2" and not release.has("v2_schedule_honoured"):
        yield Fault(where, f"Model runner V2 of vLLM {release.version} does not read the schedule's k while drafting: "
                           f"the "
                    "drafter runs all k steps in every step, whatever the schedule (per_batch_size) says.")
    elif engine.runner == "v2" and not honours_schedule(method, release, "v2"):
        yield Fault(where, f"On model runner V2, {method.title} ignores the schedule: it still drafts all k tokens, "
                           f"and the "
                    "surplus is thrown away.", remedy="Use the V1 runner (VLLM_USE_V2_MODEL_RUNNER=0), an EAGLE head, "
                                                      "or "
                    "a static k.")


def _loses_graphs(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or not _stated(subject) or engine.runner != "v1" or engine.eager:
        return
    if engine.graph_mode in ("NONE", "PIECEWISE"):
        return
    asked = engine.graph_mode is not None
    yield Fault(speculation.path(SCHEDULE), "With a schedule the V1 runner turns full CUDA graphs off (PIECEWISE)"
                + (f", although cudagraph_mode is {engine.graph_mode}; an assertion during capture was reported too."
                   if asked else ": each step pays more launches, and throughput was reported to collapse where the "
                                 "batch "
                   "crosses a threshold."), thumb=not asked)


RULES = (
    Rule("SPD361", "Schedule that is not valid",
         "Config validation does not look at it: the engine stops later, when the scheduler is built.",
         "Write [[1, end, k], [end + 1, ..., k], ...].", "error", "vllm/v1/spec_decode/dynamic/utils.py (0.32)",
         Example(_EAGLE3 + "[[4, 16, 3], [17, 64, 1]]\n"), Example(_EAGLE3 + _GOOD), _invalid,
         releases="0.24 and newer"),
    Rule("SPD362", "Schedule that does not do what it says",
         "Beyond the last band its k goes on; a k above num_speculative_tokens is cut; a threshold at the usual load "
         "flips k.",
         "End the schedule at max_num_seqs, and keep its thresholds away from the usual load.", "warn",
         "vllm/v1/spec_decode/dynamic/utils.py (0.32)",
         Example(_EAGLE3 + "[[1, 16, 3], [17, 32, 1]]\n"), Example(_EAGLE3 + _GOOD), _unsteady,
         releases="0.24 and newer"),
    Rule("SPD363", "Schedule that the runner or method does not honour",
         "On V2 only drafters that run token by token on the target's states stop early, and only from 0.32 on.",
         "Use a static k.", "warn", "vllm issue 51510; vllm/v1/worker/gpu (0.32)",
         Example(_EAGLE3.replace("method: eagle3", "method: draft_model").replace(
             "AngelSlim/Qwen3-8B_eagle3", "Qwen/Qwen3-0.6B") + _GOOD), Example(_EAGLE3 + _GOOD), _not_honoured,
         releases="0.24 and newer"),
    Rule("SPD364", "Schedule that costs the full graphs", "V1 downgrades to PIECEWISE with a schedule; V2 keeps full "
                                                          "graphs.",
         "Use a static k, set cudagraph_mode PIECEWISE on purpose, or use the V2 runner of 0.32.", "warn",
         "vllm/config/vllm.py of 0.24 to 0.32; vllm issues 48494 and 49548",
         Example(_EAGLE3 + _GOOD + "compilation-config:\n  cudagraph_mode: FULL_AND_PIECEWISE\n",
                 env={"VLLM_USE_V2_MODEL_RUNNER": "0"}),
         Example(_EAGLE3 + _GOOD), _loses_graphs, releases="0.24 and newer"),
)
