"""JSON that the table engine would misread without a word: true and false, which it takes for 1 and 0; the first of two
equal keys, where other readers take the last; and half of a surrogate pair, for which it takes a sound line for none. A
file that holds some is read in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.requests.database import Database
from probes.requests.plan import Plan
from probes.requests.queries import keys_twice
from probes.requests.shapes import FIELDS
from probes.requests.sources import Source
from probes.requests.text_sample import drawn_blocks

LOOKED_THROUGH_BYTES = 16 << 20
"""Files above it are looked at for booleans in an even sample: looking costs a part of what reading does."""
SAMPLE_BYTES = 1 << 20
_FLAG = re.compile(rb":\s*(?:true|false)\b")
_KEY_BYTES = 200
_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
                   rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]")
"""What cuts a text in the middle of an emoji leaves behind."""


def numbers_are_booleans(plan: Plan, source: Source) -> bool:
    """Whether true or false stands under a key that should hold a number."""
    keys = {place.parts[-1].encode() for field, places in plan.fields.items() for place in places
            if FIELDS[field] != "name" and place.unit != "text"}
    return any(key in keys for block in _blocks(source) for key in _flagged(block))


def only_python_reads(database: Database, plan: Plan, source: Source) -> bool:
    """Whether a file of JSON lines that the strict reading has refused holds what the tolerant one would misread."""
    halves = any(_HALF.search(block) for block in drawn_blocks(source, None) if b"\\ud" in block or b"\\uD" in block)
    return halves or keys_twice(database, plan, source)


def _blocks(source: Source) -> Iterator[bytes]:
    whole = source.size <= LOOKED_THROUGH_BYTES
    return drawn_blocks(source, LOOKED_THROUGH_BYTES if whole else SAMPLE_BYTES)


def _flagged(block: bytes) -> Iterator[bytes]:
    """Keys with true or false behind them; those of a text inside a text have a backslash before their quote."""
    if b"true" not in block and b"false" not in block:
        return
    for found in _FLAG.finditer(block):
        before = block[max(0, found.start() - _KEY_BYTES):found.start()].rstrip()
        if before.endswith(b'"'):
            yield before[before.rfind(b'"', 0, -1) + 1:-1]
