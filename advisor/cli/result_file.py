"""Options that take a file to write: what cannot be one is said before anything runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.output import place_of

if TYPE_CHECKING:
    _Path = click.ParamType[Path]
else:
    # Older click has no type parameter here.
    _Path = click.ParamType

STDOUT = Path("-")


class ResultFile(_Path):
    """A place where a result may be written. `stdout`: whether `-` stands for that; the command then writes there."""

    name = "file"

    def __init__(self, *, stdout: bool = False) -> None:
        self._stdout = stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        if self._stdout and path == STDOUT:
            return path
        place_of(path)
        if str(value).endswith(os.sep):
            self.fail(f"'{value}' names a folder, and the result is a file", param, ctx)
        if ctx is not None and param is not None:
            first = ctx.meta.setdefault(__name__, {}).setdefault(os.path.realpath(path), param)
            if first is not param:
                names = " and ".join(max(one.opts, key=len) for one in (first, param))
                self.fail(f"{names} name one file, '{path}', and one result would replace the other: name two")
        return path
