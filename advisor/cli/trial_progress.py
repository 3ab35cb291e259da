"""Progress of a trial on stderr: one line that rewrites itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import click

_PLAIN_EVERY_S = 15.0


def minutes(seconds: float) -> str:
    """`45 s`, `3 min 20 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


class TrialProgress:
    """What the trial's runner calls (probes/trial/progress.py); a context manager, so that the line is taken down."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._status = None
        self._stage = ""
        self._said_at = 0.0
        if not quiet and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("starting", spinner="dots")

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        if self.quiet:
            return
        text = f"{stage}  [{minutes(done_s)}, about {minutes(left_s)} to go]"
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(text))
        elif stage != self._stage or time.monotonic() - self._said_at > _PLAIN_EVERY_S:
            click.echo(text, err=True)
            self._said_at = time.monotonic()
        self._stage = stage

    def note(self, text: str) -> None:
        if self._status is not None:
            self._status.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            # What went wrong is said even when progress is not wanted.
            click.echo(text, err=True)

    def __enter__(self) -> TrialProgress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._status is not None:
            self._status.stop()
