"""What was measured of the speculation that a config asks for: rules of thumb give way to it.

Rules say what usually holds; a record may say what was measured of this very speculation. Both stand in one report, so
a rule of thumb about what is gained is weighed against the measurement in one place, `weighed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from profiles.schema import Quantity, Source, counted

if TYPE_CHECKING:
    from advisor.checks.rule import Fault
    from advisor.checks.subject import Subject
    from advisor.record import Priced
    from profiles.deployment import Candidate

FAR = 1.5
"""Factor between two loads from which on what was measured at one says nothing of the other."""


@dataclass(frozen=True)
class Gain:
    """One measured speed-up."""

    k: int
    running: int
    speedup: float
    """End to end, times no speculation."""
    timed: bool = True
    """Whether this very k and load was timed; else it follows from others that were."""


@dataclass(frozen=True)
class Measured:
    """Of one candidate; empty where nothing was measured of it."""

    gains: tuple[Gain, ...] = ()
    accepted: tuple[float, ...] = ()
    """Share of the steps in which the token at each position was accepted: measured, or counted over recorded
    outputs."""

    def accepted_at(self, k: int) -> float | None:
        """Share of the steps in which the k-th token was accepted; None where nobody counted."""
        return self.accepted[k - 1] if 0 < k <= len(self.accepted) else None


NOTHING_MEASURED = Measured()


def measured_of(candidate: Candidate, cells: Iterable[Priced], positions: Sequence[Quantity]) -> Measured:
    """What of a candidate's cells and per-position acceptance is more than a model or an assumption."""
    own = [cell for cell in cells if cell.candidate == candidate and cell.k > 0 and cell.fits]
    gains = tuple(Gain(c.k, c.running, c.speedup.value, c.speedup.source is Source.MEASURED)
                  for c in own if c.rests_on_trial)
    known = bool(positions) and all(q.source in (Source.MEASURED, Source.RECORDED) for q in positions)
    return Measured(gains, tuple(q.value for q in positions) if known else ())


def gain_here(subject: Subject) -> Gain | None:
    """What was measured of this config's k at its load, or, where a schedule asks for another k there, at the nearest
    load that has it; None where nothing was."""
    speculation = subject.speculation
    if speculation is None or speculation.k is None:
        return None
    bands, k = speculation.schedule, speculation.k
    own = [gain for gain in subject.measured.gains if gain.k == k and (
        bands is None or any(start <= gain.running <= end and of == k for start, end, of in bands))]
    load = subject.workload.concurrency if subject.workload is not None else None
    if load is None:
        return min(own, key=lambda gain: gain.speedup, default=None)
    nearest = min(own, key=lambda gain: abs(math.log(gain.running / load)), default=None)
    if nearest is None or (bands is None and abs(math.log(nearest.running / load)) > math.log(FAR)):
        return None
    return nearest


def weighed(fault: Fault, subject: Subject) -> Fault | None:
    """A fault as it stands beside the measurement: a rule of thumb is dropped where a gain was measured, and says the
    figure where a loss was."""
    gain = gain_here(subject) if fault.thumb else None
    if gain is None:
        return fault
    if gain.speedup > 1.0:
        return None
    said = "So it was measured" if gain.timed else "So it follows from what a trial measured"
    return replace(fault, message=f"{fault.message} {said}: {gain.speedup:.2f} times no speculation with "
                                  f"{counted(gain.running, 'running request')}.")
