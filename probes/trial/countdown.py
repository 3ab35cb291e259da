"""What has passed of the start or block under way, and of a comparison: no longer to come, so the time left that a
trial tells falls while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from probes.trial.estimate import Expected

_OVERDUE = 0.1
"""Of the time that a start or block under way has taken: the least that it is still said to take."""


class Countdown:
    """Seconds of the work under way. `spent_s` is the trial's clock."""

    def __init__(self, expected: Expected, spent_s: Callable[[], float]) -> None:
        self._expected, self._spent_s = expected, spent_s
        self._step: tuple[float, float] | None = None
        """When the start or block under way began, and how long it was expected to take."""
        self._compared: tuple[int, int, int] | None = None
        """Of the comparison under way: k, pairs so far, engines still to be started before the next pair."""
        self._toward_s = 0.0
        """Expected seconds of those of its starts and blocks that ended since its last pair."""

    @contextmanager
    def step(self, expected_s: float) -> Iterator[None]:
        """A start or block under way."""
        self._step = (self._spent_s(), expected_s)
        try:
            yield
            if self.comparing:
                self._toward_s += expected_s
        finally:
            self._step = None

    @property
    def elapsed_s(self) -> float:
        """What has passed of the step under way, less than what was expected of it: one that takes longer than thought
        still takes a while, nobody knows how long, but not nothing. Negative where it is far overdue."""
        if self._step is None:
            return 0.0
        begun_s, expected_s = self._step
        running_s = self._spent_s() - begun_s
        return min(running_s, expected_s - _OVERDUE * running_s)

    @property
    def comparing(self) -> bool:
        """Whether the paired comparison is under way."""
        return self._compared is not None

    def paired(self, k: int, pairs: int, starts: int) -> None:
        """The comparison of this k has so many pairs, and needs so many engines more for the next one."""
        self._compared, self._toward_s = (k, pairs, starts), 0.0

    def comparison_s(self, k: int, pairs: int, starts: int) -> float:
        """What is left of a comparison; the arguments, as of `paired`, hold until it is under way."""
        k, pairs, starts = self._compared or (k, pairs, starts)
        return max(0.0, self._expected.comparison_s(k, starts, pairs) - self._toward_s)
