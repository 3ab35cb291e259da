"""The priced candidates of a record, arranged as readers ask for them: one curve a candidate, k by load."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.record import CANNOT_RUN, Priced, Record
from profiles.deployment import Candidate


@dataclass(frozen=True)
class Curve:
    """Everything priced for one candidate."""

    label: str
    candidate: Candidate
    chosen: bool
    """The decision is about this candidate (it may be off or abstained)."""
    cells: dict[tuple[int, int], Priced]
    """By (load in running requests, k)."""
    decided_load: int
    """The load decided for, or the nearest one priced."""
    decided_k: int | None
    """The k advised, where this candidate is the one advised."""

    @property
    def loads(self) -> tuple[int, ...]:
        return tuple(sorted({running for running, _ in self.cells}))

    @property
    def ks(self) -> tuple[int, ...]:
        return tuple(sorted({k for _, k in self.cells}))

    def at(self, running: int, k: int) -> Priced | None:
        return self.cells.get((running, k))

    def best(self, running: int) -> Priced | None:
        """The k to take at a load: the advised one at the load decided for, elsewhere the one that would be decided for
        there. Of records that do not say it, the one with the largest end-to-end speed-up; those that fit come first.
        """
        if running == self.decided_load and self.decided_k is not None and self.at(running, self.decided_k) is not None:
            return self.at(running, self.decided_k)
        return next((cell for cell in self._at_load(running) if cell.chosen), None) or self.largest(running)

    def largest(self, running: int) -> Priced | None:
        """The k with the largest speed-up at a load, whatever its interval; those that fit come first."""
        return max(self._at_load(running), key=lambda p: (p.fits, p.speedup.value, -p.k), default=None)

    def _at_load(self, running: int) -> list[Priced]:
        return [cell for (load, _), cell in self.cells.items() if load == running]

    @property
    def passes_over(self) -> bool:
        """Whether at some load another k than the one to take has a visibly larger speed-up."""
        for load in self.loads:
            best, most = self.best(load), self.largest(load)
            if best is not None and most is not None and round(most.speedup.value, 2) > round(best.speedup.value, 2):
                return True
        return False

    @property
    def headline(self) -> Priced | None:
        """What speaks for the candidate at the decided load: the advised k, else its best."""
        advised = None if self.decided_k is None else self.at(self.decided_load, self.decided_k)
        return advised or self.best(self.decided_load)

    def shown_ks(self, most: int) -> tuple[int, ...]:
        """At most `most` values of k worth a line: advised, best somewhere, the ends, then evenly spread."""
        ks = self.ks
        if len(ks) <= most:
            return ks
        wanted = [k for k in (self.decided_k, self.headline.k if self.headline else None) if k in ks]
        wanted += [cell.k for load in self.loads if (cell := self.best(load)) is not None]
        wanted += [ks[0], ks[-1], *ks[:: max(1, len(ks) // most)], *ks]
        return tuple(sorted([k for k in dict.fromkeys(wanted) if k is not None][:most]))

    @property
    def gains(self) -> dict[int, bool]:
        """Whether some k gains, by load; one that fits where there is one."""
        most = {load: self.largest(load) for load in self.loads}
        return {load: cell.speedup.value > 1 for load, cell in most.items() if cell is not None}

    @property
    def crossover(self) -> int | None:
        """Smallest load from which on no k gains; null where none was found in the range looked at."""
        losing: int | None = None
        for load, gain in reversed(self.gains.items()):
            if gain:
                break
            losing = load
        return losing


def cannot_run(curve: Curve) -> bool:
    """Whether the candidate cannot run here: its figures are about nothing."""
    return all(any(note.startswith(CANNOT_RUN) for note in cell.notes) for cell in curve.cells.values())


def nothing_beside(record: Record, found: tuple[Curve, ...]) -> bool:
    """Whether the target does not fit, or candidates were looked at and none of them can run here: memory with one of
    them is about nothing."""
    return record.memory.target_fits is False or (bool(found) and all(cannot_run(curve) for curve in found))


def without_figures(curve: Curve) -> bool:
    """Whether nothing about the candidate is worth a figure: it cannot run, or memory holds it at no k."""
    return not any(cell.fits for cell in curve.cells.values())


def curves(record: Record) -> tuple[Curve, ...]:
    """One curve a candidate, the null one apart: first the one decided about, then by speed-up at the decided load,
    those without figures last."""
    decision = record.decision
    by_label: dict[str, dict[tuple[int, int], Priced]] = {}
    for priced in record.candidates:
        if priced.candidate.method != "none" and priced.k > 0:
            by_label.setdefault(priced.label, {})[(priced.running, priced.k)] = priced
    found = []
    for label, cells in by_label.items():
        candidate = next(iter(cells.values())).candidate
        chosen = _is_decided(record, candidate)
        near = min({load for load, _ in cells}, key=lambda load: (abs(load - decision.running), load))
        found.append(Curve(label, candidate, chosen, cells, near, decision.k if chosen else None))

    def rank(curve: Curve) -> tuple[bool, bool, bool, float]:
        best = curve.headline
        value = best.speedup.value if best else 0.0
        return not curve.chosen, without_figures(curve), best is None or not best.fits, -value

    return tuple(sorted(found, key=rank))


@dataclass(frozen=True)
class Stated:
    """The speed-up a report states for a candidate at the decided load, with its interval and chance of gain."""

    value: float
    low: float | None
    high: float | None
    chance: float


def stated(record: Record, curve: Curve) -> Stated | None:
    """What was decided on where that is this cell (paired blocks settle one cell only), else what was priced."""
    cell, decision = curve.headline, record.decision
    if cell is None:
        return None
    if curve.chosen and decision.speedup is not None and (cell.k, cell.running) == (decision.k, decision.running):
        chance = cell.probability_of_gain if decision.probability_of_gain is None else decision.probability_of_gain
        return Stated(decision.speedup, decision.speedup_low, decision.speedup_high, chance)
    return Stated(cell.speedup.value, cell.speedup.low, cell.speedup.high, cell.probability_of_gain)


def _is_decided(record: Record, candidate: Candidate) -> bool:
    decision = record.decision
    if decision.method in (None, "none") or candidate.method != decision.method:
        return False
    names = {None} if candidate.draft is None else {candidate.draft.id, candidate.draft.id.rstrip("/").split("/")[-1]}
    return decision.draft in names and candidate.settings == decision.settings
