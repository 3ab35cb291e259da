"""The files that the running command was told to read: no result is written over one of them."""

from __future__ import annotations

import os
from pathlib import Path

_read: set[tuple[int, int]] = set()


def key_of(path: Path) -> tuple[int, int] | None:
    """What is the same for all names and links that lead to one file, and no other's; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def note_input(path: Path) -> None:
    """This file is read by the command that runs."""
    key = key_of(path)
    if key is not None:
        _read.add(key)


def is_input(path: Path) -> bool:
    """Whether the command that runs has read this file, by whatever name."""
    return key_of(path) in _read


def forget_inputs() -> None:
    """Another command begins."""
    _read.clear()
