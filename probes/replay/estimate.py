"""From tallies of requests to acceptance at every k, with intervals over requests."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.replay.walk import Tallies
from profiles.methods import full_settings
from profiles.recorded import AcceptanceCurve, AcceptancePoint, BestSetting
from profiles.schema import Quantity, Source
from profiles.workload import Task

RESAMPLES = 400
GROUPS = 500
"""Resampled as they are up to this many; more are first summed into so many groups, which keeps the spread."""
SEED = 0
Z80 = 1.2816
Ints = npt.NDArray[np.int64]


def curve(
    method: str, draft: str | None, settings: Mapping[str, Any], by_k: Sequence[Tallies], tasks: Sequence[Task],
    source: Source = Source.RECORDED, notes: Iterable[str] = (), alike: Sequence[Hashable] | None = None,
) -> AcceptanceCurve:
    """One setting's acceptance: row i of the tallies is of request i, tasks[i] its family.

    alike: a key for each request, equal for copies of one another; without it all are taken to be different. Copies
    are one observation, however often they were recorded.
    """
    clusters = _numbered(alike if alike is not None else range(len(tasks)))
    known = sorted(set(tasks), key=lambda task: task.value)
    masks = {task: np.array([own is task for own in tasks]) for task in known} if known != [Task.MIXED] else {}
    return AcceptanceCurve(
        method=method, draft=draft, settings=full_settings(method, settings), requests=len(tasks),
        by_k=tuple(_point(tallies, clusters, source) for tallies in by_k),
        by_task={task: tuple(_point(tallies.of_requests(mask), clusters[mask], source) for tallies in by_k)
                 for task, mask in masks.items()},
        notes=tuple(notes))


def _numbered(keys: Sequence[Hashable]) -> Ints:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)



def _point(tallies: Tallies, clusters: Ints, source: Source) -> AcceptancePoint:
    numbers, inside = np.unique(clusters, return_inverse=True)
    n, k = len(numbers), tallies.k
    draws = _bootstrap(tallies, inside, n)
    observed = np.maximum(draws[:, 0], 1e-9)
    drafted = np.minimum(1.0, draws[:, 1] / observed)
    # Positions rest on fewer and fewer steps towards the end of short outputs: none can exceed the one before it.
    positions = np.minimum.accumulate(np.minimum(1.0, draws[:, 2] / observed), axis=1)
    lengths = 1.0 + positions.sum(axis=1)
    matched = drafted[:, 0]
    low, high = _ends(positions, n, 0.0, 1.0)

    def interval(column: Any, floor: float, ceiling: float) -> Quantity:
        least, most = _ends(column, n, floor, ceiling)
        return Quantity(value=float(column[0]), low=float(least), high=float(most), n=n, source=source,
                        note="distinct requests resampled")

    share = float(matched[0])
    return AcceptancePoint(
        k=k, acceptance_length=interval(lengths, 1.0, 1.0 + k), per_position=_shares(positions[0]),
        per_position_low=_shares(low), per_position_high=_shares(high),
        matched_share=interval(matched, 0.0, 1.0), drafted_tokens=float(drafted[0].sum()),
        engine_acceptance_length=1.0 + float(positions[0].sum()) / share if share > 0 else None,
        steps=int(tallies.steps.sum()))


def _ends(columns: Any, n: int, floor: float, ceiling: float) -> tuple[Any, Any]:
    """The 80 % interval of each column, whose row 0 is the sample itself and the others are resamples of n requests.

    Resamples of few requests spread too little: by Student's t they are spread as they should be. And what n requests
    did not show may still come: one request more, half-way to the limits, moves a mean by a share of 1 / (n + 1). That
    is all there is to say of a single one, and of several that agree.
    """
    value = columns[0]
    spread = np.quantile(columns, [0.1, 0.9], axis=0) - value
    unseen = (ceiling - floor) / 2.0 / (n + 1)
    scale = _few(n)
    low = value - np.sqrt((scale * np.minimum(spread[0], 0.0)) ** 2 + unseen**2)
    high = value + np.sqrt((scale * np.maximum(spread[1], 0.0)) ** 2 + unseen**2)
    return np.maximum(low, np.minimum(value, floor)), np.minimum(high, np.maximum(value, ceiling))


def _few(n: int) -> float:
    """How much wider than its resamples the mean of n requests is known: Student's t for n - 1 degrees of freedom over
    the normal (Cornish-Fisher's expansion, within 3 % from 2 degrees on), and the n / (n - 1) of a variance."""
    if n < 2:
        return 1.0
    z, v = Z80, n - 1.0
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    return t / z * math.sqrt(n / v)


def _shares(values: Any) -> tuple[float, ...]:
    return tuple(round(float(v), 6) for v in values)


def _bootstrap(tallies: Tallies, clusters: Ints, n: int) -> Any:
    """(1 + resamples, 3, k) sums of observed, drafted and accepted steps; row 0 is the sample itself. Requests of one
    cluster (numbered from 0 to n - 1) come and go together."""
    rows = np.hstack([tallies.observed, tallies.drafted, tallies.accepted])
    if n < len(rows) or n > GROUPS:
        groups = np.zeros((min(n, GROUPS), rows.shape[1]))
        np.add.at(groups, clusters % GROUPS, rows)
        rows = groups
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
