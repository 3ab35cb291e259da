"""A fleet's own trials as a correction of the published model: saved by `specadvise fit`, read by `predict`.

Each paired comparison of a trial is one speed-up with its acceptance measured. What the model misses them by is the
fleet's offset, common to all and by method; both are shrunk by how far setups differ anyway, so a few trials move
predictions a little and many move them fully.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.acceptance import distrusted
from advisor.cases.case import parse_case
from advisor.cases.model import Model, shipped_model
from advisor.cases.pricing import price
from advisor.cases.residual import judge
from advisor.cases.table import table_of
from advisor.intervals import paired_ratio
from profiles.errors import InputError
from profiles.evidence import ArmEvidence, Evidence, TrialEvidence
from profiles.json_text import json_problem, parse_json
from profiles.methods import method
from profiles.yaml_lines import read_text

SCHEMA = "specadvise-fit-1"
FEWEST = 3
"""Comparisons below which an offset would be one trial's luck."""
_MOST_OFFSET = 10.0
"""Logarithms of ratios: nothing is off by a factor of twenty thousand."""


@dataclass(frozen=True)
class OwnPoint:
    """One trial's paired comparison as a case, with its speed-up and that one's log standard deviation."""

    case: dict[str, Any]
    speedup: float
    log_sd: float
    label: str


def model_with(path: str | None) -> Model:
    """The shipped model, corrected by a saved refit where one is named.

    Raises:
        InputError: the file cannot be read or is no refit.
    """
    model = shipped_model()
    if path is None:
        return model
    expected = "what `specadvise fit -o` wrote"
    try:
        saved: Any = parse_json(read_text(Path(path), expected), path)
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({json_problem(error)}): expected {expected}") from None
    fleet = saved.get("fleet") if isinstance(saved, dict) and saved.get("schema") == SCHEMA else None
    known: dict[str, Any] = fleet if isinstance(fleet, dict) else {}
    methods = known.get("by_method")
    if not isinstance(methods, dict) or not all(map(_is_offset, (known.get("offset"), *methods.values()))):
        raise InputError(f"{path}: is no refit of this tool: expected what `specadvise fit -o` wrote")
    return replace(model, residual={**model.residual, "fleet": known})


def _is_offset(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_OFFSET


def points_of(evidence: Evidence) -> tuple[list[OwnPoint], str]:
    """The comparison of a trial as a point, or none and why."""
    trial = evidence.trial
    if trial is None:
        return [], f"is evidence of kind {evidence.kind}: only trials compare with and without speculation"
    if trial.device.strip().lower() == "cpu":
        return [], "is a trial on the CPU engine, whose times say nothing about a GPU"
    comparison = trial.comparison
    if comparison is None or not comparison.pairs:
        return [], "has no paired comparison"
    ratio, spread = paired_ratio(comparison)
    arm = next((arm for arm in trial.arms if arm.candidate.label == comparison.candidate.label), None)
    case = {
        "id": f"{trial.target} {comparison.candidate.label} k={comparison.k}",
        "gpu": trial.device, "target": trial.target, "engine": trial.engine, "engine_version": trial.engine_version,
        "method": comparison.candidate.method,
        "draft": comparison.candidate.draft.id if comparison.candidate.draft else None,
        "tensor_parallel": 1, "k": comparison.k, "concurrency": comparison.running,
        "temperature": trial.temperature, "task_family": _main_task(trial),
        "prompt_len": trial.prompts.mean_prompt_tokens, "output_len": trial.max_tokens, "metric": "output_throughput",
        "mean_acceptance_length": _length(arm, comparison.k) if arm and not distrusted(trial, arm.candidate) else None,
    }
    return [OwnPoint(case, ratio, spread, str(case["id"]))], ""


def _main_task(trial: TrialEvidence) -> str | None:
    counts = trial.prompts.by_task
    return max(counts, key=lambda task: counts[task]).value if counts else None


def _length(arm: ArmEvidence, k: int) -> float | None:
    """Tokens per step over all steps of the arm's requests run at this k."""
    own = [r for r in arm.requests if (r.k or len(r.drafted)) == k and r.steps > 0]
    steps = sum(r.steps for r in own)
    if not steps:
        return None
    return 1.0 + sum(sum(r.accepted[:k]) for r in own) / steps


def refit(points: Sequence[OwnPoint], model: Model) -> dict[str, Any]:
    """The fleet's offsets from its comparisons.

    Raises:
        InputError: there are too few comparisons, or too few that can be priced.
    """
    rows, kept = [], []
    for point in points:
        case = parse_case(point.case)
        rows.append(case)
        kept.append(point)
    table, refused = table_of(rows)
    kept = [point for i, point in enumerate(kept) if i not in refused]
    if len(kept) < FEWEST:
        raise InputError(
            f"{len(kept)} paired comparisons on known GPUs: expected at least {FEWEST} before a correction says more "
            "than one trial's luck; run `specadvise trial --save` on more deployments of the fleet"
        )
    judged = judge(table, price(table, model), model, scaled=False)
    errors = [math.log(point.speedup) - float(middle) for point, middle in zip(kept, judged.log_speedup, strict=True)]
    setup = float(model.residual["setup_sd"]) ** 2
    noise = [float(model.residual["local_sd"]) ** 2 + point.log_sd**2 for point in kept]
    offset = _shrunk(errors, [setup / 2 + v for v in noise], setup / 2)
    by_method: dict[str, float] = {}
    for name in sorted({method(str(point.case["method"])).name for point in kept}):
        own = [i for i, point in enumerate(kept) if method(str(point.case["method"])).name == name]
        by_method[name] = _shrunk([errors[i] - offset for i in own], [noise[i] for i in own], setup / 2)
    return {
        "schema": SCHEMA,
        "fleet": {"offset": offset, "by_method": by_method},
        "comparisons": [
            {"label": point.label, "measured": point.speedup, "predicted": math.exp(float(middle))}
            for point, middle in zip(kept, judged.log_speedup, strict=True)
        ],
    }


def _shrunk(errors: Sequence[float], variances: Sequence[float], prior: float) -> float:
    """Mean of errors under a zero-mean prior of this variance."""
    precision = sum(1.0 / v for v in variances)
    return sum(e / v for e, v in zip(errors, variances, strict=True)) / (precision + 1.0 / prior)
