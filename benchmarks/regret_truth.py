"""What each arm of the sweep gives on an undisturbed machine: the steps it took, each at what such a step takes.

How many steps a cell takes, and what each carries, is exact: it follows from the outputs. How long one takes is not:
neighbours on the same host stretch steps by half for seconds at a time, so that of two equal cells one may seem
40 % slower, and slow the machine for minutes. Each cell is therefore read in units of the plain steps that a resident
engine took just before and after it. And steps that carry the same take the same, in whichever cell and start they
are: the lower quartile of a step's time is fitted over every step of the arms that share their drafter, as a sum of
what the target's pass costs (fixed, per request, per drafted token, per prompt token) and what the drafter's passes
cost (per pass, per pass and request). A cell's throughput is that of a server kept at its load: its output tokens over
the steps that its requests take side by side, at these prices. (The cell itself ends with the slowest of its requests
alone, which no server kept at a load ever sees.)
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
"""Arms without a model of their own: one fit, as looking a draft up takes 0.2 ms of a step's 100 (a trial's timing)."""


@dataclass(frozen=True)
class Truth:
    """`tokens_per_s[task/load][arm, k]`, and `doubt`: the median relative difference between a start's own lower
    quartile and the fit, which is what the figures are good to."""

    tokens_per_s: dict[str, dict[tuple[str, int], float]]
    doubt: float


def _features(arm: str, k: int, step: Sequence[Any]) -> list[float]:
    """What a step carries; sums over steps are the features of all of them."""
    _, running, _, prompt_tokens, _, drafts, *_ = step
    passes = [float(k), k * float(running)] if arm not in LOOKUPS else []
    return [1.0, float(running), float(drafts), float(prompt_tokens), float(prompt_tokens > 0), *passes]


def _kept_at(load: int, arm: str, k: int, steps: Sequence[Sequence[Any]]) -> list[float]:
    """Features of the same work done by a server that always runs `load` requests."""
    decoded = sum(running - prefilling for _, running, prefilling, *_ in steps)
    count = decoded / load
    whole = _features(arm, k, [0.0, load, 0, 0, 0, 0])
    found = [count * value for value in whole]
    found[2] = float(sum(step[5] for step in steps))
    found[3] = float(sum(step[3] for step in steps))
    found[4] = float(sum(1 for step in steps if step[3]))
    return found


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
        x = [_features(r["arm"], r["k"], s) for r in mine for c in r["cells"].values() for s in c["steps"]]
        y = np.array([s[0] / _pace(c, usual_ms) for r in mine for c in r["cells"].values() for s in c["steps"]])
        fit = QuantileRegressor(quantile=QUANTILE, alpha=0.0, fit_intercept=False, solver="highs").fit(np.array(x), y)
        for row in mine:
            ratios: list[float] = []
            for cell, data in row["cells"].items():
                steps, load = data["steps"], int(cell.partition("/")[2])
                priced = fit.predict(np.array([_features(row["arm"], row["k"], s) for s in steps]))
                (ms,) = fit.predict(np.array([_kept_at(load, row["arm"], row["k"], steps)]))
                found.setdefault(cell, {})[row["arm"], row["k"]] = 1e3 * data["output_tokens"] / ms
                ratios += [s[0] / _pace(data, usual_ms) / one for s, one in zip(steps, priced, strict=True)]
            doubts.append(abs(math.log(float(np.quantile(ratios, QUANTILE)))))
    return Truth(found, float(np.median(doubts)))
