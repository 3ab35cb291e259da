"""What may be off in a prediction, by cause, and what local measurements of the setup say about each cause.

A prediction errs because the acceptance length, the drafter's time, the host's, the round's, the requests', the lost
graphs', the verification's or the experts' is another than modelled, or because lookups find drafts more or less often.
How much each matters at a load and k follows from the step-time model, so an offset measured at one load says something
else of another load when its likely cause is host time than when it is acceptance. A constant that the measurements say
little about may be off more than its cause usually is: its shift is larger by as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.cases.case import LocalPoint
from advisor.cases.model import Model
from advisor.cases.pricing import Priced, matched_share, rescaled_length
from advisor.cases.table import Table, rows_of

CAUSES: Mapping[str, tuple[str, ...]] = {
    "acceptance": (),
    "drafting": ("draft_model_layer_ms", "draft_model_pass_ms", "head_layer_ms", "head_pass_ms", "block_pass_ms",
                 "lookup_request_ms", "tree_request_ms", "draft_token_ms"),
    "host": ("step_host_vllm_ms", "step_host_old_ms", "step_host_sglang_ms", "step_host_old_sglang_ms", "layer_ms"),
    "round": ("round_vllm_ms", "round_async_ms", "round_v0_ms", "round_sglang_ms", "sync_ms", "verify_layer_ms"),
    "requests": ("round_request_ms", "round_request_v0_ms", "round_request_sglang_ms", "round_request_old_sglang_ms",
                 "sync_request_ms"),
    "graphs": ("piecewise_layer_ms", "ragged_layer_ms", "hybrid_older_layer_ms", "hybrid_layer_ms",
               "beyond_graph_layer_ms", "unsplit_tiles", "unpacked_kv"),
    "compute": ("verify_token_ms",),
    "experts": ("routing_temper",),
    "matching": ("match_rate",),
}
"""Constants that go up together where a cause is at work; compute and experts also slow the products themselves."""
_INVERSE: Mapping[str, tuple[str, ...]] = {"compute": ("compute_efficiency",), "experts": ("moe_intensity",)}
_ONLY: Mapping[str, str] = {"experts": "routed", "matching": "lookup"}
"""Columns that are zero where a cause changes nothing."""
_ADDED = ("drafting", "host", "round", "requests", "graphs")
"""Causes that only add time beside the passes: their slopes come from one evaluation of the passes."""
USUAL_SD: Mapping[str, float] = {"drafting": 0.4, "host": 0.5, "round": 0.6, "requests": 0.6, "graphs": 0.6,
                                 "compute": 0.35, "experts": 0.5, "matching": 0.5}
"""Standard deviations of ln(time) by cause between setups, where the fit of the residuals starts."""
_STEP = 0.03
_ROUNDS = 2
_FARTHEST = 1.5


@dataclass(frozen=True)
class Setting:
    """Rows to evaluate: columns, acceptance length, and how much of a shift of the case's log length each feels."""

    columns: Mapping[str, Any]
    length: Any
    scale: Any


def log_speedup(setting: Setting, model: Model, shift: Mapping[str, Any]) -> Any:
    """ln of the modelled speed-up with the causes shifted, in logarithms.

    shift: by cause, (rows,) or (n, rows); the result has n rows where one has.
    """
    import numpy as np

    from advisor.cost.gain import speedup

    constants: dict[str, Any] = dict(model.constants)
    for cause, names in CAUSES.items():
        for name in names:
            constants[name] = constants[name] * np.exp(_weight(model, cause, name) * shift[cause])
        for name in _INVERSE.get(cause, ()):
            constants[name] = constants[name] * np.exp(-shift[cause])
    k = setting.columns["k"]
    length = np.clip(setting.length * np.exp(setting.scale * shift["acceptance"]), 1.01, np.maximum(1.01, k + 1.0))
    return np.log(speedup(setting.columns, constants, length, matched_share(setting.columns, constants, length)))


def _weight(model: Model, cause: str, name: str) -> float:
    """How much more than its cause a constant shifts: what the fit left unknown of it comes on top."""
    usual = USUAL_SD.get(cause, 1.0)
    return math.hypot(usual, model.constant_log_sd.get(name, 0.0)) / usual


@dataclass(frozen=True)
class Slopes:
    """ln speed-up of rows, and what a shift of each cause by one does to it: (rows,) and (causes, rows).

    fall and rise are how far it goes down and up, taken over a standard deviation: costs are positive and their errors
    lopsided, so that a speed-up has further to fall than to rise.
    """

    here: Any
    by_cause: Any
    fall: Any
    rise: Any


