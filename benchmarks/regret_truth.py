"""What each arm of the sweep gives on an undisturbed machine: the steps it took, each at what such a step takes.

How many steps a cell takes, and what each carries, is exact: it follows from the outputs. How long one takes is not:
neighbours on the same host stretch steps by half for seconds at a time, so that of two equal cells one may seem
40 % slower, and slow the machine for minutes. Each cell is therefore read in units of the plain steps that a resident
engine took just before and after it. And steps that carry the same take the same, in whichever cell and start they
are: the lower quartile of a step's time is fitted over every step of the arms that share their drafter, as a sum of
what the target's pass costs (fixed, per request, per drafted token, per prompt token) and what the drafter's passes
cost (per pass, per pass and request). A cell's throughput is its output tokens over its own steps at these prices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

QUANTILE = 0.25
"""Of a step's time given what it carries; a disturbance only ever lengthens a step."""
LOOKUPS = ("none", "ngram", "suffix")
"""Arms without a model of their own: one fit, each with a fixed price of its own, so that they share the target's."""


@dataclass(frozen=True)
class Truth:
    """`tokens_per_s[task/load][arm, k]`, and `doubt`: the median relative difference between a start's own lower
    quartile and the fit, which is what the figures are good to."""

    tokens_per_s: dict[str, dict[tuple[str, int], float]]
    doubt: float


def _features(arm: str, k: int, step: Sequence[Any], group: Sequence[str]) -> list[float]:
    _, running, _, prompt_tokens, _, drafts, *_ = step
    decoding = float(running)
    own = [float(arm == name) for name in group[1:]]
    passes = [float(k), k * decoding] if arm not in LOOKUPS else []
    return [1.0, decoding, float(drafts), float(prompt_tokens), float(prompt_tokens > 0), *own, *passes]


def _pace(data: dict[str, Any], usual_ms: float) -> float:
    """How slow the machine was around a cell, in units of the whole sweep's middle."""
    return float(np.quantile(data["reference_ms"], QUANTILE)) / usual_ms


def truth_of(rows: Sequence[dict[str, Any]]) -> Truth:
    """The throughput of every (arm, k) of one target's sweep in every cell. Rows as `regret_sweep.py` writes them."""
    from sklearn.linear_model import QuantileRegressor

    arms = list(dict.fromkeys(row["arm"] for row in rows))
    groups = [[a for a in arms if a in LOOKUPS], *([a] for a in arms if a not in LOOKUPS)]
    cells = [data for row in rows for data in row["cells"].values()]
    usual_ms = float(np.median([np.quantile(data["reference_ms"], QUANTILE) for data in cells]))
    found: dict[str, dict[tuple[str, int], float]] = {}
    doubts: list[float] = []
    for group in groups:
        mine = [row for row in rows if row["arm"] in group]
        x = [_features(r["arm"], r["k"], s, group) for r in mine for c in r["cells"].values() for s in c["steps"]]
        y = np.array([s[0] / _pace(c, usual_ms) for r in mine for c in r["cells"].values() for s in c["steps"]])
        fit = QuantileRegressor(quantile=QUANTILE, alpha=0.0, fit_intercept=False, solver="highs").fit(np.array(x), y)
        for row in mine:
            ratios: list[float] = []
            for cell, data in row["cells"].items():
                priced = fit.predict(np.array([_features(row["arm"], row["k"], s, group) for s in data["steps"]]))
                found.setdefault(cell, {})[row["arm"], row["k"]] = data["output_tokens"] / (priced.sum() / 1e3)
                ratios += [s[0] / _pace(data, usual_ms) / ms for s, ms in zip(data["steps"], priced, strict=True)]
            doubts.append(abs(math.log(float(np.quantile(ratios, QUANTILE)))))
    return Truth(found, float(np.median(doubts)))
