"""Numbers and times on the command line: finite, and within bounds that stand where the option does.

Click's own ranges let `nan` through, because it is neither below nor above anything, and a range without an upper end
lets through what a machine can neither have nor finish. Here both bounds are always stated.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import click

from profiles.errors import InputError
from profiles.schema import MAX_SECONDS, shown

if TYPE_CHECKING:
    _Text = click.ParamType[float]
else:
    # Older click has no type parameter here.
    _Text = click.ParamType


class Number(click.FloatRange):
    """A finite number from `least` to `most`; `above` leaves `least` itself out."""

    def __init__(self, least: float, most: float, *, above: bool = False) -> None:
        super().__init__(min=least, max=most, min_open=above)
        self._least, self._most, self._above = least, most, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        # No comparison with nan is true.
        if not self._least <= number <= self._most or (self._above and number == self._least):
            begin = f"above {self._least:,.15g} and up to" if self._above else f"from {self._least:,.15g} to"
            self.fail(f"{shown(value)} is not usable here: expected a number {begin} {self._most:,.15g}", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number from `least` to `most`."""

    def __init__(self, least: int, most: int) -> None:
        super().__init__(min=least, max=most)
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = self._least - 1
        if not self._least <= number <= self._most:
            self.fail(f"{shown(value)} is not usable here: expected a whole number from {self._least:,} to "
                      f"{self._most:,}", param, ctx)
        return number


_PART = r"(\d+(?:\.\d*)?|\.\d+)"
_DURATION = re.compile(rf"(?:{_PART}h)?(?:{_PART}m(?!s))?(?:{_PART}(ms|s)?)?", re.ASCII)


def seconds_of(text: str) -> float:
    """Seconds of `90s`, `500ms`, `10m`, `1h`, `1h30m`; a bare number is seconds. InputError otherwise."""
    match = _DURATION.fullmatch(re.sub(r"\s+", "", text.lower()))
    hours, minutes, rest, unit = match.groups() if match else (None, None, None, None)
    found = 3600.0 * float(hours or 0) + 60.0 * float(minutes or 0)
    found += float(rest or 0) * (0.001 if unit == "ms" else 1.0)
    if not 0 < found <= MAX_SECONDS:
        raise InputError(f"{shown(text)} is not a duration: expected one like 90s, 10m or 1h, above 0 and at most "
                         f"{MAX_SECONDS:,} s")
    return found


class Duration(_Text):
    """A time in the form of `seconds_of`, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds_of(f"{value:.15g}" if isinstance(value, (int, float)) else str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)
