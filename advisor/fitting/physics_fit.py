"""Fits the step-time constants to published speed-ups: Gauss-Newton in logarithms around the priors.

Rows of one publication share an offset, rows of one setup another, and rows without a published acceptance length the
error of the prior that stands in for it: the residuals' covariance says so, and a publication of a hundred rows is not
a hundred witnesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.cases.pricing import matched_share
from advisor.cases.table import Table
from advisor.cost.gain import speedup
from advisor.fitting.priors import PRIORS

PUBLICATION_SD = 0.08
SETUP_SD = 0.06
NOISE_SD = 0.07
_STEP = 0.02


def whitening(
    publications: Sequence[str], setups: Sequence[str], kinds: Sequence[str], unknown: Any, vague: Any
) -> list[Any]:
    """(rows, inverse Cholesky factor) of each publication's residual covariance.

    unknown: log standard deviation of the acceptance length by row; rows of one setup share its error, rows of one
    target and method half of it. vague: further standard deviation of rows whose load is stated loosely.
    """
    import numpy as np

    codes = [np.unique(np.array(labels), return_inverse=True)[1] for labels in (publications, setups, kinds)]
    blocks = []
    for number in range(int(codes[0].max()) + 1):
        rows = np.where(codes[0] == number)[0]
        same = codes[1][rows][:, None] == codes[1][rows][None, :]
        alike = codes[2][rows][:, None] == codes[2][rows][None, :]
        spread = unknown[rows]
        covariance = PUBLICATION_SD**2 + SETUP_SD**2 * same
        covariance = covariance + np.outer(spread, spread) * np.where(same, 1.0, np.where(alike, 0.5, 0.0))
        covariance = covariance + np.diag(NOISE_SD**2 + vague[rows] ** 2)
        blocks.append((rows, np.linalg.inv(np.linalg.cholesky(covariance))))
    return blocks


def fit_physics(
    table: Table, log_speedup: Any, acceptance: Any, blocks: Sequence[Any], start: dict[str, float] | None = None,
    rounds: int = 8,
) -> tuple[dict[str, float], dict[str, float]]:
    """(constants, standard deviations of their logarithms) by name.

    `acceptance` is the length of every row, given or assumed; `blocks` come from `whitening`.
    """
    import numpy as np

    names = list(PRIORS)
    mean = np.log([PRIORS[name].value for name in names])
    sd = np.array([PRIORS[name].log_sd for name in names])
    theta = np.log([start[name] for name in names]) if start else mean.copy()

    def modelled(at: Any) -> Any:
        """Log speed-ups of every row for each row of `at`, a set of constants a row."""
        constants = {name: np.exp(at[:, j : j + 1]) for j, name in enumerate(names)}
        return np.log(speedup(table.of, constants, acceptance, matched_share(table.of, constants, acceptance)))

    for _ in range(rounds):
        every = modelled(np.vstack([theta, theta + _STEP * np.eye(len(names))]))
        here, slopes = every[0], ((every[1:] - every[0]) / _STEP).T
        residual = log_speedup - here
        white, white_slopes = np.empty_like(residual), np.empty_like(slopes)
        for rows, factor in blocks:
            white[rows] = factor @ residual[rows]
            white_slopes[rows] = factor @ slopes[rows]
        # A row far off has a cause of its own (another setting than stated); it is heard less.
        weight = 1.0 / (1.0 + (white / 3.0) ** 2)
        normal = white_slopes.T @ (weight[:, None] * white_slopes) + np.diag(1.0 / sd**2)
        gradient = white_slopes.T @ (weight * white) + (mean - theta) / sd**2
        step = np.linalg.solve(normal, gradient)
        theta = theta + step * min(1.0, 0.5 / float(np.abs(step).max()))
    left = np.sqrt(np.diag(np.linalg.inv(normal)))
    return (dict(zip(names, (float(v) for v in np.exp(theta)), strict=True)),
            dict(zip(names, (float(v) for v in left), strict=True)))
