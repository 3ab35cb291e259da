"""Non-negative least squares (Lawson and Hanson's active set), small and dense.

Times cannot have negative parts: a fit that is allowed one uses it to explain noise and then extrapolates nonsense.
"""

from __future__ import annotations

from typing import Any


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
