"""The `specadvise` group: loads a command's file only when it is called, and turns every failure into one sentence.

Kept free of pydantic and numpy so that `specadvise --help` answers at once.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from types import FrameType
from typing import TextIO

try:
    import click
except KeyboardInterrupt:
    # Ctrl-C at once: nothing has begun, and a traceback of an import helps nobody.
    sys.stderr.write("specadvise: interrupted\n")
    sys.exit(4)

from profiles.errors import EXIT_PROBE_FAILED, EXIT_USAGE, SpecadviseError
from profiles.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "advise": ("advisor.cli.advise:advise", "Decide whether speculation pays here, and write the vLLM config."),
    "fit": ("advisor.cli.fit:fit", "Correct predictions by your own saved trials."),
    "check": ("advisor.cli.check:check", "Check a vLLM serve config before a GPU sees it."),
    "init": ("advisor.cli.init:init", "Write a commented deployment file to start from."),
    "plan": ("advisor.cli.plan:plan", "Say what the advice means in requests per second, GPUs and money."),
    "probe": ("advisor.cli.probe:probe", "Measure one thing: this machine's GPUs, a running server, request logs."),
    "predict": ("advisor.cli.predict:predict", "Predict the speed-up of many setups, one JSON case a line."),
    "report": ("advisor.cli.report:report", "Print a saved record again, in any format."),
    "verify": ("advisor.cli.verify:verify", "Judge whether what a record promised holds on the running server."),
    "rules": ("advisor.cli.rules:rules", "List the rules of `check`, or explain one."),
    "trial": ("advisor.cli.trial:trial", "Run the short acceptance and step-time trial on a real engine."),
}


class Interrupted(Exception):
    """Ctrl-C on its way out of click, which would print an empty line for a KeyboardInterrupt."""


class ReaderGone(Exception):
    """A closed stdout or stderr on its way out of click, which would exit with 1: the code of failed checks."""


class LazyGroup(click.Group):
    """Lists commands with their one-line help without importing them."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except BrokenPipeError:
            raise ReaderGone from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="specadvise")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Find out whether speculative decoding pays on your vLLM deployment, before you turn it on.

    Exit codes: 0 done, 1 checks failed or a promise broken, 2 wrong use or unreadable input, 3 could not decide, 4 a
    probe or the engine failed.
    """
    ctx.obj = {"debug": debug}


_interrupts: list[int] = []
"""Signals seen: an import that one breaks into may turn the KeyboardInterrupt into an error of its own."""


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """SIGTERM and SIGHUP end like Ctrl-C, so that children are reaped and what was measured is kept."""
    _interrupts.append(signum)
    raise KeyboardInterrupt


def _install_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)):
        # nohup ignores SIGHUP on purpose, a shell's background job SIGINT.
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def _open_streams() -> None:
    """Closed streams (`>&-`) become the null device: the next file opened must not take the place of stdout."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _complain(message: str, named: bool = True) -> None:
    """One sentence on stderr, or nothing where stderr takes none."""
    try:
        click.echo(("specadvise: " if named else "") + _shortened(message), err=True)
    except OSError:
        _abandon(sys.stderr)


def _shortened(message: str) -> str:
    """The message with overlong values cut: a value is quoted to be recognised, not to fill the screen."""
    import re

    message = re.sub(r"(?<!\w)'([^'\n]{77})[^'\n]{84,}'(?!\w)", r"'\1...'", message)
    return re.sub(r"(\S{77})\S{224,}", r"\1...", message)


def _abandon(stream: TextIO) -> None:
    """Nothing more can be written there; Python would try once more at exit and change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main(argv: list[str] | None = None) -> None:
    """Entry point: runs the command, prints a failure as one sentence on stderr, exits with the contract's code."""
    try:
        _run(sys.argv[1:] if argv is None else argv)
    except (KeyboardInterrupt, Interrupted):
        for number in (signal.SIGINT, signal.SIGTERM):
            # A second Ctrl-C while leaving adds nothing but a traceback.
            signal.signal(number, signal.SIG_IGN)
        _complain("interrupted")
        sys.exit(EXIT_PROBE_FAILED)


def _run(arguments: list[str]) -> None:
    _interrupts.clear()
    _install_signals()
    _open_streams()
    debug = "--debug" in arguments or os.environ.get("SPECADVISE_DEBUG") == "1"
    try:
        # --debug is accepted anywhere on the line: people add it at the end, after a failure.
        result = cli.main(args=[a for a in arguments if a != "--debug"], prog_name="specadvise", standalone_mode=False)
        sys.stdout.flush()
    except SpecadviseError as error:
        if debug:
            raise
        _complain(str(error))
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        raise Interrupted from None
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        _complain(usage.getvalue().rstrip("\n"), named=False)
        sys.exit(EXIT_USAGE)
    except (ReaderGone, BrokenPipeError):
        # The reader (head, less) closed stdout or stderr: nothing is wrong, and nobody is left to tell.
        _abandon(sys.stdout)
        _abandon(sys.stderr)
        sys.exit(0)
    except OSError as error:
        if debug:
            raise
        reason = error.strerror or str(error)
        if error.filename is None and error.errno in _STREAM_ERRORS:
            # Files are written through functions that name them: what is left is the result's own stream.
            _abandon(sys.stdout)
            _complain(f"cannot write to stdout: {reason}; free space or send the result elsewhere, then run again")
        else:
            where = f" {str(error.filename)!r}" if error.filename else ""
            _complain(f"cannot use{where}: {reason}; check the path, its permissions and the free space, then run "
                      "again")
        sys.exit(EXIT_USAGE)
    except Exception as error:
        if _interrupts:
            raise Interrupted from None
        if debug:
            raise
        _complain(f"internal error ({type(error).__name__}: {error}); run again with --debug and report the traceback")
        sys.exit(EXIT_PROBE_FAILED)
    sys.exit(result if isinstance(result, int) else 0)


_STREAM_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, errno.EDQUOT)


if __name__ == "__main__":
    main()
