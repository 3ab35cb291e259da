"""Two engines step by step: what one takes, in the very moments in which the other took as long as it did.

Work of others on a host stretches steps by half for a second and by a fifth for minutes. Blocks that run one after the
other share little of that; steps that alternate share nearly all of it. But the first step after the other engine's
finds its weights out of the processor's cache: on the CPU pair it took 8 % longer than the next (222 against 204 ms in
the mean of 138 steps without speculation, `benchmarks.regret_sweep`), which an engine that runs alone never pays. So
both engines make two steps and more in a row, that neither pays it more often than the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from probes.trial.engine_process import EngineProcess

_MAX_TOKENS = 64
"""Of the plain answers that run beside a block; begun anew when they end, so that their context stays that of a short
answer."""
SHARE = 0.5
"""Milliseconds of plain steps that go with one of a block's: a third of their time tells the machine's pace."""
_PATIENCE = 8
"""Steps that may carry prompts, or bring nothing, before the wanted one."""
_LEAD = 4
"""Tokens of each request by which one of two blocks goes ahead of the other before it waits."""


class Stepwise:
    """A block of one engine, a step at a time. `command` is run_block's (worker.py)."""

    def __init__(self, process: EngineProcess, **command: Any) -> None:
        self._process = process
        self.data: dict[str, Any] | None = None
        """The block's result, once it is over."""
        self.tokens = 0
        self._heard(process.begin_block(**command))

    def step(self) -> list[Any] | None:
        """Make one step; its row, or None where the block ended with it. Raises EngineFailure."""
        return self._heard(self._process.go())

    def _heard(self, event: dict[str, Any]) -> list[Any] | None:
        if event["event"] == "result":
            self.data = event["data"]
            return None
        self.tokens = int(event["tokens"])
        row: list[Any] | None = event["row"]
        return row

    def result(self) -> dict[str, Any]:
        """What the block gave, once it is over; ValueError before."""
        if self.data is None:
            raise ValueError("the block is not over")
        return self.data

    def drop(self) -> None:
        """End it early; nobody wants the rest."""
        if self.data is None:
            self._process.interrupt()


class PlainSteps:
    """Decode steps of a resident engine that speculates nothing, each made when it is asked for."""

    def __init__(self, process: EngineProcess, prompts: Sequence[list[int]], sampling: dict[str, Any]) -> None:
        """`prompts`: token ids of the requests that run side by side."""
        self._process = process
        self._prompts = list(prompts)
        self._sampling = sampling
        self._block: Stepwise | None = None
        self._spent_ms = 0.0

    def turn(self, event: dict[str, Any]) -> float | None:
        """What the block beside asks before each of its steps: the mean of two plain ones, in milliseconds; None where
        its own steps took too little so far for more of these. Raises EngineFailure."""
        if self._spent_ms > SHARE * 1e3 * event["own_s"]:
            return None
        both = [ms for ms in (self.ms(), self.ms()) if ms is not None]
        return sum(both) / len(both) if both else None

    def ms(self) -> float | None:
        """Milliseconds of the next decode step that all requests share; None where none comes. Raises EngineFailure."""
        for _ in range(_PATIENCE):
            if self._block is None or self._block.data is not None:
                self._block = Stepwise(self._process, prompts=self._prompts, running=len(self._prompts), k=None,
                                       max_tokens=_MAX_TOKENS, ignore_eos=True, keep_prefix_cache=True,
                                       **self._sampling)
            row = self._block.step()
            if row is None:
                continue
            self._spent_ms += row[0]
            if row[1] == len(self._prompts) and not row[2]:
                return float(row[0])
        return None

    def end(self) -> None:
        """Leave the engine idle, as it was found."""
        if self._block is not None:
            self._block.drop()


def alternate(baseline: Stepwise, speculative: Stepwise, running: int,
              told: Callable[[], None]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run both to their end, in turns of a few tokens of each request: equal work at equal times, and few first steps.
    Both blocks' data.

    running: requests side by side. `told()` is called after every step. Raises EngineFailure.
    """
    turn, waits = baseline, speculative
    while True:
        if waits.data is None and (turn.data is not None or turn.tokens >= waits.tokens + _LEAD * running):
            turn, waits = waits, turn
        if turn.data is not None:
            break
        turn.step()
        told()
    return baseline.result(), speculative.result()
