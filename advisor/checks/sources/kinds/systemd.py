"""A systemd unit whose ExecStart starts a server, with its Environment."""

from __future__ import annotations

import re
from dataclasses import replace

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources.launch import config_of, in_script
from advisor.checks.sources.source import Source
from advisor.checks.sources.words import assigned

TITLE = "a systemd unit"
RANK = 15

_SETTING = re.compile(
    r"^[ \t]*(ExecStart|Environment|EnvironmentFile)[ \t]*=[ \t]*((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)


def recognises(source: Source) -> bool:
    """A section [Service] with an ExecStart."""
    return re.search(r"^\[Service\][ \t]*$", source.text, re.MULTILINE) is not None and "ExecStart" in source.text


def read(source: Source) -> list[ServeConfig]:
    """A config for each ExecStart that starts a server."""
    env, starts, files = dict(source.env), [], 0
    for match in _SETTING.finditer(source.text):
        line = source.text.count("\n", 0, match.start(2)) + 1
        if match[1] == "Environment":
            # `Environment="A=1" "B=x y"`: the quotes are around the whole assignment.
            for pair in re.findall(r'"([^"\n]*)"|(\S+)', match[2]):
                env.update(assigned(pair[1], source.name, line) if pair[1] else dict([_pair(pair[0])]))
        elif match[1] == "ExecStart":
            # Marks before the program (`-`, `@`, `+`, `!`, `:`) are systemd's own.
            starts.append((match[2].lstrip("-@+!:"), line))
        else:
            files += 1
    found = []
    for text, line in starts:
        for launch in in_script(text, source.name, line, env):
            config = config_of(launch, source.name, source.open_file)
            note = ("EnvironmentFile was not read: pass what matters with --env",) if files else ()
            found.append(replace(config, notes=(*config.notes, *note)))
    return found


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value
