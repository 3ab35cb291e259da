"""A table of cases priced by the physics: speed-up before any correction, acceptance, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.cases.acceptance import MOST_POSITIONS, lengths, prior_lengths
from advisor.cases.model import Model
from advisor.cases.table import Table
from advisor.cost.gain import most_running, speedup
from advisor.cost.physics import step_times

_CONTINUED = 0.55
"""Share of a lookup's accepted tokens after which the next is accepted too: 0.35 to 0.8 by text, from its tokens per
step and matched share (SpecDecode-Bench traces, arxiv.org/abs/2608.24004)."""
_LIMITS = ("acceptance", "draft_time", "verify_compute", "overhead", "prefill_share")


@dataclass(frozen=True)
class Priced:
    """Arrays over the table's rows."""

    log_speedup: Any
    acceptance: Any
    acceptance_log_sd: Any
    """0 where the length was given and nothing stated contradicts it."""
    given: Any
    """Whether the acceptance length was given."""


def matched_share(columns: Mapping[str, Any], constants: Mapping[str, Any], acceptance: Any) -> Any:
    """Share of steps in which a lookup finds a draft, from tokens per step over all steps.

    An n-gram on an 8 B target matched in 0.2, 0.2, 0.4 and 0.8 of the steps where it gave 1.16, 1.40, 1.33 and 2.03
    tokens at k = 3 (SpecDecode-Bench traces). A longer draft is accepted further and found no more often.
    """
    import numpy as np

    drafted = np.where(columns["suffix"] > 0, np.minimum(columns["k"], constants["suffix_drafted"]), columns["k"])
    depth = (1.0 - _CONTINUED**drafted) / (1.0 - _CONTINUED**3)
    return 1.0 - np.exp(-constants["match_rate"] * np.maximum(acceptance - 1.0, 0.02) / np.maximum(depth, 0.3))


def price(table: Table, model: Model) -> Priced:
    """Every row by the physics, with the acceptance given where it was and the prior's where not."""
    import numpy as np

    middle, spread = prior_lengths(table, model.acceptance)
    k = table.of["k"]
    stated = table.of["acceptance"]
    given = ~np.isnan(stated)
    length = np.where(given, np.clip(np.nan_to_num(stated, nan=1.0), 1.0, k + 1.0), np.minimum(middle, k + 1.0))
    return priced_at(table, model, length, np.where(given, table.of["acceptance_sd"], spread), given)


def priced_at(table: Table, model: Model, length: Any, log_sd: Any, given: Any) -> Priced:
    """Every row by the physics at an acceptance length; log_sd and given as in `Priced`."""
    import numpy as np

    ratio = speedup(table.of, model.constants, length, matched_share(table.of, model.constants, length))
    return Priced(np.log(ratio), length, log_sd, given)


def rescaled_length(table: Table, model: Model, acceptance: Any, other_k: Any) -> Any:
    """The acceptance length at another k, from the one at the row's own: the level that gives it, read off there."""
    import numpy as np

    fades = model.acceptance["fade"]
    fade = np.array([fades.get(label.method, fades["none"]) for label in table.labels])
    k = np.minimum(table.of["k"], MOST_POSITIONS)
    low, high = np.full(len(table), -8.0), np.full(len(table), 8.0)
    for _ in range(30):
        middle = 0.5 * (low + high)
        above = lengths(middle, fade, k) > acceptance
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return lengths(0.5 * (low + high), fade, np.minimum(other_k, MOST_POSITIONS))


def limits(table: Table, model: Model, priced: Priced) -> Sequence[str]:
    """What keeps each row from k + 1: the largest of its losses in logarithms."""
    import numpy as np

    c = table.of
    running = np.maximum(1.0, np.minimum(c["running"], most_running(c, speculating=True)))
    times = step_times(c, model.constants, running, matched_share(c, model.constants, priced.acceptance))
    growth = np.maximum(0.0, np.log(times.speculating / times.baseline))
    extra = np.stack([times.draft, np.maximum(0.0, times.verify - times.baseline), times.overhead])
    shares = extra / np.maximum(1e-12, extra.sum(axis=0))
    decode = np.log(priced.acceptance) - np.log(times.speculating / times.baseline)
    losses = np.vstack(
        [
            np.log((c["k"] + 1.0) / priced.acceptance)[None, :],
            shares * growth[None, :],
            np.abs(decode - priced.log_speedup)[None, :],
        ]
    )
    return [_LIMITS[i] for i in np.argmax(losses, axis=0)]
