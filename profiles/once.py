"""NAME=VALUE pairs of one option: a name that stands twice is a slip, and no way to say which one is meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from profiles.errors import InputError
from profiles.schema import shown

Value = TypeVar("Value")


def once(option: str, pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """The pairs as a mapping. InputError names the option and the name that stands twice, never a value: that may be a
    secret."""
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{option} names {shown(name)} twice: keep one")
        found[name] = value
    return found
