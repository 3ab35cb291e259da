"""How a trial tells where it is: what the command line shows is up to it."""

from __future__ import annotations

from typing import Protocol

from profiles.deployment import Candidate
from profiles.methods import method


def spoken(candidate: Candidate) -> str:
    """How progress names an arm: the null candidate in words, the others as reports name them."""
    described = method(candidate.method)
    return described.title if described.drafter == "none" else candidate.label


class Progress(Protocol):
    """What the runner calls; a stage is e.g. `draft_model SmolLM2-135M: k 3 load 8`."""

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        """Now in `stage`, `done_s` seconds in, about `left_s` seconds (the budget's rest at most) to go."""

    def note(self, text: str) -> None:
        """Something the user should read even when it scrolls by: a failed arm, a disk that is full."""


class Silent:
    """Tells nothing."""

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass
