"""When, by what and with which command evidence came to be. The only clock of the tool; advice itself is pure."""

from __future__ import annotations

import re
import shlex
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from profiles.addresses import without_secrets

if TYPE_CHECKING:
    from profiles.evidence import Evidence

_SECRET = re.compile(r"(?i)(token|key|secret|password|authorization|bearer)")


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


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
    return shlex.join(["specadvise", *kept])


def evidence(kind: Literal["gpu", "server", "requests", "replay", "scoring", "trial", "model"],
             **section: Any) -> Evidence:
    """An evidence document around one probe's answer."""
    from profiles.evidence import Evidence
    from profiles.version import __version__

    return Evidence(kind=kind, collected_at=now(), tool_version=__version__, command=command_line(), **section)
