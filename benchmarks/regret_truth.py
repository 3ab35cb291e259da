"""What each arm of the sweep gives on an undisturbed machine: the steps it took, each at what such a step takes.

How many steps a cell takes, and what each carries, is exact: it follows from the outputs. How long one takes is not:
neighbours on the same host stretch steps by half for seconds at a time, so that of two equal cells one may seem
40 % slower, and slow the machine for minutes. Each step is therefore read in units of the plain steps that a resident
engine made just before and after it. And steps that carry the same take the same, in whichever cell and start they
are: the median of a step's time is fitted over every step of the arms that share their drafter, as a sum of what the
target's pass costs (fixed, per request, per drafted token, per prompt token) and what the drafter's passes cost (per
pass, per pass and request). A cell's throughput is that of a server kept at its load: its output tokens over the
steps that its requests take side by side, at these prices. (The cell itself ends with the slowest of its requests
alone, which no server kept at a load ever sees.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probes.trial.samples import beside

LOOKUPS = ("none", "ngram", "suffix")
"""Arms without a model of their own: one fit, as looking a draft up takes 0.2 ms of a step's 100 (a trial's timing)."""


@dataclass(frozen=True)
class Truth:
    """`tokens_per_s[task/load][arm, k]`, and `doubt`: the median relative difference between a start's own steps and
    the fit, which is what the figures are good to."""

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


def _paces(data: dict[str, Any], usual_ms: float) -> list[float]:
    """How slow the machine was around each step of a cell, in units of the whole sweep's."""
    return [ms / usual_ms for ms in beside(data["steps"]) if ms is not None]


def load_of(cell: str) -> int:
    """Of `task/load`."""
    return int(cell.partition("/")[2])


def truth_of(rows: Sequence[dict[str, Any]]) -> Truth:
    """The throughput of every (arm, k) of one target's sweep in every cell. Rows as `regret_sweep.py` writes them."""
    from sklearn.linear_model import QuantileRegressor

    arms = list(dict.fromkeys(row["arm"] for row in rows))
    groups = [[a for a in arms if a in LOOKUPS], *([a] for a in arms if a not in LOOKUPS)]
    plain: dict[int, list[float]] = {}
    for row in rows:
        for cell, data in row["cells"].items():
            plain.setdefault(load_of(cell), []).extend(ms for ms in beside(data["steps"]) if ms is not None)
    usual_ms = {load: float(np.mean(values)) for load, values in plain.items()}
    found: dict[str, dict[tuple[str, int], float]] = {}
    doubts: list[float] = []
    for group in groups:
        mine = [row for row in rows if row["arm"] in group]
        x = [_features(r["arm"], r["k"], s) for r in mine for c in r["cells"].values() for s in c["steps"]]
        y = np.array([s[0] / pace for r in mine for cell, c in r["cells"].items()
                      for s, pace in zip(c["steps"], _paces(c, usual_ms[load_of(cell)]), strict=True)])
        fit = QuantileRegressor(quantile=0.5, alpha=0.0, fit_intercept=False, solver="highs").fit(np.array(x), y)
        for row in mine:
            ratios: list[float] = []
            for cell, data in row["cells"].items():
                steps, load = data["steps"], load_of(cell)
                priced = fit.predict(np.array([_features(row["arm"], row["k"], s) for s in steps]))
                (ms,) = fit.predict(np.array([_kept_at(load, row["arm"], row["k"], steps)]))
                found.setdefault(cell, {})[row["arm"], row["k"]] = 1e3 * data["output_tokens"] / ms
                ratios += [s[0] / pace / one for s, pace, one
                           in zip(steps, _paces(data, usual_ms[load]), priced, strict=True)]
            doubts.append(abs(math.log(float(np.median(ratios)))))
    return Truth(found, float(np.median(doubts)))
