"""One fit of everything that comes before the residuals: acceptance prior and step-time constants, in turns."""

from __future__ import annotations

from typing import Any

from advisor.cases.acceptance import prior_lengths
from advisor.cases.model import Model
from advisor.cases.pricing import price
from advisor.cases.spread import USUAL_SD
from advisor.cases.table import Table, rows_of
from advisor.fitting.acceptance_fit import fit_acceptance
from advisor.fitting.physics_fit import fit_physics, whitening
from advisor.fitting.rows import ASSUMED_DEPTH, Rows, setup_of

INFERRED_SD = 0.15
"""How far an acceptance length read backwards from a speed-up may be off (log)."""
VAGUE_SD = 0.25
"""How far a speed-up may be off (log) whose load is an upper bound."""

NO_RESIDUAL: dict[str, Any] = {
    "setup_sd": 0.11, "local_sd": 0.08, "noise_sd": 0.03, "load_length": 2.0, "k_length": 1.0,
    "acceptance_weight": 0.8, "copied_sd": 0.5, "correction": {"kind": "none"},
    "cause_sd": dict(USUAL_SD),
    "doubt_sd": {"assumed": 0.05, "consumer": 0.1, "weight_only": 0.12, "hybrid": 0.08, "lookup": 0.06, "rate": 0.25,
                 "small_target": 0.2, "other_engine": 0.1},
    "conformal": {"given": 1.0, "not_given": 1.0, "calibrated": 1.0},
}
"""Where the residual model starts: standard deviations in logarithms, lengths in logarithms of load and of k + 1."""


def joined(one: Table, other: Table) -> Table:
    import numpy as np

    return Table(
        {name: np.concatenate([column, other.of[name]]) for name, column in one.of.items()},
        one.cases + other.cases, one.labels + other.labels, one.notes + other.notes,
    )


def train(acceptance: Rows, speedups: Rows) -> Model:
    """Acceptance prior and constants from these rows.

    Rows that publish a speed-up and no acceptance length say something about acceptance too, once the step time is
    known; so the prior is fitted twice, and the constants after each.
    """
    import numpy as np

    observed = np.array([row.acceptance_length for row in acceptance.of], dtype=float)
    publications = [row.source_group for row in acceptance.of]
    assumed = [ASSUMED_DEPTH in row.flags for row in acceptance.of]
    prior = fit_acceptance(acceptance.table, observed, np.zeros(len(observed)), publications, assumed)
    table = speedups.table
    log_speedup = np.log([row.speedup or 1.0 for row in speedups.of])
    labels = [row.source_group for row in speedups.of]
    setups = [setup_of(row) for row in speedups.of]
    kinds = [repr((row.source_group, row.target, row.method)) for row in speedups.of]
    vague = np.array([VAGUE_SD if row.sign_only else 0.0 for row in speedups.of])
    stated = ~np.isnan(table.of["acceptance"])
    constants: dict[str, float] | None = None
    unknown: dict[str, float] = {}
    for turn in range(2):
        middle, spread = prior_lengths(table, prior)
        k = table.of["k"]
        length = np.where(stated, np.clip(np.nan_to_num(table.of["acceptance"], nan=1.0), 1.0, k + 1.0), middle)
        blocks = whitening(labels, setups, kinds, np.where(stated, 0.0, spread), vague)
        constants, unknown = fit_physics(table, log_speedup, length, blocks, constants,
                                         rounds=7 if constants is None else 4)
        if turn:
            break
        model = Model(constants, prior, NO_RESIDUAL)
        error = price(table, model).log_speedup - log_speedup
        implied = np.clip(length * np.exp(-error), 1.02, 0.97 * k + 1.0)
        silent = np.where(~stated)[0]
        prior = fit_acceptance(
            joined(acceptance.table, rows_of(table, silent)),
            np.concatenate([observed, implied[silent]]),
            np.concatenate([np.zeros(len(observed)), INFERRED_SD + vague[silent]]),
            publications + [labels[i] for i in silent],
            assumed + [False] * len(silent),
        )
    return Model(constants or {}, prior, NO_RESIDUAL, unknown)
