"""Non-negative least squares (Lawson and Hanson's active set), small and dense; and the fit of noisy times built on it.

Times cannot have negative parts: a fit that is allowed one uses it to explain noise and then extrapolates nonsense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_HUBER = 1.345
"""Of the noise: 95 % as efficient as least squares where nothing stands out (Huber, Annals of Mathematical Statistics
35, 1964)."""
_ROUNDS = 20


@dataclass(frozen=True)
class Expected:
    """What a part is expected to be, and the standard deviation of that, in the part's own unit."""

    column: int
    value: float
    sd: float


@dataclass(frozen=True)
class Fitted:
    """`parts` as numpy vector; `noise`: of a row, in units of its log_sd; `loss`: to choose between matrices by."""

    parts: Any
    noise: float
    loss: float


def proportional_fit(
    matrix: Any, took: Any, log_sd: Any, expected: Sequence[Expected] = (), least_noise: float = 1.0, *,
    outliers: bool = True,
) -> Fitted:
    """Parts >= 0 with matrix @ parts near took, where errors are in proportion to the time and some rows stand out.

    matrix is (rows, columns), took and log_sd are of its rows; all of took > 0. A row that stands out of the noise
    counts less: work of others on the same machine lengthens a time by a multiple. With `outliers` false every row
    counts in full, and the fit keeps the mean of the times. The noise is what the rows show, and at least `least_noise`
    times their log_sd. `expected` pulls a part as one more measurement of it would.
    """
    import numpy as np

    a, b, sd = (np.asarray(value, dtype=float) for value in (matrix, took, log_sd))
    pulls = np.zeros((len(expected), a.shape[1]))
    for row, one in zip(pulls, expected, strict=True):
        row[one.column] = 1.0 / one.sd
    wanted = np.array([one.value / one.sd for one in expected])
    noise, weight, usual = least_noise, np.ones(len(b)), b.copy()
    parts = np.zeros(a.shape[1])
    for _ in range(_ROUNDS):
        scale = weight / (sd * noise * usual)
        parts = nonnegative_least_squares(np.vstack([a * scale[:, None], pulls]), np.concatenate([b * scale, wanted]))
        # In proportion to what a row should take: in proportion to what it took, slow rows would count for less.
        usual = np.maximum(a @ parts, 0.1 * b)
        off = np.abs(b / usual - 1.0) / sd
        noise = max(least_noise, 1.4826 * float(np.median(off)))
        if outliers:
            weight = np.sqrt(np.minimum(1.0, _HUBER * noise / np.maximum(off, 1e-9)))
    beyond = np.maximum(off - _HUBER * noise, 0.0)
    huber = 0.5 * np.minimum(off, _HUBER * noise) ** 2 + _HUBER * noise * beyond
    return Fitted(parts, noise, float(np.sum(huber) + 0.5 * np.sum((pulls @ parts - wanted) ** 2)))


def nonnegative_least_squares(matrix: Any, target: Any, max_rounds: int = 300) -> Any:
    """x >= 0 that minimises |matrix @ x - target|; matrix is (rows, columns), returns a numpy vector of columns."""
    import numpy as np

    a = np.asarray(matrix, dtype=float)
    b = np.asarray(target, dtype=float)
    columns = a.shape[1]
    # Columns differ by orders of magnitude (1, tokens, running x context): unit length keeps the tolerance meaningful.
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0.0] = 1.0
    a = a / scale
    x = np.zeros(columns)
    passive = np.zeros(columns, dtype=bool)
    tolerance = 1e-10 * max(1.0, float(np.abs(a.T @ b).max(initial=0.0)))
    for _ in range(max_rounds):
        gradient = a.T @ (b - a @ x)
        gradient[passive] = -np.inf
        if passive.all() or gradient.max(initial=-np.inf) <= tolerance:
            break
        passive[int(gradient.argmax())] = True
        while True:
            trial = np.zeros(columns)
            trial[passive] = np.linalg.lstsq(a[:, passive], b, rcond=None)[0]
            if (trial[passive] > 0).all():
                break
            blocking = passive & (trial <= 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(blocking, x / (x - trial), np.inf)
            x = x + float(np.min(ratios)) * (trial - x)
            passive &= x > 1e-12
            x[~passive] = 0.0
            if not passive.any():
                trial = x
                break
        x = trial
    return x / scale
