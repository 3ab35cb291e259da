"""What the physics leaves: how sure a prediction is, and what local measurements of the setup say about it.

A setup's error in logarithms is a part common to all its loads and k, a part that is alike only nearby, and noise.
Local measurements are conditioned on (Gaussian), so an offset seen at one load fades with the distance from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.cases.case import LocalPoint
from advisor.cases.model import Model
from advisor.cases.pricing import Priced, matched_share, rescaled_length
from advisor.cases.table import Table

Z80 = 1.2815515655446004


@dataclass(frozen=True)
class Judged:
    """Arrays over rows: the speed-up's logarithm, its standard deviation before and after conformal scaling."""

    log_speedup: Any
    log_sd: Any
    """Scaled so that +- 1.2816 of it covers 80 %."""
    calibrated: Any


def judge(table: Table, priced: Priced, model: Model, *, scaled: bool = True, errors: Any = None) -> Judged:
    """Corrected predictions with their spread.

    scaled: False leaves the conformal factors out (they are fitted on what this gives). errors: those of the local
    measurements where the caller has them already (`local_errors`).
    """
    import numpy as np

    r = model.residual
    middle = priced.log_speedup + correction(table, priced, r) + fleet_shift(table, r)
    prior = r["setup_sd"] ** 2 + r["local_sd"] ** 2 + r["noise_sd"] ** 2 + doubt(table, r)
    variance = prior + (r["acceptance_weight"] * priced.acceptance_log_sd) ** 2
    calibrated = np.zeros(len(table), dtype=bool)
    if errors is None:
        errors = local_errors(table, priced, model)
    for i, offset, left in _conditioned(table, priced, model, errors):
        middle[i] += offset
        variance[i] = left
        calibrated[i] = True
    spread = np.sqrt(variance)
    if scaled:
        factors = r["conformal"]
        spread = spread * np.where(
            calibrated, factors["calibrated"], np.where(priced.given, factors["given"], factors["not_given"])
        )
    null = table.of["k"] <= 0
    return Judged(np.where(null, 0.0, middle), np.where(null, 0.0, spread), calibrated)


def correction(table: Table, priced: Priced, residual: Mapping[str, Any]) -> Any:
    """The learned correction of the physics, a linear one or none (`make fit` compares and says which)."""
    import numpy as np

    chosen = residual["correction"]
    if chosen["kind"] == "none":
        return np.zeros(len(table))
    columns = features(table, priced)
    total = np.full(len(table), float(chosen["intercept"]))
    for name, weight in chosen["weights"].items():
        mean, scale = chosen["scaling"][name]
        total = total + weight * np.clip((columns[name] - mean) / scale, -2.5, 2.5)
    return np.clip(total, -chosen["most"], chosen["most"])


def fleet_shift(table: Table, residual: Mapping[str, Any]) -> Any:
    """Offsets that `specadvise fit` found on the user's own trials; zeros where nothing was refitted."""
    import numpy as np

    fleet = residual.get("fleet")
    if fleet is None:
        return np.zeros(len(table))
    own = fleet.get("by_method", {})
    return np.array([fleet["offset"] + own.get(label.method, 0.0) for label in table.labels])


def features(table: Table, priced: Priced) -> dict[str, Any]:
    """What a learned correction may look at: setups, never publications."""
    import numpy as np

    c = table.of
    return {
        "log_running": np.log(np.maximum(1.0, c["running"])),
        "log_k": np.log1p(c["k"]),
        "log_acceptance": np.log(priced.acceptance),
        "log_active": np.log(c["active"] / 1e9),
        "log_tp": np.log2(c["tp"]),
        "moe": c["moe"],
        "weight_only": c["weight_only"],
        "hybrid": c["hybrid"],
        "sglang": c["sglang"],
        "consumer": c["consumer"],
        "lookup": c["lookup"],
        "draft_model": c["drafter_model"],
        "parallel": c["parallel"],
        "era": c["era"],
        "log_speedup": priced.log_speedup,
        "verified": np.log(np.maximum(1.0, c["running"]) * (1.0 + c["k"])),
    }


def doubt(table: Table, residual: Mapping[str, Any]) -> Any:
    """Extra variance of what was assumed, and of kinds of setup that the physics knows less well."""
    c = table.of
    d: Mapping[str, float] = residual["doubt_sd"]
    return (
        d["assumed"] ** 2 * c["assumed"]
        + d["consumer"] ** 2 * c["consumer"]
        + d["weight_only"] ** 2 * c["weight_only"]
        + d["hybrid"] ** 2 * c["hybrid"]
        + d["lookup"] ** 2 * c["lookup"]
        + d["rate"] ** 2 * (c["qps"] > 0)
        + d["small_target"] ** 2 * (c["active"] < 2e9)
        + d["other_engine"] ** 2 * c["other_engine"]
    )


