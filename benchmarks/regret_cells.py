"""The cells of the exhaustive sweep, fixed before any trial was timed: arms x k x loads x tasks, a start per (arm, k).

Both the sweep (`regret_sweep.py`) and the comparison with `advise` (`regret.py`) read them from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from probes.trial.prompts import Prompt, load_prompts
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.model_ref import ModelRef
from profiles.workload import Task

KS = (1, 2, 3, 4, 5)
LOADS = (1, 8)
TASKS = (Task.CODE, Task.CREATIVE)
PROMPTS = {1: 3, 8: 8}
"""Prompts a cell runs, by load; the three of load 1 are the first three of load 8."""
OUTPUT_TOKENS = 24
"""Exactly, end-of-text ignored, so that every arm writes the same number of tokens."""
TARGETS = ("target-r4-eps0.02", "target-r4-eps0.05")
DRAFTS = ("smollm2-135m", "draft-distilled")
MAX_NUM_SEQS = 16
MAX_MODEL_LEN = 2048


@dataclass(frozen=True)
class Start:
    """One engine start of the sweep."""

    arm: str
    candidate: Candidate
    k: int


def starts(models: Path) -> list[Start]:
    """Twenty-one starts a target: no speculation, and each arm at each k."""
    found = [Start("none", NO_SPECULATION, 0)]
    for draft in DRAFTS:
        reference = ModelRef(id=str(models / draft))
        found += [Start(draft, Candidate(method="draft_model", draft=reference, k=(k,)), k) for k in KS]
    for name in ("ngram", "suffix"):
        found += [Start(name, Candidate(method=name, k=(k,)), k) for k in KS]
    return found


def prompts(task: Task, load: int) -> list[Prompt]:
    """The cell's prompts: the first of the built-in set of its task."""
    return load_prompts(None, [task])[: PROMPTS[load]]


def engine_args(target: Path) -> dict[str, object]:
    return {"model": str(target), "dtype": "bfloat16", "enforce_eager": True, "max_num_seqs": MAX_NUM_SEQS,
            "max_model_len": MAX_MODEL_LEN}


ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
