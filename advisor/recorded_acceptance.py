"""Acceptance that was worked out over recorded outputs (replay, scoring), brought to the workload's task mix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.intervals import Z80, log_sd_of
from advisor.situation import Situation
from profiles.deployment import Candidate
from profiles.methods import full_settings
from profiles.recorded import AcceptanceCurve, AcceptancePoint, RecordedAcceptance
from profiles.schema import Quantity
from profiles.workload import Task


def curve_of(situation: Situation, candidate: Candidate) -> tuple[RecordedAcceptance, AcceptanceCurve] | None:
    """The newest curve of this very method, draft and setting; unstated settings are the engine's defaults."""
    settings = full_settings(candidate.method, candidate.settings)
    draft = _name(candidate.draft.id) if candidate.draft is not None else None
    for found in situation.recorded:
        for curve in found.curves:
            if (
                curve.by_k
                and curve.method == candidate.method
                and (_name(curve.draft) if curve.draft else None) == draft
                and _agree(full_settings(curve.method, curve.settings), settings)
            ):
                return found, curve
    return None


def best_settings(situation: Situation, candidate: Candidate) -> tuple[dict[str, bool | int | float], ...]:
    """The settings whose replay gave the longest acceptance of the candidate's method over the workload's tasks, one
    for each k where they differ; of equals those that draft fewer tokens. Empty where no replay holds the method.

    The newest replay with the method counts: older ones may be of other traffic.
    """
    found = next((r for r in situation.recorded
                  if r.tier == "replay" and any(c.method == candidate.method for c in r.curves)), None)
    if found is None:
        return ()
    workload = situation.deployment.workload
    best: list[dict[str, bool | int | float]] = []
    for k in candidate.k:
        at_k = [curve for curve in found.curves if curve.method == candidate.method and len(curve.by_k) >= k]
        if at_k:
            ranked = min(at_k, key=lambda c: _rank(c, k, workload.tasks if workload.tasks_stated else {}))
            if ranked.settings not in best:
                best.append(ranked.settings)
    return tuple(best)


def _rank(curve: AcceptanceCurve, k: int, tasks: Mapping[Task, float]) -> tuple[float, float]:
    """Smaller is better. Tasks without records do not count; without any that has, all requests together do."""
    rows = [(share, curve.by_task[task][k - 1]) for task, share in tasks.items()
            if share > 0 and len(curve.by_task.get(task, ())) >= k] or [(1.0, curve.by_k[k - 1])]
    total = sum(share for share, _ in rows)
    # Lengths mix harmonically, as in `mixed`.
    length = total / sum(share / point.acceptance_length.value for share, point in rows)
    return -round(length, 3), sum(share * point.drafted_tokens for share, point in rows) / total


def _name(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1].lower()


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(math.isclose(one[key], other[key]) for key in one)


ALL_TOGETHER: Mapping[Task | None, float] = {None: 1.0}
"""Shares of records that tell no task."""
_LOG_SD: Mapping[str, float] = {"replay": 0.02, "scoring": 0.03}
"""No acceptance length is known better: other text of the same kind differs by 2 %, and a draft scored over text
differs from the same draft run live by 3 % (2.94 and 3.03 tokens a step: vLLM 0.32 on a CPU, 878 M target, 135 M draft,
k = 3)."""


@dataclass(frozen=True)
class MixedCurve:
    """A curve over the workload's tasks; entries are of k = 1, 2, ... or of positions."""

    lengths: list[Quantity]
    positions: list[Quantity]
    drafted: list[float]
    matched: float
    note: str = ""


