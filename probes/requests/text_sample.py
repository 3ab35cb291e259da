"""Records drawn evenly from a file of lines without reading all of it, for looking at their text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from probes.requests.sources import DAMAGE, Source, lines_of

_BLOCKS = 64
_LINES_A_BLOCK = 4
"""A block is at least so many lines long: its first and last ones are parts."""
_LARGEST_BLOCK = 8 << 20
_FEWEST_BLOCKS = 4
_PACKED = 8
"""Times that packed text is longer when unpacked, about."""


def drawn_records(source: Source, budget: int) -> tuple[Iterator[Any], bool]:
    """Parsed records of a file of JSON lines, and whether they are all there are.

    budget: bytes to look at. Of a larger plain file blocks at even distances are read. A packed one cannot be entered
    in the middle: its beginning is read.
    """
    if source.compression != "none":
        complete = source.size * _PACKED <= budget
        return _beginning(source, None if complete else budget), complete
    if source.size <= budget:
        return _beginning(source, None), True
    return _blocks(source, budget), False


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _beginning(source: Source, budget: int | None) -> Iterator[Any]:
    seen = 0
    try:
        for _, line in lines_of(source):
            seen += len(line)
            if budget is not None and seen > budget:
                return
            if (value := _parsed(line)) is not None:
                yield value
    except DAMAGE:
        return


def _blocks(source: Source, budget: int) -> Iterator[Any]:
    size = source.size
    with source.path.open("rb") as stream:
        start = stream.read(min(size, budget, 1 << 20))
        line = len(start) / max(1, start.count(b"\n"))
        block = min(max(budget // _BLOCKS, int(_LINES_A_BLOCK * line)), _LARGEST_BLOCK, size)
        count = max(_FEWEST_BLOCKS, budget // block)
        for i in range(count):
            stream.seek(i * (size - block) // (count - 1))
            # The first line of a block is a part of one, and so is the last.
            for raw in stream.read(block).split(b"\n")[1 if i else 0:-1]:
                if (value := _parsed(raw)) is not None:
                    yield value
