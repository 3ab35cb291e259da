"""The figures of docs/accuracy.md: errors, gain or loss, regret, intervals, and the simple predictors beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiles.catalog.measurements import Measurement

WORTH = 1.03
"""A gain below this is not missed."""


@dataclass(frozen=True)
class Scored:
    """A measurement with a prediction: speed-up, interval and decision."""

    row: Measurement
    speedup: float
    low: float
    high: float
    enable: bool
    limited_by: str

    @property
    def true(self) -> float:
        return self.row.speedup or 1.0

    @property
    def error(self) -> float:
        """ln(predicted / measured)."""
        return math.log(self.speedup / self.true)


def percent(log_error: float) -> float:
    return 100.0 * math.expm1(log_error)


def regret(enable: bool, true: float) -> float:
    """Share of the possible speed lost by a decision."""
    if enable:
        return max(0.0, 1.0 - true)
    return (true - 1.0) / true if true > WORTH else 0.0


def summary(found: Sequence[Scored]) -> dict[str, float]:
    """Errors and intervals of sized rows; decisions of all."""
    sized = [s for s in found if not s.row.sign_only]
    errors = [abs(s.error) for s in sized]
    wins, losses = ([s for s in found if s.true > 1], [s for s in found if s.true < 1])
    recall = [float(np.mean([s.speedup > 1 for s in wins]))] if wins else []
    loss_recall = float(np.mean([s.speedup < 1 for s in losses])) if losses else math.nan
    recall += [loss_recall] if losses else []
    return {
        "n": float(len(found)),
        "median": percent(float(np.median(errors))) if errors else math.nan,
        "p90": percent(float(np.quantile(errors, 0.9))) if errors else math.nan,
        "bias": percent(float(np.mean([s.error for s in sized]))) if sized else math.nan,
        "balanced": 100.0 * float(np.mean(recall)) if recall else math.nan,
        "loss_recall": 100.0 * loss_recall,
        "regret": 100.0 * float(np.mean([regret(s.enable, s.true) for s in found])) if found else math.nan,
        "always_on": 100.0 * float(np.mean([regret(True, s.true) for s in found])) if found else math.nan,
        "covered": 100.0 * float(np.mean([s.low <= s.true <= s.high for s in sized])) if sized else math.nan,
        "width": float(np.mean([s.high - s.low for s in sized])) if sized else math.nan,
    }


def top_choice_regret(chosen_from: Sequence[Scored]) -> float:
    """Speed lost by taking the method, draft and k predicted best, per cent; off is an option worth 1."""
    settings: dict[tuple[Any, ...], list[Scored]] = {}
    for s in chosen_from:
        r = s.row
        if not r.sign_only:
            key = (r.source_group, r.gpu, r.n_gpus, r.tensor_parallel, r.target, r.quantization, r.engine,
                   r.engine_version, r.task, r.load_kind, r.load_value, r.temperature, r.prompt_len, r.output_len,
                   r.metric, r.locator if r.id.startswith("p-") else None)
            settings.setdefault(key, []).append(s)
    lost = []
    for options in settings.values():
        if len({(s.row.method, s.row.draft, s.row.k) for s in options}) < 2:
            continue
        best = max(1.0, *(s.true for s in options))
        found = [(1.0, 1.0), *((s.speedup, s.true) for s in options)]
        most = max(predicted for predicted, _ in found)
        # Options that are predicted alike are drawn from: the luckiest of them was not chosen.
        lost.append(1.0 - float(np.mean([true for predicted, true in found if predicted >= most - 1e-9])) / best)
    return 100.0 * float(np.mean(lost)) if lost else math.nan


def bootstrap(found: Sequence[Scored], name: str, draws: int = 400) -> tuple[float, float]:
    """80 % interval of a figure over publications drawn with replacement."""
    by: dict[str, list[Scored]] = {}
    for s in found:
        by.setdefault(s.row.source_group, []).append(s)
    names, random = list(by), np.random.default_rng(0)
    values = []
    for _ in range(draws):
        drawn = [s for i in random.integers(0, len(names), len(names)) for s in by[names[i]]]
        value = summary(drawn)[name]
        if math.isfinite(value):
            values.append(value)
    low, high = np.quantile(values, [0.1, 0.9])
    return float(low), float(high)
