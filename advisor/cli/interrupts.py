"""What a signal may not break in two: the signals that end a program are kept until it is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Those that a terminal, a supervisor or a closed connection sends."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Runs to its end; a signal that came meanwhile does afterwards what it would have done.

    By handlers, not by the thread's signal mask: a signal is delivered to whichever thread does not block it, and
    Python then interrupts the main one all the same. Other threads than that are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        kept.append(number)

    before = {number: signal.getsignal(number) for number in NUMBERS}
    # What is ignored stays so (nohup, a job in the background); None is a handler that is not Python's.
    taken = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in taken:
            signal.signal(number, keep)
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
        if kept:
            signal.raise_signal(kept[0])
