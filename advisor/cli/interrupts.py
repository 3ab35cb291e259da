"""The signals that end the program: each is a KeyboardInterrupt, and none breaks in two what has to be done whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Those that a terminal, a supervisor or a closed connection sends."""
seen: list[int] = []
"""Signals that came: an import that one breaks into may turn the KeyboardInterrupt into an error of its own."""
_waiting: list[int] = []
_held = 0
"""How many uninterrupted parts the main thread is inside of."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM and SIGHUP end like Ctrl-C, so that children are reaped and what was measured is kept."""
    seen.append(number)
    if _held:
        _waiting.append(number)
    else:
        raise KeyboardInterrupt


def take_over() -> None:
    """From here on the signals are interrupts."""
    seen.clear()
    for number in NUMBERS:
        # nohup ignores SIGHUP on purpose, a shell's background job SIGINT.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)


def ignore() -> None:
    """What is decided stands: a signal while the interpreter leaves would only put its own code in place of it."""
    for number in NUMBERS:
        if signal.getsignal(number) is interrupt:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Runs to its end; an interrupt that came meanwhile is raised then.

    By what the handler does, not by the thread's signal mask: a signal is delivered to whichever thread does not block
    it, and Python then interrupts the main one all the same. Other threads than that are never interrupted.
    """
    global _held
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _held:
        _waiting.clear()
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if _waiting and not _held:
            raise KeyboardInterrupt
