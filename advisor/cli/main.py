"""The process: takes the signals over before anything is loaded, runs the command, and turns every failure into one
sentence and the exit code of the contract.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import sys
from typing import NoReturn, TextIO

from advisor.cli import interrupts
from profiles.errors import EXIT_OK, EXIT_PROBE_FAILED, EXIT_USAGE, SpecadviseError
from profiles.printable import masked, plain


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
    for stream in (sys.stdout, sys.stderr):
        # A character that the reader's encoding lacks is a question mark there, and no failure.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def _complain(message: str, named: bool = True) -> None:
    """One sentence on stderr, or nothing where stderr takes none."""
    try:
        sys.stderr.write(("specadvise: " if named else "") + plain(_shortened(masked(message)), lines=True) + "\n")
        sys.stderr.flush()
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
    """Entry point: runs the command, prints a failure as one sentence on stderr, exits with the contract's code.

    argv: the arguments; without them this is the program itself, which ends with its command.
    """
    code = EXIT_PROBE_FAILED
    # A second Ctrl-C while leaving adds nothing but a traceback.
    with contextlib.suppress(KeyboardInterrupt):
        try:
            # Before anything is imported: what comes until then ends the process as the system does it.
            interrupts.take_over()
            code = _run(sys.argv[1:] if argv is None else argv)
            if argv is None:
                interrupts.ignore()
        except KeyboardInterrupt:
            code = EXIT_PROBE_FAILED
            interrupts.ignore()
            _complain("interrupted")
            if argv is None:
                _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End the process with this code after an interrupt.

    CPython remembers a KeyboardInterrupt that went through code compiled from a string, as a dataclass is made of, and
    then ends with the code of SIGINT whatever became of the exception (`_Py_UnhandledKeyboardInterrupt`, pythonrun.c).
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run(arguments: list[str]) -> int:
    """The exit code of the command."""
    _open_streams()
    try:
        import click

        from advisor.cli.group import Interrupted, ReaderGone, cli
    except Exception:
        if interrupts.seen:
            raise KeyboardInterrupt from None
        raise
    debug = "--debug" in arguments or os.environ.get("SPECADVISE_DEBUG") == "1"
    try:
        # --debug is accepted anywhere on the line: people add it at the end, after a failure.
        result = cli.main(args=[a for a in arguments if a != "--debug"], prog_name="specadvise", standalone_mode=False)
        sys.stdout.flush()
    except SpecadviseError as error:
        if debug:
            raise
        _complain(str(error))
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, Interrupted):
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        _complain(usage.getvalue().rstrip("\n"), named=False)
        return EXIT_USAGE
    except (ReaderGone, BrokenPipeError):
        # The reader (head, less) closed stdout or stderr: nothing is wrong, and nobody is left to tell.
        _abandon(sys.stdout)
        _abandon(sys.stderr)
        return EXIT_OK
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
        return EXIT_USAGE
    except Exception as error:
        if interrupts.seen:
            raise KeyboardInterrupt from None
        if debug:
            raise
        _complain(f"internal error ({type(error).__name__}: {error}); run again with --debug and report the traceback")
        return EXIT_PROBE_FAILED
    return result if isinstance(result, int) else EXIT_OK


_STREAM_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, errno.EDQUOT)


if __name__ == "__main__":
    main()