def slopes(setting: Setting, model: Model) -> Slopes:
    """The causes' slopes where none is shifted."""
    import numpy as np

    none: dict[str, Any] = dict.fromkeys(CAUSES, 0.0)
    # Two more rows for each cause that only adds time, up and down: the passes are evaluated once for all of them.
    each = np.arange(1 + 2 * len(_ADDED))[:, None]
    moves = {cause: USUAL_SD[cause] * ((each == 1 + 2 * i) * 1.0 - (each == 2 + 2 * i))
             for i, cause in enumerate(_ADDED)}
    every = log_speedup(setting, model, {**none, **moves})
    here = every[0]
    by_cause, fall, rise = [], [], []
    for cause in CAUSES:
        if cause in _ADDED:
            at = 1 + 2 * _ADDED.index(cause)
            up, down = ((every[i] - here) / USUAL_SD[cause] for i in (at, at + 1))
            by_cause.append((up - down) / 2.0)
            fall.append(np.maximum(0.0, -np.minimum(up, down)))
            rise.append(np.maximum(0.0, np.maximum(up, down)))
        else:
            slope = _slope(setting, model, here, none, cause)
            by_cause.append(slope)
            fall.append(np.abs(slope))
            rise.append(np.abs(slope))
    return Slopes(here, np.array(by_cause), np.array(fall), np.array(rise))


def _slope(setting: Setting, model: Model, here: Any, shift: Mapping[str, Any], cause: str) -> Any:
    """Of ln speed-up in a cause's shift, at a shift where it is `here`."""
    import numpy as np

    # Down, as an acceptance length has its bound k + 1 above.
    down = {**shift, cause: shift[cause] - _STEP}
    if cause not in _ONLY:
        return (here - log_speedup(setting, model, down)) / _STEP
    rows = setting.columns[_ONLY[cause]] > 0
    found = np.zeros(len(rows))
    if bool(np.any(rows)):
        part = Setting({name: column[rows] for name, column in setting.columns.items()}, setting.length[rows],
                       setting.scale[rows])
        found[rows] = (here[rows] - log_speedup(part, model, down)) / _STEP
    return found


def own_setting(table: Table, priced: Priced) -> Setting:
    import numpy as np

    return Setting(table.of, priced.acceptance, np.ones(len(table)))


def cause_sds(table: Table, priced: Priced, residual: Mapping[str, Any]) -> Any:
    """Standard deviation of every cause's shift by row: (causes, rows)."""
    import numpy as np

    sds: Mapping[str, float] = residual["cause_sd"]
    found = []
    for name in CAUSES:
        if name == "acceptance":
            # Published lengths are taken as they are, unless what else was stated contradicts them.
            text = (table.of["lookup"] > 0) & ~priced.given
            # Two texts of one kind differ more in what a lookup finds than in what a head guesses.
            found.append(np.hypot(residual["acceptance_weight"] * priced.acceptance_log_sd,
                                  np.where(text, residual["copied_sd"] * (1.0 - 1.0 / priced.acceptance), 0.0)))
        elif name == "drafting":
            found.append(np.hypot(float(sds[name]), table.of["draft_unsure"]))
        else:
            found.append(np.full(len(table), float(sds[name])))
    return np.stack(found)


@dataclass(frozen=True)
class Points:
    """Local measurements of a table, flat: the table's row of each, its setting and ln of the measured speed-up."""

    row: Any
    setting: Setting
    loads: Any
    depths: Any
    measured: Any


def points_of(table: Table, priced: Priced, model: Model) -> Points | None:
    """The local measurements, None where there are none."""
    import numpy as np

    pairs: list[tuple[int, LocalPoint]] = [(i, p) for i, case in enumerate(table.cases) for p in case.measured]
    if not pairs:
        return None
    index = np.array([i for i, _ in pairs])
    part = rows_of(table, index)
    values = np.array([point.load_value for _, point in pairs])
    rated = np.array([point.load_kind == "qps" for _, point in pairs])
    ks = np.array([float(point.k) for _, point in pairs])
    ks = np.where(ks > 0, ks, part.of["k"])
    own = priced.acceptance[index]
    length, other = own.copy(), np.flatnonzero(ks != part.of["k"])
    if len(other):
        length[other] = np.minimum(rescaled_length(rows_of(part, other), model, own[other], ks[other]), ks[other] + 1.0)
    scale = np.clip(np.log(np.maximum(length, 1.02)) / np.log(np.maximum(own, 1.02)), 0.3, 3.0)
    columns = {**part.of, "k": ks, "running": np.where(rated, 1.0, values), "qps": np.where(rated, values, 0.0)}
    measured = np.log(np.array([point.speedup for _, point in pairs]))
    return Points(index, Setting(columns, length, scale), np.log(values), np.log1p(ks), measured)


@dataclass(frozen=True)
class Linear:
    """The rows with local measurements as lines in the causes' shifts, about the shift that explains the measurements.

    Arrays of points have the points' order, arrays of rows that of `rows`; `at` says which points are a row's.
    """

    points: Points
    rows: Any
    at: list[Any]
    shift: Any
    there: Any
    there_slopes: Any
    here: Any
    here_slopes: Any


