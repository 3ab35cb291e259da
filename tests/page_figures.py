"""Figures of a page against those that its command prints now."""

from __future__ import annotations

import re

FIGURE = re.compile(r"\d[\d.,]*")
SHARE = 0.02
"""How far a figure may have moved: fitted constants and another machine's arithmetic move the last digits."""


def figures(text: str) -> list[str]:
    return [found.rstrip(".,") for found in FIGURE.findall(text)]


def moved(shown: str, now: str) -> list[tuple[str, str]]:
    """The pairs of figures, in order, that are further apart than `SHARE` and than one of the page's last digit."""
    return [(old, new) for old, new in zip(figures(shown), figures(now), strict=True) if not _near(old, new)]


def _near(old: str, new: str) -> bool:
    try:
        was, value = float(old.replace(",", "")), float(new.replace(",", ""))
    except ValueError:  # a release
        return old == new
    digit = 10.0 ** -len(old.partition(".")[2])
    return abs(value - was) <= max(SHARE * abs(was), 1.01 * digit)
