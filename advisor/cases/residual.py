"""What the physics leaves: how sure a prediction is, and what local measurements of the setup say about it.

A setup's error in logarithms is what its causes do to it at this load and k (`advisor.cases.spread`), a part common to
all its loads, a part that is alike only nearby, and noise. Local measurements are conditioned on (Gaussian).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.cases.model import Model
from advisor.cases.pricing import Priced
from advisor.cases.spread import Linear, Slopes, cause_sds, condition, linearised, own_setting, points_of, slopes
from advisor.cases.table import Table, rows_of

Z80 = 1.2815515655446004


@dataclass(frozen=True)
class Judged:
    """Arrays over rows, in logarithms: the speed-up, and its standard deviation downward and upward."""

    log_speedup: Any
    below: Any
    above: Any
    """Scaled so that 1.2816 times each, on its side, covers 80 %."""
    calibrated: Any

    @property
    def log_sd(self) -> Any:
        """Both sides as one standard deviation."""
        import numpy as np

        return np.sqrt(0.5 * (self.below**2 + self.above**2))

    def sided(self, error: Any) -> Any:
        """The standard deviation on the side where the truth lies. error: ln(true / predicted)."""
        import numpy as np

        return np.where(error < 0, self.below, self.above)


@dataclass(frozen=True)
class Local:
    """What judging needs and the residual's parameters do not change: slopes by cause, and the local measurements."""

    slopes: Slopes
    measured: Linear | None
    offset: Any
    """Correction of each local measurement."""


def local(table: Table, priced: Priced, model: Model) -> Local:
    """The causes' slopes at every row, and its local measurements."""
    import numpy as np

    own = slopes(own_setting(table, priced), model)
    points = points_of(table, priced, model)
    if points is None:
        return Local(own, None, None)
    part = rows_of(table, points.row)
    moved = replace(part, of=dict(points.setting.columns))
    logs = priced.log_speedup[points.row]
    there = Priced(logs, points.setting.length, np.zeros(len(logs)), priced.given[points.row])
    offset = correction(moved, there, model.residual) + fleet_shift(part, model.residual)
    lines = linearised(table, priced, model, points, offset, doubt(table, model.residual), own)
    return Local(own, lines, offset)


def judge(table: Table, priced: Priced, model: Model, *, scaled: bool = True, known: Local | None = None) -> Judged:
    """Corrected predictions with their spread.

    scaled: False leaves the conformal factors out (they are fitted on what this gives). known: what `local` gave,
    where the caller has it already.
    """
    import numpy as np

    r = model.residual
    known = known or local(table, priced, model)
    own_offset = correction(table, priced, r) + fleet_shift(table, r)
    middle = priced.log_speedup + own_offset
    extra = doubt(table, r)
    sds = cause_sds(table, priced, r)
    rest = r["setup_sd"] ** 2 + r["local_sd"] ** 2 + r["noise_sd"] ** 2 + extra
    below, above = (rest + np.sum((side * sds) ** 2, axis=0) for side in (known.slopes.fall, known.slopes.rise))
    calibrated = np.zeros(len(table), dtype=bool)
    if known.measured is not None:
        rows = known.measured.rows
        ratio, left, _ = condition(table, priced, model, known.measured, extra, known.offset)
        middle[rows], calibrated[rows] = ratio + own_offset[rows], True
        # What is left is as lopsided as what there was.
        both = below[rows] + above[rows]
        below[rows], above[rows] = 2.0 * left * below[rows] / both, 2.0 * left * above[rows] / both
    factor = np.ones(len(table))
    if scaled:
        factors = r["conformal"]
        factor = np.where(calibrated, factors["calibrated"], np.where(priced.given, factors["given"],
                                                                      factors["not_given"]))
    null = table.of["k"] <= 0
    factor = np.where(null, 0.0, factor)
    return Judged(np.where(null, 0.0, middle), factor * np.sqrt(below), factor * np.sqrt(above), calibrated)


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
        c["unsure"]
        + d["assumed"] ** 2 * c["assumed"]
        + d["consumer"] ** 2 * c["consumer"]
        + d["weight_only"] ** 2 * c["weight_only"]
        + d["hybrid"] ** 2 * c["hybrid"]
        + d["lookup"] ** 2 * c["lookup"]
        + d["rate"] ** 2 * (c["qps"] > 0)
        + d["small_target"] ** 2 * (c["active"] < 2e9)
        + d["other_engine"] ** 2 * c["other_engine"]
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
        true = np.exp(judged.log_speedup + node * (judged.below if node < 0 else judged.above))
        on += weight * np.maximum(0.0, 1.0 - true)
        off += weight * np.where(true > 1.03, (true - 1.0) / true, 0.0)
        gain += weight * (true > 1.0)
    return on < off, gain
