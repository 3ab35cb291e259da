"""Reports: a record in, one text out. A report renders a record and nothing else: no file, no clock, no environment.

One renderer a file in `advisor/report/renderers/`; adding a format is adding a file with a `render` function there.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from profiles.errors import InputError

if TYPE_CHECKING:
    from advisor.record import Record

Renderer = Callable[..., str]
_FOLDER = Path(__file__).parent / "renderers"


def formats() -> tuple[str, ...]:
    """Names of the formats, one for each file of the registry."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(_FOLDER)])))


def render(record: Record, format: str, *, width: int | None = None, color: bool = False) -> str:
    """The record as text of one format, ending in a newline.

    `width` (columns) and `color` (ANSI) matter only to formats made for a terminal; without `width` they take 80.
    InputError names the known formats where `format` is none of them.
    """
    if format not in formats():
        raise InputError(f"unknown report format {format!r}: expected one of {', '.join(formats())}")
    # Imported here because each format brings its own machinery, and a command needs one of them.
    renderer: Renderer = importlib.import_module(f"advisor.report.renderers.{format}").render
    text = renderer(record, width=width, color=color)
    return text if text.endswith("\n") else text + "\n"
