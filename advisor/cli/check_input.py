"""What `specadvise check` is given: files, `-`, or a command line as text, each turned into serve configs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources import read_source
from profiles.errors import InputError
from profiles.yaml_lines import MAX_BYTES, decoded, read_text

EXPECTED = "a serve config, start script, compose file or manifest"


@dataclass(frozen=True)
class Given:
    """One serve config, and the folder its model folders are relative to."""

    config: ServeConfig
    folder: Path


def read_given(argument: str, env: Mapping[str, str]) -> list[Given]:
    """The serve configs of one CONFIG argument: a file, `-` for stdin, or a whole command line in quotes.

    InputError as `read_source`, and where the file cannot be read.
    """
    if argument == "-":
        text = decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin", EXPECTED)
        return _read(text, "stdin", Path.cwd(), env)
    if _is_command_line(argument):
        return _read(argument, "command line", Path.cwd(), env)
    path = Path(argument)
    text = read_text(path, EXPECTED)
    return _read(text, argument, path.parent, env)


def _is_command_line(argument: str) -> bool:
    """A text with blanks that starts a server and is no file's name."""
    if not any(char.isspace() for char in argument):
        return False
    starts = "vllm" in argument and (" serve" in argument or "api_server" in argument or " run " in argument)
    if not starts:
        return False
    try:
        return not Path(argument).exists()
    except (OSError, ValueError):
        return True


def _read(text: str, name: str, folder: Path, env: Mapping[str, str]) -> list[Given]:
    def open_file(wanted: str) -> str | None:
        """A config file that a command line names: beside the source, or where the path says. A path inside of a
        container is not this machine's."""
        for candidate in dict.fromkeys((folder / wanted, folder / Path(wanted).name)):
            try:
                if candidate.is_file():
                    return read_text(candidate)
            except (OSError, ValueError):
                continue
        return None

    try:
        return [Given(config, folder) for config in read_source(text, name, env=env, open_file=open_file)]
    except RecursionError:
        raise InputError(f"{name}: nested too deeply; flatten it and run again") from None
