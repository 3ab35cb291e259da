"""The shape of a verification, and the three-valued judgement behind it."""

from __future__ import annotations

import math
from typing import Literal

from profiles.schema import SCHEMA_VERSION, Quantity, Schema

Judged = Literal["held", "broken", "undecided"]
Verdict = Literal["held", "broken", "undecided", "noted"]
Action = Literal["keep", "change_k", "roll_back", "redeploy", "advise_again", "watch_longer"]
LEAST_LONGER = 1.5
"""Times the window that is advised at least: just enough would be too little every other time."""
MOST_LONGER = 1000.0
"""Times the window beyond which longer watching is no advice: what is found lies on the promise's edge."""


class Promise(Schema):
    """One thing a record promised, and whether it held. `noted` is worth a sentence and decides nothing."""

    code: Literal["engine", "model", "release", "speculation", "k", "load", "lengths", "acceptance", "gain", "tpot",
                  "tokens_per_request", "speed"]
    verdict: Verdict
    promised: Quantity | None = None
    found: Quantity | None = None
    edge: float | None = None
    """The bound that what was found is held against: the promise's far end, or the shortfall nobody minds."""
    unit: str = ""
    sentence: str


class YieldOfK(Schema):
    """What a k would give at the load seen, with the acceptance seen."""

    k: int
    acceptance_length: float
    break_even: float
    gain: float
    """Times no speculation; 1 neither gains nor loses."""


class Verification(Schema):
    """Whether a record's promises held on a running server."""

    schema_version: int = SCHEMA_VERSION
    verdict: Judged
    action: Action
    k: int | None = None
    """The k that the action sets; 0 for none."""
    advice: str
    promises: tuple[Promise, ...]
    running: Quantity | None
    """Requests running on one engine, the mean over the window."""
    window_s: float
    watch_s: float | None = None
    """Seconds of such traffic that would decide what this window left open; null where no time can be named."""
    yields: tuple[YieldOfK, ...] = ()


def floor_of(promised: Quantity, slack: float) -> float:
    """What something that should not be smaller than promised may fall to. slack: relative shortfall nobody minds."""
    floor = promised.value * (1.0 - slack)
    return floor if promised.low is None else min(promised.low, floor)


def ceiling_of(promised: Quantity, slack: float) -> float:
    """What something that should not be larger than promised may rise to."""
    ceiling = promised.value * (1.0 + slack)
    return ceiling if promised.high is None else max(promised.high, ceiling)


def at_least(found: Quantity, edge: float) -> Judged:
    """Held where the whole interval lies at or above the edge, broken where it lies below."""
    low, high = ends(found)
    return "held" if low >= edge else "broken" if high < edge else "undecided"


def at_most(found: Quantity, edge: float) -> Judged:
    """Held where the whole interval lies at or below the edge, broken where it lies above."""
    low, high = ends(found)
    return "held" if high <= edge else "broken" if low > edge else "undecided"


def against(found: Quantity, needed: Quantity) -> Literal["above", "below", "around"]:
    """Where an interval lies from another one: clear of it, or overlapping."""
    low, high = ends(found)
    floor, ceiling = ends(needed)
    return "above" if low >= ceiling else "below" if high < floor else "around"


def ends(found: Quantity) -> tuple[float, float]:
    """The interval, or the value twice where there is none."""
    return (found.low if found.low is not None else found.value, found.high if found.high is not None else found.value)


def watch_needed(found: Quantity, edge: float) -> float | None:
    """How many times the window would bring the interval clear of the edge it lies across; an interval shrinks with
    the square root of the time. None where it has no interval, or the edge lies too near for any sensible time."""
    low, high = ends(found)
    if low >= high:
        return None
    half = found.value - low if edge < found.value else high - found.value
    distance = abs(found.value - edge)
    if distance * math.sqrt(MOST_LONGER) <= half:
        return None
    return max(LEAST_LONGER, (half / distance) ** 2)
