"""The record itself: what a script reads, and what `specadvise report` takes back."""

from __future__ import annotations

from advisor.record import Record
from profiles.printable import escaped


def render(record: Record, *, width: int | None = None, color: bool = False) -> str:
    """JSON that validates to an equal record; `width` and `color` do not apply."""
    return escaped(record.model_dump_json(indent=2))
