"""From tallies of requests to acceptance at every k, with intervals over requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from probes.replay.walk import Tallies
from profiles.methods import full_settings
from profiles.recorded import AcceptanceCurve, AcceptancePoint, BestSetting
from profiles.schema import Quantity, Source
from profiles.workload import Task

RESAMPLES = 400
GROUPS = 500
"""Resampled as they are up to this many; more are first summed into so many groups, which keeps the spread."""
SEED = 0


def curve(
    method: str, draft: str | None, settings: Mapping[str, Any], by_k: Sequence[Tallies], tasks: Sequence[Task],
    source: Source = Source.RECORDED, notes: Iterable[str] = (),
) -> AcceptanceCurve:
    """One setting's acceptance: row i of the tallies is of request i, tasks[i] its family."""
    known = sorted(set(tasks), key=lambda task: task.value)
    masks = {task: np.array([own is task for own in tasks]) for task in known} if known != [Task.MIXED] else {}
    return AcceptanceCurve(
        method=method, draft=draft, settings=full_settings(method, settings), requests=len(tasks),
        by_k=tuple(_point(tallies, source) for tallies in by_k),
        by_task={task: tuple(_point(tallies.of_requests(mask), source) for tallies in by_k)
                 for task, mask in masks.items()},
        notes=tuple(notes))


def _point(tallies: Tallies, source: Source) -> AcceptancePoint:
    n, k = len(tallies.steps), tallies.k
    draws = _bootstrap(tallies)
    observed = np.maximum(draws[:, 0], 1e-9)
    drafted = np.minimum(1.0, draws[:, 1] / observed)
    # Positions rest on fewer and fewer steps towards the end of short outputs: none can exceed the one before it.
    positions = np.minimum.accumulate(np.minimum(1.0, draws[:, 2] / observed), axis=1)
    lengths = 1.0 + positions.sum(axis=1)
    matched = drafted[:, 0]
    low, high = (np.quantile(positions, q, axis=0) for q in (0.1, 0.9))

    def interval(column: Any) -> Quantity:
        value = float(column[0])
        ends = (float(v) for v in np.quantile(column, [0.1, 0.9]))
        least, most = (min(next(ends), value), max(next(ends), value))
        return Quantity(value=value, low=least, high=most, n=n, source=source, note="requests resampled")

    share = float(matched[0])
    return AcceptancePoint(
        k=k, acceptance_length=interval(lengths), per_position=_shares(positions[0]),
        per_position_low=_shares(np.minimum(low, positions[0])),
        per_position_high=_shares(np.maximum(high, positions[0])),
        matched_share=interval(matched), drafted_tokens=float(drafted[0].sum()),
        engine_acceptance_length=1.0 + float(positions[0].sum()) / share if share > 0 else None,
        steps=int(tallies.steps.sum()))


def _shares(values: Any) -> tuple[float, ...]:
    return tuple(round(float(v), 6) for v in values)


def _bootstrap(tallies: Tallies) -> Any:
    """(1 + resamples, 3, k) sums of observed, drafted and accepted steps; row 0 is the sample itself."""
    rows = np.hstack([tallies.observed, tallies.drafted, tallies.accepted])
    if len(rows) > GROUPS:
        grouped = np.zeros((GROUPS, rows.shape[1]))
        np.add.at(grouped, np.arange(len(rows)) % GROUPS, rows)
        rows = grouped
    return _weights(len(rows)).dot(rows).reshape(-1, 3, tallies.k)


@lru_cache(maxsize=16)
def _weights(n: int) -> Any:
    drawn = np.random.default_rng(SEED).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES)
    return np.vstack([np.ones((1, n)), drawn])


def best_settings(curves: Sequence[AcceptanceCurve]) -> tuple[BestSetting, ...]:
    """For all requests together and for each task: the best setting at every k."""
    found: list[BestSetting] = []
    tasks: list[Task | None] = [None, *dict.fromkeys(task for c in curves for task in c.by_task)]
    for task in tasks:
        rows = [(c, c.by_k if task is None else c.by_task.get(task, ())) for c in curves]
        for k in sorted({point.k for _, points in rows for point in points}):
            at_k = [(c, point) for c, points in rows for point in points if point.k == k]
            best, point = min(at_k, key=lambda pair: (-round(pair[1].acceptance_length.value, 3),
                                                      pair[1].drafted_tokens))
            found.append(BestSetting(task=task, k=k, method=best.method, draft=best.draft, settings=best.settings,
                                     acceptance_length=point.acceptance_length, drafted_tokens=point.drafted_tokens))
    return tuple(found)