def over_records(
    situation: Situation,
    record: RecordedAcceptance,
    curve: AcceptanceCurve,
    shares: Mapping[Task | None, float],
    extra_log_sd: float,
    note: str,
    at_most: Sequence[Quantity] = (),
) -> MixedCurve:
    """The curve as the workload's acceptance, with what has to be said of it.

    Args:
        shares: of each task in the workload, None for all requests together.
        extra_log_sd, note: what is not known of tasks without records.
        at_most: where the curve is a lower bound, the lengths up to whose upper ends the truth may lie.
    """
    notes = [f"{record.tier} of {curve.requests} recorded requests", *([note] if note else [])]
    temperature = situation.deployment.workload.sampling.temperature
    if record.temperature is not None and abs(record.temperature - temperature) > 0.05:
        extra_log_sd = math.hypot(extra_log_sd, 0.1)
        notes.append(f"recorded at temperature {record.temperature:g}, the workload samples at {temperature:g}")
    if record.lower_bound:
        notes.append("a lower bound: another model wrote these outputs")
    mix = mixed(curve, shares, math.hypot(extra_log_sd, _LOG_SD[record.tier]))
    highs = [max(length.high or 1.0, other.high or other.value)
             for length, other in zip(mix.lengths, at_most, strict=True)] if at_most else [q.high for q in mix.lengths]
    said = "; ".join(notes)
    return replace(
        mix,
        note=said,
        lengths=[q.model_copy(update={"high": high, "note": said}) for q, high in zip(mix.lengths, highs, strict=True)],
        positions=[q.model_copy(update={"note": notes[0]}) for q in mix.positions],
    )


def mixed(curve: AcceptanceCurve, shares: Mapping[Task | None, float], extra_log_sd: float) -> MixedCurve:
    """The curve of a task mix; None among the shares stands for all requests together.

    Requests of equal output length need steps in inverse proportion to their acceptance length, so lengths mix
    harmonically, and a task's weight in a mean per step follows. `extra_log_sd` widens every length.
    """
    rows: dict[Task | None, Sequence[AcceptancePoint]] = {
        task: curve.by_k if task is None else curve.by_task[task] for task in shares
    }
    most = min(len(row) for row in rows.values())
    at_k = [_mixed_at(i, rows, shares, extra_log_sd, curve.requests) for i in range(most)]
    weights = _weights(most - 1, rows, shares)
    last = {task: row[most - 1] for task, row in rows.items()}
    return MixedCurve(
        [length for length, _ in at_k],
        [_position(i, last, weights, curve.requests) for i in range(most)],
        [drafted for _, drafted in at_k],
        sum(weights[task] * point.matched_share.value for task, point in last.items()),
    )


def _weights(
    i: int, rows: Mapping[Task | None, Sequence[AcceptancePoint]], shares: Mapping[Task | None, float]
) -> dict[Task | None, float]:
    """Each task's share of the steps."""
    steps = {task: share / rows[task][i].acceptance_length.value for task, share in shares.items()}
    total = sum(steps.values())
    return {task: part / total for task, part in steps.items()}


def _mixed_at(
    i: int,
    rows: Mapping[Task | None, Sequence[AcceptancePoint]],
    shares: Mapping[Task | None, float],
    extra_log_sd: float,
    n: int,
) -> tuple[Quantity, float]:
    weights = _weights(i, rows, shares)
    value = 1.0 / sum(share / rows[task][i].acceptance_length.value for task, share in shares.items())
    spreads = []
    for task, weight in weights.items():
        length = rows[task][i].acceptance_length
        spreads.append(weight * log_sd_of(length.low, length.high))
    reach = math.exp(Z80 * math.hypot(*spreads, extra_log_sd))
    drafted = sum(weight * rows[task][i].drafted_tokens for task, weight in weights.items())
    source = next(iter(rows.values()))[i].acceptance_length.source
    return (
        Quantity(value=value, low=max(1.0, value / reach), high=max(value * reach, 1.0), n=n, source=source),
        drafted,
    )


def _position(
    i: int, last: Mapping[Task | None, AcceptancePoint], weights: Mapping[Task | None, float], n: int
) -> Quantity:
    low, value, high = (
        sum(weight * (getattr(last[task], field) or last[task].per_position)[i] for task, weight in weights.items())
        for field in ("per_position_low", "per_position", "per_position_high")
    )
    source = next(iter(last.values())).acceptance_length.source
    return Quantity(value=value, low=min(low, value), high=max(high, value), n=n, source=source)
