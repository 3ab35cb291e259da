"""What keeps a candidate from a gain worth having: the part without which it would have one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.record import HeldBack
from advisor.request_time import Request
from profiles.schema import Quantity

_ALL_MATCHED = 0.95
"""Share of steps that find a draft from which on nobody looks for more."""


@dataclass(frozen=True)
class Cause:
    """One part, and the speed-up that there would be with that part at its neutral value (None where no part is to
    blame alone)."""

    part: HeldBack
    without: float | None = None


def held_back(
    base: Request, own: Request, k: int, drafted: float, matched: float, speed: Quantity, threshold: float
) -> Cause:
    """Why a cell's end-to-end speed-up does not surely exceed the threshold.

    Each part in turn is set to its neutral value (every drafted token accepted, every step with a draft, drafting and
    overhead free, a verification no longer than a plain step, no prompts, as many requests at once as without); of
    those that alone would lift the speed-up to the threshold the one that lifts it most is named. Where its middle is
    there already, it is only not known well enough.

    drafted: tokens of a draft, in the mean over steps. matched: share of steps that find a draft.
    """
    if k == 0:
        return Cause("nothing")
    if speed.value >= threshold:
        return Cause("nothing" if (speed.low or speed.value) > threshold else "uncertainty")
    lifted = {part: value for part, value in _without(base, own, k, drafted, matched, speed.value) if value > threshold}
    if not lifted:
        return Cause("together")
    most = max(lifted, key=lambda part: lifted[part])
    return Cause(most, lifted[most])


def _without(
    base: Request, own: Request, k: int, drafted: float, matched: float, speed: float
) -> Iterator[tuple[HeldBack, float]]:
    """Each part, and the speed-up with it at its neutral value."""

    def shorter(ms: float) -> float:
        """With each step shorter by so much."""
        return speed * own.total_ms / max(1e-9, own.total_ms - ms * (1.0 + own.steps))

    def accepting(length: float) -> float:
        """With so many tokens a step."""
        steps = own.steps * own.acceptance_length / max(length, own.acceptance_length)
        return speed * own.total_ms / (own.total_ms - (own.steps - steps) * own.step.ms)

    yield "acceptance", accepting(min(k + 1.0, 1.0 + drafted))
    if matched < _ALL_MATCHED:
        yield "matching", accepting(min(k + 1.0, 1.0 + (own.acceptance_length - 1.0) / max(matched, 1e-9)))
    yield "draft_time", shorter(own.step.draft_ms)
    yield "verify_compute", shorter(max(0.0, own.step.verify_ms - base.step.ms))
    yield "overhead", shorter(own.step.overhead_ms)
    decode = own.acceptance_length * base.step.ms / own.step.ms
    end_to_end = own.tokens_per_s / base.tokens_per_s
    yield "prefill_share", speed * max(1.0, decode * own.running / base.running / end_to_end)
    yield "memory", speed * max(1.0, base.running / own.running)
