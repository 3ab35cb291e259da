"""Deployments, plans and a watching progress for the trial's engine tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from probes.trial.plan import TrialPlan, build_plan
from probes.trial.prompts import load_prompts
from profiles.deployment import Deployment

ROOT = Path(__file__).resolve().parents[2]

NGRAM = {"method": "ngram", "k": "1-3", "settings": {"prompt_lookup_max": 3, "prompt_lookup_min": 1}}


def draft_model(draft: Path, k: str = "1-3") -> dict[str, Any]:
    return {"method": "draft_model", "draft": str(draft), "k": k}


def deployment(target: Path, candidates: list[dict[str, Any]], *, temperature: float = 0.0, seats: int = 8,
               **trial: Any) -> Deployment:
    """Two requests at once of code, twelve tokens each: as short as a trial can be and still tell something."""
    return Deployment.model_validate({
        "target": str(target),
        "engine": {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 768, "max_num_seqs": seats},
        "hardware": {"gpu": "cpu", "memory_gib": 1},
        "candidates": candidates,
        "workload": {"concurrency": 2, "tasks": ["code"], "sampling": {"temperature": temperature}},
        "trial": {"budget_s": 3600, "max_tokens": 12, "loads": [2], **trial},
    })


def plan_of(stated: Deployment) -> TrialPlan:
    return build_plan(stated, stated.candidates, load_prompts(None, stated.workload.tasks), on_cpu=True)


class Watch:
    """Remembers stages and notes; `act(stage)` is called at every new stage."""

    def __init__(self, act: Callable[[str], None] = lambda stage: None) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.commands: set[str] = set()
        self._act = act

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        self.commands |= {" ".join(command) for command in worker_commands()}
        if not self.stages or self.stages[-1] != stage:
            self.stages.append(stage)
            self._act(stage)

    def note(self, text: str) -> None:
        self.notes.append(text)


def workers(of: int | None = None) -> list[psutil.Process]:
    """Engine children of this process (or of `of`) that are alive now."""
    found = []
    for child in psutil.Process(of or os.getpid()).children(recursive=True):
        try:
            if "probes.trial.worker" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def worker_commands() -> list[list[str]]:
    commands = []
    for worker in workers():
        try:
            commands.append([f"pid={worker.pid}", *worker.cmdline()])
        except psutil.NoSuchProcess:
            continue
    return commands


def maps_engine(pid: int) -> bool:
    """Whether the process has the engine's own libraries mapped: it ran vLLM itself."""
    return "site-packages/vllm/" in Path(f"/proc/{pid}/maps").read_text()
