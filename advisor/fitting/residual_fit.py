"""Fits how sure predictions are: the residual model's standard deviations and the conformal factors.

Works on errors of publications that the model under test had not seen. The standard deviations minimise a heavy-tailed
likelihood, publications weighing by the root of their rows; the conformal factors then make the 80 % intervals cover.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.cases.model import Model
from advisor.cases.pricing import price
from advisor.cases.residual import Z80, Local, judge, local
from advisor.cases.spread import USUAL_SD
from advisor.cases.table import Table

_SEARCHED = ("setup_sd", "local_sd", "noise_sd", "load_length", "k_length", "acceptance_weight",
             "copied_sd")
_DOUBTS = ("assumed", "consumer", "weight_only", "hybrid", "lookup", "rate", "small_target")
_CAUSES = tuple(USUAL_SD)
_ROUNDS = 3
_PULL = 0.35
"""Log standard deviation of a parameter around where it starts: a few publications must not set them alone."""
AIM = 0.8
"""Share of unseen rows that the 80 % intervals cover on the rows they are fitted on."""
KINDS = ("given", "not_given", "calibrated")


@dataclass(frozen=True)
class Unseen:
    """Cases of one publication with what was measured, to be predicted by a model that was fitted without it."""

    publication: str
    kind: str
    table: Table
    log_speedup: Any
    model: Model


@dataclass(frozen=True)
class _Prepared:
    unseen: Unseen
    priced: Any
    known: Local


def _prepare(unseen: Unseen) -> _Prepared:
    priced = price(unseen.table, unseen.model)
    return _Prepared(unseen, priced, local(unseen.table, priced, unseen.model))


def _scores(prepared: Sequence[_Prepared], residual: dict[str, Any]) -> list[tuple[str, str, Any, Any, Any]]:
    """(publication, kind, error, standard deviation on its side before scaling, mean of both sides) of each block.

    residual: the parameters under test.
    """
    found = []
    for item in prepared:
        model = replace(item.unseen.model, residual=residual)
        judged = judge(item.unseen.table, item.priced, model, scaled=False, known=item.known)
        error = item.unseen.log_speedup - judged.log_speedup
        found.append((item.unseen.publication, item.unseen.kind, error, judged.sided(error),
                      0.5 * (judged.below + judged.above)))
    return found


def _loss(prepared: Sequence[_Prepared], residual: dict[str, Any]) -> float:
    import numpy as np

    total = 0.0
    for _, _, error, sd, wide in _scores(prepared, residual):
        each = np.log(wide) + 2.5 * np.log1p((error / sd) ** 2 / 4.0)
        total += float(each.mean()) * len(error) ** 0.5
    return total


def fit_residual(blocks: Sequence[Unseen], start: dict[str, Any]) -> dict[str, Any]:
    """The residual model from unseen blocks, the correction left as it stands in `start`."""
    import math

    prepared = [_prepare(block) for block in blocks if len(block.table)]
    found = copy.deepcopy(start)

    def pulled(trial: dict[str, Any]) -> float:
        away = [math.log(trial[name] / start[name]) for name in _SEARCHED]
        for holder, names in (("doubt_sd", _DOUBTS), ("cause_sd", _CAUSES)):
            away += [math.log(trial[holder][name] / start[holder][name]) for name in names]
        return _loss(prepared, trial) + 0.5 * sum((v / _PULL) ** 2 for v in away)

    best = pulled(found)
    for turn in range(_ROUNDS):
        factor = 1.4 if turn == 0 else 1.2 if turn == 1 else 1.1
        for place, name in [("", n) for n in _SEARCHED] + [("doubt_sd", n) for n in _DOUBTS] + [
            ("cause_sd", n) for n in _CAUSES
        ]:
            for way in (factor, 1.0 / factor):
                trial = copy.deepcopy(found)
                holder = trial[place] if place else trial
                holder[name] *= way
                loss = pulled(trial)
                if loss < best - 1e-9:
                    best, found = loss, trial
                    break
    found["conformal"] = conformal_factors(_scores(prepared, found))
    return found


def conformal_factors(scores: Sequence[tuple[str, str, Any, Any, Any]]) -> dict[str, float]:
    """What the standard deviations are multiplied by so that 80 % of unseen rows lie inside, by kind of case."""
    import numpy as np

    factors = {}
    for kind in KINDS:
        parts = [np.abs(error) / sd for _, own, error, sd, _ in scores if own == kind]
        weights = [np.full(len(part), len(part) ** -0.5) for part in parts]
        if not parts:
            factors[kind] = 1.0
            continue
        values, weight = np.concatenate(parts), np.concatenate(weights)
        # Half way between every row alike and every publication alike.
        order = np.argsort(values)
        reached = np.cumsum(weight[order]) / weight.sum()
        by_publication = float(values[order][min(len(values) - 1, int(np.searchsorted(reached, AIM)))])
        by_row = float(np.quantile(values, AIM))
        factors[kind] = (by_publication * by_row) ** 0.5 / Z80
    return factors
