"""The `specadvise` group: loads a command's file only when it is called, and turns every failure into one sentence.

Kept free of pydantic and numpy so that `specadvise --help` answers at once.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

import click

from profiles.errors import EXIT_PROBE_FAILED, EXIT_USAGE, SpecadviseError
from profiles.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "advise": ("advisor.cli.advise:advise", "Decide whether speculation pays here, and write the vLLM config."),
    "init": ("advisor.cli.init:init", "Write a commented deployment file to start from."),
    "probe": ("advisor.cli.probe:probe", "Measure one thing: this machine's GPUs, a running server."),
    "report": ("advisor.cli.report:report", "Print a saved record again, in any format."),
    "trial": ("advisor.cli.trial:trial", "Run the short acceptance and step-time trial on a real engine."),
}


class LazyGroup(click.Group):
    """Lists commands with their one-line help without importing them."""

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

    Exit codes: 0 done, 1 checks failed, 2 wrong use or unreadable input, 3 could not decide, 4 a probe or the
    engine failed.
    """
    ctx.obj = {"debug": debug}


def _terminate(signum: int, frame: object) -> None:
    """SIGTERM ends like Ctrl-C, so that children are reaped and what was measured is kept."""
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> None:
    """Entry point: runs the command, prints a failure as one sentence on stderr, exits with the contract's code."""
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments or os.environ.get("SPECADVISE_DEBUG") == "1"
    signal.signal(signal.SIGTERM, _terminate)
    try:
        # --debug is accepted anywhere on the line: people add it at the end, after a failure.
        result = cli.main(args=[a for a in arguments if a != "--debug"], prog_name="specadvise", standalone_mode=False)
    except SpecadviseError as error:
        if debug:
            raise
        click.echo(f"specadvise: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        if debug:
            raise
        click.echo("specadvise: interrupted", err=True)
        sys.exit(EXIT_PROBE_FAILED)
    except BrokenPipeError:
        # The reader (head, less) closed stdout: nothing is wrong, and nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if debug:
            raise
        where = f" {error.filename!r}" if error.filename else ""
        click.echo(f"specadvise: cannot use{where}: {error.strerror or error}; check the path, its permissions and the "
                   "free space, then run again", err=True)
        sys.exit(EXIT_USAGE)
    except Exception as error:
        if debug:
            raise
        click.echo(f"specadvise: internal error ({type(error).__name__}: {error}); run again with --debug and report "
                   "the traceback", err=True)
        sys.exit(EXIT_PROBE_FAILED)
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
