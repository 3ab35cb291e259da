"""The one way from a table of setups to answers: speed-up, 80 % interval, probability of a gain, and whether to enable.

Every command that prices setups by the fitted model takes this way, so that two commands never answer differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from advisor.cases.model import Model, shipped_model
from advisor.cases.pricing import limits, price
from advisor.cases.residual import Z80, enable_by_regret, judge
from advisor.cases.table import Table

_WIDEST = 60.0
"""A speed-up above which an interval's end would say nothing any more."""


@dataclass(frozen=True)
class Answers:
    """Arrays over a table's rows. Speed-ups are factors of the same engine without speculation."""

    speedup: Any
    """Median; 1 where k = 0. Not finite where a row's numbers are too large or too small to price."""
    low: Any
    """Lower end of the 80 % interval."""
    high: Any
    """Upper end; at most k + 1."""
    log_sd: Any
    """Standard deviation of ln(speed-up); 0 where k = 0."""
    enable: Any
    """Whether the expected share of speed lost is less with speculation than without."""
    probability_of_gain: Any
    acceptance_length: Any
    """Tokens per step, bonus included: as stated, else the prior's."""
    limited_by: Sequence[str]
    """What keeps the speed-up from k + 1 most: acceptance, draft_time, verify_compute, overhead, prefill_share; nothing
    where k = 0."""


def answer(table: Table, model: Model | None = None) -> Answers:
    """Answers for every row. No step of k drafted tokens is more than k + 1 times as fast.

    model: the shipped one where None. Raises nothing: rows that cannot be priced were refused by `table_of`.
    """
    import numpy as np

    model = model or shipped_model()
    priced = price(table, model)
    judged = judge(table, priced, model)
    enable, gain = enable_by_regret(judged)
    k = table.of["k"]
    null = k <= 0
    most = np.minimum(k + 1.0, _WIDEST)
    middle = np.minimum(np.exp(judged.log_speedup), most)
    low = np.minimum(np.exp(judged.log_speedup - Z80 * judged.below), middle)
    high = np.maximum(middle, np.minimum(np.exp(judged.log_speedup + Z80 * judged.above), most))
    reasons = limits(table, model, priced)
    return Answers(
        speedup=np.where(null, 1.0, middle),
        low=np.where(null, 1.0, low),
        high=np.where(null, 1.0, high),
        log_sd=judged.log_sd,
        enable=np.where(null, False, enable),
        probability_of_gain=np.where(null, 0.0, gain),
        acceptance_length=np.where(null, 1.0, priced.acceptance),
        limited_by=["nothing" if none else reason for none, reason in zip(null, reasons, strict=True)],
    )
