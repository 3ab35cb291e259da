"""What a record promises at a load: read from its priced cells, between the loads it priced where need be.

k = 0 is the null candidate. Nothing is priced anew: a record stands for what was decided, whatever this release would
say today.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.record import Priced, Record
from advisor.schedule import k_at
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.schema import Quantity

BEYOND = 1.25
"""Loads up to this factor past the largest priced one are read off it: further out a record says nothing."""


@dataclass(frozen=True)
class Promised:
    """One (candidate, k) at a load."""

    k: int
    running: float
    """The load it was read at: a little beyond the largest priced one, that one."""
    acceptance_length: Quantity
    tpot_ms: Quantity
    tokens_per_s: Quantity
    """Of the whole engine."""


def decided_candidate(record: Record) -> Candidate:
    """The candidate that the emitted config runs: the null candidate where speculation is off or not decided."""
    decision = record.decision
    if decision.enable is not True or decision.method is None:
        return NO_SPECULATION
    for cell in record.candidates:
        draft = cell.candidate.draft.id if cell.candidate.draft is not None else None
        if (cell.candidate.method, draft) == (decision.method, decision.draft) and (
            not decision.settings or cell.candidate.settings == decision.settings
        ):
            return cell.candidate
    return NO_SPECULATION


def k_loaded(record: Record) -> int:
    """The k the engine was to be started with: the largest of a schedule; 0 without speculation."""
    decision = record.decision
    if decision.enable is not True:
        return 0
    return max([decision.k or 0, *(k for _, _, k in decision.schedule or ())])


def k_asked(record: Record, running: float) -> int:
    """The k that steps of this load should have."""
    decision = record.decision
    if decision.enable is not True:
        return 0
    return k_at(decision.schedule, max(1, round(running))) if decision.schedule else decision.k or 0


def largest_load(record: Record) -> int:
    """The largest load that was priced."""
    return max((cell.running for cell in record.candidates), default=0)


def ks_priced(record: Record) -> tuple[int, ...]:
    """The k above 0 of the decided candidate that were priced and fit."""
    candidate = decided_candidate(record)
    return tuple(sorted({c.k for c in record.candidates if c.candidate == candidate and c.k > 0 and c.fits}))


def promised_at(record: Record, k: int, running: float) -> Promised | None:
    """What was promised for k at a load; None where the record priced no such cell, or none near that load."""
    cells = _cells(record, k)
    if not cells or running > BEYOND * cells[-1].running:
        return None
    return Promised(
        k,
        min(running, float(cells[-1].running)),
        _between(cells, running, lambda cell: cell.acceptance_length),
        _between(cells, running, lambda cell: cell.tpot_ms),
        _between(cells, running, lambda cell: cell.tokens_per_s),
    )


def last_priced(record: Record, k: int) -> int | None:
    """The largest load that was priced for k; None where none was."""
    cells = _cells(record, k)
    return cells[-1].running if cells else None


def break_even_at(record: Record, k: int, running: float) -> Quantity | None:
    """Acceptance length at which k neither gains nor loses at a load, with what the step times leave open; None where
    the record cannot tell.

    Decode alone breaks even where the acceptance length makes up for the longer step. What prefills and the draft's
    own prefill add to that is known at the load decided for, and taken to be as much at others.
    """
    cells = _cells(record, k)
    if k < 1 or not cells or running > BEYOND * cells[-1].running:
        return None
    decode = _between(cells, running, _decode_break_even)
    decision = record.decision
    whole = decision.break_even_acceptance_length
    if whole is None or decision.k is None or decision.enable is not True:
        return decode
    own = _cells(record, decision.k)
    if not own:
        return decode
    factor = whole / _between(own, float(decision.running), _decode_break_even).value
    return decode.model_copy(update={"value": decode.value * factor, "low": _times(decode.low, factor),
                                     "high": _times(decode.high, factor)})


def _cells(record: Record, k: int) -> list[Priced]:
    """The decided candidate's cells of one k by load; the null candidate's for k = 0."""
    candidate = decided_candidate(record) if k > 0 else NO_SPECULATION
    found = {c.running: c for c in record.candidates if c.k == k and c.candidate.method == candidate.method
             and (k == 0 or c.candidate == candidate)}
    return [found[running] for running in sorted(found)]


def _decode_break_even(cell: Priced) -> Quantity:
    """The ratio of the two step times; what is left of the speed-up's interval without that of the acceptance."""
    value = cell.acceptance_length.value / cell.decode_speedup.value
    reach = math.exp(math.sqrt(max(0.0, _below(cell.decode_speedup) ** 2 - _below(cell.acceptance_length) ** 2)))
    return cell.step_ms.model_copy(update={"value": value, "low": value / reach, "high": value * reach, "n": None,
                                           "note": ""})


def _below(found: Quantity) -> float:
    """How far an interval reaches below its value, in logarithms."""
    return math.log(found.value / found.low) if found.low is not None and 0 < found.low < found.value else 0.0


def _between(cells: Sequence[Priced], running: float, read: Callable[[Priced], Quantity]) -> Quantity:
    """A quantity at a load between two priced ones, straight in both logarithms; at the ends the last cell's own."""
    above = next((i for i, cell in enumerate(cells) if cell.running >= running), len(cells) - 1)
    upper = read(cells[above])
    if above == 0 or cells[above].running <= running:
        return upper
    lower, first, last = read(cells[above - 1]), cells[above - 1].running, cells[above].running
    part = (math.log(running) - math.log(first)) / (math.log(last) - math.log(first))

    def at(one: float | None, other: float | None) -> float | None:
        if one is None or other is None:
            return None
        if one <= 0 or other <= 0:
            return min(one, other)
        return math.exp((1 - part) * math.log(one) + part * math.log(other))

    return upper.model_copy(update={"value": at(lower.value, upper.value), "low": at(lower.low, upper.low),
                                    "high": at(lower.high, upper.high), "n": None})


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
