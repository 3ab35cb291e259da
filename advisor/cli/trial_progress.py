"""The trial's progress on stderr: one line rewritten on a terminal, one line a stage elsewhere."""

from __future__ import annotations

import shutil
import sys
import time

import click

from advisor.cli.output import say


class StderrProgress:
    """Stage, time spent and time left. Implements `probes.trial.progress.Progress`."""

    REWRITE_S = 0.5
    REPEAT_S = 30.0
    SOON_S = 3.0
    """Less than that left is no figure: the estimate has run out, or the budget has and the step under way ends."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._stage = ""
        self._told = 0.0
        self._width = 0

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        """Now in `stage`, `done_s` seconds in, about `left_s` to go."""
        if self._quiet:
            return
        now = time.monotonic()
        every = self.REWRITE_S if self._terminal else self.REPEAT_S
        if stage == self._stage and now - self._told < every:
            return
        self._stage, self._told = stage, now
        left = f"about {clock(left_s)} left" if left_s >= self.SOON_S else "nearly done"
        line = f"trial {clock(done_s)}, {left}: {stage}"
        if self._terminal:
            line = line[: max(20, shutil.get_terminal_size((80, 24)).columns - 1)]
            click.echo("\r" + line.ljust(self._width), nl=False, err=True)
            self._width = len(line)
        else:
            click.echo(line, err=True)

    def note(self, text: str) -> None:
        """A line that stays, said even when quiet: a failed arm is no mere progress."""
        self.done()
        say(f"trial: {text}")

    def done(self) -> None:
        """Ends the rewritten line, so that what follows starts on its own."""
        if self._width:
            click.echo("\r" + " " * self._width + "\r", nl=False, err=True)
            self._width = 0


def clock(seconds: float) -> str:
    """`4 s`, `1 min 30 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"
