"""Sleep mode: what a drafter keeps of its weights when the server sleeps and wakes."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject

_EAGLE3 = ("model: meta-llama/Llama-3.1-8B-Instruct\nmax-model-len: 16384\nmax-num-seqs: 16\n{}speculative-config:\n"
           "  method: eagle3\n  model: yuhuili/EAGLE3-LLaMA3.1-Instruct-8B\n  num_speculative_tokens: 3\n")


def _draft_forgotten(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or speculation.is_lookup or engine.switch("enable-sleep-mode") is not True:
        return
    where = ("enable-sleep-mode",)
    if engine.runner == "v0":
        yield Fault(where, "Sleep mode on the V0 engine reaches the target only: the drafter keeps its memory "
                           "while the "
                    "server sleeps.")
    else:
        yield Fault(where, f"Sleep mode with {speculation.method}: waking from level 2 loads the target's weights "
                           "again "
                    "and not the drafter's, so no draft is accepted any more, or the next step faults.")


RULES = (
    Rule("SPD701", "Sleep mode with a drafter",
         "Level 2 sleep gives up all weights; `reload_weights` then loads the target alone, and texts stay right while "
         "speculation only costs.",
         "Sleep at level 1 only, load the drafter's weights after waking too, or use a lookup method.", "warn",
         "vllm issues 52479, 55013 and 20209 (open); vllm/v1/worker/gpu_model_runner.py (0.32, reload_weights)",
         Example(_EAGLE3.format("enable-sleep-mode: true\n")), Example(_EAGLE3.format("")), _draft_forgotten,
         releases="all that have sleep mode"),
)