def _conditioned(table: Table, priced: Priced, model: Model, errors: Any) -> list[tuple[int, float, float]]:
    """(row, offset of the middle, variance left) of every row with local measurements."""
    import numpy as np

    r = model.residual
    found: list[tuple[int, float, float]] = []
    extra = doubt(table, r)
    at = 0
    for i, case in enumerate(table.cases):
        n = len(case.measured)
        if not n:
            continue
        own = errors[at : at + n]
        at += n
        unknown = float(r["acceptance_weight"] * priced.acceptance_log_sd[i]) ** 2
        common = r["setup_sd"] ** 2 + unknown + float(extra[i])
        loads = np.log([p.load_value for p in case.measured] + [case.load_value or 1.0])
        depths = np.log1p([float(p.k) for p in case.measured] + [float(table.of["k"][i])])
        distance = np.abs(loads[:, None] - loads[None, :]) / r["load_length"]
        distance = distance + np.abs(depths[:, None] - depths[None, :]) / r["k_length"]
        kernel = common + r["local_sd"] ** 2 * np.exp(-distance)
        seen = kernel[:n, :n] + r["noise_sd"] ** 2 * np.eye(n)
        weights = np.linalg.solve(seen, kernel[:n, n])
        left = kernel[n, n] + r["noise_sd"] ** 2 - float(kernel[:n, n] @ weights)
        found.append((i, float(weights @ own), max(left, r["noise_sd"] ** 2)))
    return found


def local_errors(table: Table, priced: Priced, model: Model) -> Any:
    """ln(measured / predicted) at every local measurement, row by row."""
    import numpy as np

    from advisor.cost.physics import speedup

    pairs: list[tuple[int, LocalPoint]] = [(i, p) for i, case in enumerate(table.cases) for p in case.measured]
    if not pairs:
        return np.zeros(0)
    index = np.array([i for i, _ in pairs])
    part = rows_of(table, index)
    values = np.array([point.load_value for _, point in pairs])
    rated = np.array([point.load_kind == "qps" for _, point in pairs])
    ks = np.array([float(point.k) for _, point in pairs])
    ks = np.where(ks > 0, ks, part.of["k"])
    own_length = priced.acceptance[index]
    same = ks == part.of["k"]
    length = np.where(same, own_length, np.minimum(rescaled_length(part, model, own_length, ks), ks + 1.0))
    columns = {**part.of, "k": ks, "running": np.where(rated, 1.0, values), "qps": np.where(rated, values, 0.0)}
    there = speedup(columns, model.constants, length, matched_share(model.constants, length))
    logs = np.log(there)
    moved = replace(part, of=columns)
    logs = logs + correction(moved, Priced(logs, length, np.zeros(len(index)), priced.given[index]), model.residual)
    logs = logs + fleet_shift(part, model.residual)
    return np.log(np.array([point.speedup for _, point in pairs])) - logs


def rows_of(table: Table, index: Any) -> Table:
    """The table's rows at `index`, in that order."""
    return Table(
        {name: column[index] for name, column in table.of.items()},
        tuple(table.cases[i] for i in index),
        tuple(table.labels[i] for i in index),
    )


def enable_by_regret(judged: Judged) -> tuple[Any, Any]:
    """(whether to enable, probability of a gain) by row: on where the expected share of speed lost is less than off.

    Regret is 1 - s when on and s < 1, and (s - 1) / s when off and s is above 1.03, the gain that is worth a change.
    """
    import numpy as np

    nodes = np.linspace(-3.0, 3.0, 61)
    weights = np.exp(-0.5 * nodes**2)
    weights = weights / weights.sum()
    on, off = np.zeros(len(judged.log_speedup)), np.zeros(len(judged.log_speedup))
    gain = np.zeros(len(on))
    for node, weight in zip(nodes, weights, strict=True):
        true = np.exp(judged.log_speedup + node * judged.log_sd)
        on += weight * np.maximum(0.0, 1.0 - true)
        off += weight * np.where(true > 1.03, (true - 1.0) / true, 0.0)
        gain += weight * (true > 1.0)
    return on < off, gain
