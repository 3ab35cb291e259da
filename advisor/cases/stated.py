"""What a case states of its acceptance, brought into one number: a length, how far it may be off, and what was odd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiles.errors import InputError

_ROUNDED = 0.005
"""Published rates have two or three digits."""
_AGREES = 0.03
"""Log difference up to which a length and the rates beside it are one measurement, rounded."""


@dataclass(frozen=True)
class Stated:
    """An acceptance length as stated; None where nothing was. `log_sd` is 0 where nothing contradicts it."""

    length: float | None
    log_sd: float = 0.0
    notes: tuple[str, ...] = ()


def stated_acceptance(length: float | None, rates: Sequence[float], k: int | None) -> Stated:
    """The acceptance length that `mean_acceptance_length` and `per_position_acceptance` give together.

    Where the two disagree the length is taken, which is what a speed-up follows from, and half of the disagreement is
    how far it may be off. rates: shares of steps that accept at least so many drafted tokens.

    Raises:
        InputError: rates rise with the position, and no length says what they are worth.
    """
    notes: list[str] = []
    log_sd = 0.0
    rising = next((i for i in range(1, len(rates)) if rates[i] > rates[i - 1] + _ROUNDED), None)
    if rising is not None:
        what = (f"per_position_acceptance rises from {rates[rising - 1]:g} to {rates[rising]:g} at position "
                f"{rising + 1}, which shares of steps that accept at least so many tokens cannot")
        if length is None:
            raise InputError(f"{what}: expected those (are these conditional on the position before? then multiply "
                             "them up), or mean_acceptance_length")
        notes.append(f"{what}: mean_acceptance_length is taken alone")
    elif rates and k != 0:
        summed = 1.0 + sum(_continued(rates, k if k is not None else len(rates)))
        if length is None:
            length = summed
            if k is not None and len(rates) < k:
                notes.append(f"per_position_acceptance has {len(rates)} of {k} positions: the rest is taken to fall on "
                             "as the last ones do")
                log_sd = 0.5 * math.log(summed / (1.0 + sum(rates)))
        elif abs(math.log(summed / length)) > _AGREES:
            notes.append(f"1 + the sum of per_position_acceptance is {summed:.2f} and mean_acceptance_length is "
                         f"{length:g}: the latter is taken, less surely")
            log_sd = 0.5 * abs(math.log(summed / length))
    if length is not None and k is not None and k > 0 and length > k + 1.0:
        # Published lengths beyond k + 1 count tokens of a tree or of another k: no step of this k gives more.
        if length > (k + 1.0) * math.exp(_AGREES):
            notes.append(f"mean_acceptance_length is {length:g} and k is {k}: no step gives more than k + 1 tokens, so "
                         f"{k + 1} is taken, less surely; was it measured at another k?")
            log_sd = max(log_sd, 0.5 * math.log(length / (k + 1.0)))
        length = k + 1.0
    return Stated(length, log_sd, tuple(notes))


def _continued(rates: Sequence[float], k: int) -> list[float]:
    """The first k rates; where there are fewer, the last one's share of the one before it goes on."""
    found = list(rates[:k])
    if found and len(found) < k:
        share = found[-1] / found[-2] if len(found) > 1 and found[-2] > 0 else found[-1]
        while len(found) < k:
            found.append(found[-1] * min(1.0, share))
    return found
