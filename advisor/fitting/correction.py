"""Whether a learned correction of the physics pays: candidates compared on publications they have not seen.

The simplest candidate within a point of the best median error is taken; simplest is none at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from advisor.cases.model import Model
from advisor.cases.pricing import price
from advisor.cases.residual import features
from advisor.cases.table import Table
from advisor.fitting.crossval import Folds, unseen_blocks

WITHIN = 1.0
"""Points of median error that a simpler model may be worse by."""
MOST = 0.25
"""A correction larger than this (log) is no correction."""
NONE: dict[str, Any] = {"kind": "none"}


def _candidates() -> dict[str, Callable[[], Any] | None]:
    """By name, simplest first."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.kernel_ridge import KernelRidge

    return {
        "none": None,
        "ridge": _ridge,
        "kernel": lambda: KernelRidge(alpha=10.0, kernel="rbf", gamma=0.03),
        "boosting": lambda: GradientBoostingRegressor(
            n_estimators=60, max_depth=2, learning_rate=0.05, min_samples_leaf=15, random_state=0
        ),
    }


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=100.0)


def _matrix(table: Table, model: Model) -> tuple[Any, Any, list[str]]:
    import numpy as np

    priced = price(table, model)
    columns = features(table, priced)
    return np.stack(list(columns.values()), axis=1), priced.log_speedup, list(columns)


def _training(folds: Folds, model: Model) -> tuple[Any, Any, Any]:
    """Features, residuals and weights of the training rows; a publication weighs by the root of its rows."""
    import numpy as np

    x, modelled, _ = _matrix(folds.speedups.table, model)
    residual = np.clip(np.log([row.speedup or 1.0 for row in folds.speedups.of]) - modelled, -0.5, 0.5)
    labels = [row.source_group for row in folds.speedups.of]
    weight = np.array([labels.count(label) ** -0.5 for label in labels])
    stated = ~np.isnan(folds.speedups.table.of["acceptance"])
    return x, residual, weight * np.where(stated, 1.0, 0.3) * np.array([not row.sign_only for row in folds.speedups.of])


def choose_correction(folds: Folds, held_out: Mapping[str, Model]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the chosen correction as prediction reads it, errors of every candidate)."""
    import numpy as np

    errors: dict[str, list[Any]] = {}
    for name, model in held_out.items():
        x, residual, weight = _training(folds.without(name), model)
        mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
        blocks = [block for block in unseen_blocks(folds.scored, name, model) if block.kind == "given"]
        for candidate, build in _candidates().items():
            fitted = build() if build else None
            if fitted is not None:
                fitted.fit(np.clip((x - mean) / scale, -2.5, 2.5), residual, sample_weight=weight)
            for block in blocks:
                own, modelled, _ = _matrix(block.table, model)
                shift = 0.0 if fitted is None else np.clip(
                    fitted.predict(np.clip((own - mean) / scale, -2.5, 2.5)), -MOST, MOST)
                errors.setdefault(candidate, []).append(np.abs(block.log_speedup - modelled - shift))
    compared = {}
    for candidate, parts in errors.items():
        every = np.concatenate(parts)
        compared[candidate] = {
            "median": float(100.0 * np.expm1(np.median(every))), "p90": float(100.0 * np.expm1(np.quantile(every, 0.9)))
        }
    best = min(entry["median"] for entry in compared.values())
    chosen = next(name for name, entry in compared.items() if entry["median"] <= best + WITHIN)
    if chosen == "none":
        return NONE, {**compared, "chosen": "none"}
    # Anything but a linear correction would need its own code at run time: the linear one stands for them.
    return _linear(folds), {**compared, "chosen": "ridge"}


def _linear(folds: Folds) -> dict[str, Any]:
    """The linear correction fitted on all rows."""
    import numpy as np

    from advisor.fitting.train import train

    model = train(folds.acceptance, folds.speedups)
    x, residual, weight = _training(folds, model)
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    fitted = _ridge()
    fitted.fit(np.clip((x - mean) / scale, -2.5, 2.5), residual, sample_weight=weight)
    names = _matrix(folds.speedups.table, model)[2]
    return {
        "kind": "linear", "intercept": float(fitted.intercept_), "most": MOST,
        "weights": {name: float(w) for name, w in zip(names, fitted.coef_, strict=True)},
        "scaling": {name: [float(m), float(s)] for name, m, s in zip(names, mean, scale, strict=True)},
    }
