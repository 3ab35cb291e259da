"""Acceptance where nothing was measured: the prior that `predict` has (advisor/cases/acceptance.json)."""

from __future__ import annotations

import math

from advisor.cases.acceptance import prior_lengths
from advisor.cases.pricing import matched_share
from advisor.cost.columns import Rows
from advisor.cost.physics import drafted_tokens
from advisor.intervals import Z80
from advisor.recorded_acceptance import MixedCurve
from advisor.situation import Situation
from profiles.deployment import Candidate
from profiles.methods import method
from profiles.schema import Quantity, Source
from profiles.workload import Task

_WIDEST_LOG_SD = 5.0


def prior_curve(situation: Situation, candidate: Candidate, most: int, prompt_tokens: float) -> MixedCurve:
    """The prior for this method, text, temperature, target and draft, for k of 1 to `most`.

    Lengths keep the whole log-normal interval; what a step can give cuts it where a length is used.
    """
    import numpy as np

    described, rows = method(candidate.method), Rows(situation)
    workload = situation.deployment.workload
    # Nobody said what kind of text: that is no family, not a mix of all.
    mix: dict[Task | None, float] = dict(workload.tasks.items()) if workload.tasks_stated else {None: 1.0}
    ks = np.arange(1, most + 1)
    tables = {family: rows.table(candidate, ks, 1, prompt_tokens, 0, family=family) for family in mix}
    priors = {family: prior_lengths(table, rows.model.acceptance) for family, table in tables.items()}
    # Requests of equal output length need steps in inverse proportion to their acceptance length.
    steps = {family: share / np.minimum(priors[family][0], ks + 1.0) for family, share in mix.items()}
    whole = np.sum([*steps.values()], axis=0)
    lengths = np.maximum.accumulate(sum(mix.values()) / whole)
    log_sds = np.sum([steps[family] / whole * priors[family][1] for family in mix], axis=0)
    columns, constants = next(iter(tables.values())).of, rows.model.constants
    matched = np.where(columns["always_drafts"] > 0, 1.0, matched_share(columns, constants, lengths))
    # Whether a position is accepted is what one more position adds; its error grows with the way to it.
    added = np.minimum.accumulate(np.diff(lengths, prepend=1.0))
    first = float(log_sds[0] * lengths[0] / max(1e-6, lengths[0] - 1.0))
    return MixedCurve(
        [_log_normal(float(value), float(sd)) for value, sd in zip(lengths, log_sds, strict=True)],
        [_log_normal(float(value), first * (i + 1), most=1.0) for i, value in enumerate(added)],
        [float(value) for value in drafted_tokens(columns, constants, matched)],
        float(matched[-1]),
        f"assumed from published measurements of {described.title} and of this kind of text",
    )


def _log_normal(value: float, log_sd: float, most: float = math.inf) -> Quantity:
    """A value with its 80 % interval, which ends at `most`."""
    reach = math.exp(Z80 * min(log_sd, _WIDEST_LOG_SD))
    return Quantity(value=value, low=value / reach, high=min(max(value, most), value * reach), source=Source.ASSUMED,
                    note="published acceptance")
