"""The registry of formats for findings: a file's name is the format's name, its `render` renders check results."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.checks.finding import CheckResult
from profiles.errors import InputError

Renderer = Callable[..., str]


def formats() -> tuple[str, ...]:
    """Names of the formats, one for each file here."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])))


def render(results: Sequence[CheckResult], format: str, *, width: int | None = None, color: bool = False) -> str:
    """Check results as text of one format, ending in a newline.

    `width` (columns) and `color` (ANSI) matter only to formats made for a terminal. InputError names the known formats
    where `format` is none of them.
    """
    if format not in formats():
        raise InputError(f"unknown format {format!r}: expected one of {', '.join(formats())}")
    renderer: Renderer = importlib.import_module(f"advisor.report.findings.{format}").render
    # A lone surrogate (from an escape in YAML or a file name) can be written in no encoding.
    text = renderer(results, width=width, color=color).encode("utf-8", "replace").decode("utf-8")
    return text if text.endswith("\n") else text + "\n"
