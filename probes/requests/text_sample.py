"""Records drawn evenly from a file of lines without reading all of it, for looking at their text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from probes.requests.sources import DAMAGE, Source, opened

_BLOCKS = 64
_LINES_A_BLOCK = 4
"""A block is at least so many lines long: its first and last ones are parts."""
_LARGEST_BLOCK = 8 << 20
_FEWEST_BLOCKS = 4
_PACKED = 8
"""Times that packed text is longer when unpacked, about."""
_BLOCK_BYTES = 1 << 20


def drawn_records(source: Source, budget: int) -> tuple[Iterator[Any], bool]:
    """Parsed records of a file of JSON lines, and whether they are all there are.

    budget: bytes to look at. Of a larger plain file blocks at even distances are read. A packed one cannot be entered
    in the middle: its beginning is read.
    """
    complete = (source.size * _PACKED if source.compression != "none" else source.size) <= budget
    return _records(source, budget, complete), complete


def _records(source: Source, budget: int, complete: bool) -> Iterator[Any]:
    for block in drawn_blocks(source, None if complete else budget):
        for line in block.split(b"\n"):
            if (value := _parsed(line)) is not None:
                yield value


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def drawn_blocks(source: Source, budget: int | None) -> Iterator[bytes]:
    """Whole lines, many at once: all of a file that is within the budget (None: whatever its size), blocks at even
    distances of a larger plain one, the beginning of a larger packed one."""
    if source.compression == "none" and budget is not None and source.size > budget:
        yield from _even_blocks(source, budget)
        return
    seen, rest = 0, b""
    with opened(source) as stream:
        while budget is None or seen < budget:
            try:
                data = stream.read(_BLOCK_BYTES)
            except DAMAGE:
                break
            if not data:
                break
            seen += len(data)
            data = rest + data
            end = data.rfind(b"\n") + 1
            yield data[:end]
            rest = data[end:]
    yield rest


def _even_blocks(source: Source, budget: int) -> Iterator[bytes]:
    size = source.size
    with source.path.open("rb") as stream:
        start = stream.read(min(size, budget, 1 << 20))
        line = len(start) / max(1, start.count(b"\n"))
        block = min(max(budget // _BLOCKS, int(_LINES_A_BLOCK * line)), _LARGEST_BLOCK, size)
        count = max(_FEWEST_BLOCKS, budget // block)
        for i in range(count):
            stream.seek(i * (size - block) // (count - 1))
            data = stream.read(block)
            # The first line of a block is a part of one, and so is the last.
            yield data[data.find(b"\n") + 1 if i else 0:data.rfind(b"\n") + 1]
