"""The `specadvise` group of commands, each of which is loaded only when it is called.

Kept free of pydantic and numpy so that `specadvise --help` answers at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from profiles.errors import InputError
from profiles.inputs import forget_inputs
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


@contextmanager
def _past_click() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    except BrokenPipeError:
        raise ReaderGone from None


class Group(click.Group):
    """A group whose commands are given no empty value: `--gpu "$GPU"` with nothing in the variable is a slip, and no
    way to leave the option out."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _refuse_empty(command, click.Context(command, parent=ctx, info_name=name, **command.context_settings), rest)
        return name, command, rest


def _refuse_empty(command: click.Command, ctx: click.Context, arguments: list[str]) -> None:
    """InputError where an option or argument of the command is given as an empty text. Looked at before any is
    converted: what an empty text becomes can no longer be told from what was meant."""
    try:
        found, _, _ = command.make_parser(ctx).parse_args(list(arguments))
    except click.UsageError:
        # Said when the command itself reads its line.
        return
    for parameter in command.get_params(ctx):
        value = found.get(parameter.name or "")
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, str) and not one.strip():
                option = isinstance(parameter, click.Option)
                name = max(parameter.opts, key=len) if option else parameter.human_readable_name
                raise InputError(f"{name} is empty (a variable that is not set?): give it a value"
                                 f"{', or leave it out' if option else ''}")


class LazyGroup(Group):
    """Lists commands with their one-line help without importing them."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # The help and the version are printed here already.
        with _past_click():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        forget_inputs()
        with _past_click():
            return super().invoke(ctx)

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
