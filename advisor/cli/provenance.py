"""When, by what and with which command evidence came to be, and where `--save` keeps it. The only clock of the tool;
advice itself is pure.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from advisor.cli.output import say, write_whole
from advisor.cli.result_file import ResultFile
from profiles.addresses import without_secrets
from profiles.errors import InputError
from profiles.printable import escaped, masked

if TYPE_CHECKING:
    from profiles.evidence import Evidence

_CLOCKS_APART = timedelta(days=1)
"""Two machines' clocks, and zones that somebody left out."""
_SECRET = re.compile(r"(?i)(token|key|secret|password|authorization|bearer)")


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def refuse_future(name: str, field: str, text: str) -> None:
    """InputError where a document is of a time that has not come: everything that is said of its age would be wrong."""
    from profiles.schema import moment_of

    moment = moment_of(text)
    if moment is not None and moment > datetime.now(timezone.utc) + _CLOCKS_APART:
        raise InputError(f"{name}: {field} is {text}, and this machine's clock says {now()}: expected a time in the "
                         "past; set the clock, or make the file again")


def command_line(arguments: list[str] | None = None) -> str:
    """The command as it was typed, secrets taken out: URL credentials, and values of flags that carry them."""
    kept: list[str] = []
    hide_next = False
    for argument in sys.argv[1:] if arguments is None else arguments:
        flag, equals, _ = argument.partition("=")
        if hide_next:
            kept.append("***")
        elif flag.startswith("-") and _SECRET.search(flag) and equals:
            kept.append(f"{flag}=***")
        else:
            value = argument[len(flag) + 1:] if flag.startswith("-") and equals else argument
            kept.append(argument[: len(argument) - len(value)] + without_secrets(value, "***@"))
        hide_next = not hide_next and flag.startswith("--") and bool(_SECRET.search(flag)) and not equals
    return masked(shlex.join(["specadvise", *kept]))


def evidence(kind: Literal["gpu", "server", "requests", "replay", "scoring", "trial", "model"],
             command: Sequence[str] | None = None, **section: Any) -> Evidence:
    """An evidence document around one probe's answer.

    command: the words behind `specadvise`, where those that were typed hold more than may be stored; else those typed,
    secrets taken out.
    """
    from profiles.evidence import Evidence
    from profiles.version import __version__

    typed = command_line() if command is None else shlex.join(["specadvise", *command])
    return Evidence(kind=kind, collected_at=now(), tool_version=__version__, command=typed, **section)


def save_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--save`: the evidence as a file that `advise --evidence` takes."""
    return click.option("--save", type=ResultFile(), metavar="EVIDENCE.json",
                        help="Also write the evidence to this file, for `advise --evidence`.")(command)


def save_evidence(path: Path | None, document: Evidence, quiet: bool) -> None:
    """Write it where --save names a place, and say so on stderr."""
    if path is not None:
        write_whole(path, escaped(document.model_dump_json(indent=2)) + "\n")
        say(f"evidence written to {path}", quiet)