def linearised(
    table: Table, priced: Priced, model: Model, points: Points, offset: Any, extra: Any, own: Slopes
) -> Linear:
    """The lines, by a few steps toward the likeliest shift.

    offset, extra: as `condition` wants them. own: what `slopes` gave for the table's rows.

    The slopes are those without a shift, but for the acceptance's: the others change little over the shifts that
    explain a measurement, and what they are off by is made good by evaluating the model at the shift itself. Fewer
    accepted tokens of a lookup are fewer steps with a draft, whose cost then matters less.
    """
    import numpy as np

    rows = np.unique(points.row)
    place = np.searchsorted(rows, points.row)
    setting = own_setting(rows_of(table, rows), Priced(*(column[rows] for column in (
        priced.log_speedup, priced.acceptance, priced.acceptance_log_sd, priced.given))))
    none = np.zeros((len(CAUSES), len(rows)))
    there = slopes(points.setting, model)
    at = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
    found = Linear(points, rows, at, none, there.here, there.by_cause, own.here[rows], own.by_cause[:, rows])
    for _ in range(_ROUNDS - 1):
        _, _, shift = condition(table, priced, model, found, extra, offset)
        ends = []
        for place_of, shifts, before in ((points.setting, shift[:, place], found.there_slopes),
                                         (setting, shift, found.here_slopes)):
            by_cause = dict(zip(CAUSES, shifts, strict=True))
            value = log_speedup(place_of, model, by_cause)
            accepted = _slope(place_of, model, value, by_cause, "acceptance")
            ends += [value, np.concatenate([accepted[None], before[1:]])]
        found = Linear(points, rows, found.at, shift, *ends)
    return found


def condition(
    table: Table, priced: Priced, model: Model, linear: Linear, extra: Any, offset: Any
) -> tuple[Any, Any, Any]:
    """(ln speed-up, variance, likeliest shift) of the rows with local measurements, Gaussian, given these.

    extra: variance by row of the table, common to its loads beside the causes. offset: corrections by point of what the
    step-time model says. Measurements that contradict each other, or the model by more than it ever erred, leave as
    much more unknown as they are further off than chance allows.
    """
    import numpy as np

    r, points, shift = model.residual, linear.points, linear.shift
    prior = cause_sds(table, priced, r)[:, linear.rows] ** 2
    middle, variance, moved = np.zeros(len(linear.rows)), np.zeros(len(linear.rows)), np.zeros_like(shift)
    own_load = np.log([table.cases[i].load_value or 1.0 for i in linear.rows])
    own_depth = np.log1p(table.of["k"][linear.rows])
    # Rows with equally many measurements are solved together: their kernels are one stack of equal squares.
    counts = np.array([len(own) for own in linear.at])
    for count in np.unique(counts):
        n = np.flatnonzero(counts == count)
        own = np.stack([linear.at[i] for i in n])
        loads = np.concatenate([points.loads[own], own_load[n, None]], axis=1)
        depths = np.concatenate([points.depths[own], own_depth[n, None]], axis=1)
        distance = np.abs(loads[:, :, None] - loads[:, None, :]) / r["load_length"]
        distance = distance + np.abs(depths[:, :, None] - depths[:, None, :]) / r["k_length"]
        common = r["setup_sd"] ** 2 + extra[linear.rows[n]]
        by_cause = np.moveaxis(linear.there_slopes[:, own], 0, -1)
        here = linear.here_slopes[:, n].T
        j = np.concatenate([by_cause, here[:, None, :]], axis=1)
        kernel = np.einsum("nac,nc,nbc->nab", j, prior[:, n].T, j)
        kernel += common[:, None, None] + r["local_sd"] ** 2 * np.exp(-distance)
        seen, across = kernel[:, :count, :count] + r["noise_sd"] ** 2 * np.eye(count), kernel[:, :count, count]
        moving = np.einsum("nac,cn->na", by_cause, shift[:, n])
        away = points.measured[own] - linear.there[own] - offset[own] + moving
        solved = np.linalg.solve(seen, np.stack([away, across], axis=-1))
        beyond = _beyond_chance((away * solved[..., 0]).sum(axis=1), float(count))
        moved[:, n] = prior[:, n] * np.einsum("nac,na->cn", by_cause, solved[..., 0])
        middle[n] = linear.here[n] - np.einsum("nc,cn->n", here, shift[:, n]) + (across * solved[..., 0]).sum(axis=1)
        left = kernel[:, count, count] - (across * solved[..., 1]).sum(axis=1)
        variance[n] = (np.maximum(left, 0.0) + r["noise_sd"] ** 2) * beyond
    return middle, variance, np.clip(moved, -_FARTHEST, _FARTHEST)

def _beyond_chance(chi_square: Any, count: float) -> Any:
    """What a variance is multiplied by where measurements scatter more than it says (Birge ratio), at least 1.

    chi_square: squared deviations in units of what was expected of them. Up to two standard deviations above its mean a
    chi-square is chance, and tells nothing.
    """
    import numpy as np

    return np.maximum(1.0, chi_square / (count + 2.0 * math.sqrt(2.0 * count)))

