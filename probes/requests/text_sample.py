"""Records drawn evenly from a file of lines without reading all of it, for looking at their text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from probes.requests.sources import DAMAGE, Source, lines_of

READ_WHOLE = 32 << 20
"""Files up to this size are read whole."""
_BLOCKS = 64
_BLOCK_BYTES = 512 << 10
_PACKED_LINES_BYTES = 64 << 20


def drawn_records(source: Source) -> tuple[Iterator[Any], bool]:
    """Parsed records of a file of JSON lines, and whether they are all there are.

    Of a large plain file 64 blocks at even distances are read. A packed one cannot be entered in the middle: its
    beginning is read.
    """
    if source.compression != "none":
        return _beginning(source), source.size <= READ_WHOLE // 4
    if source.size <= READ_WHOLE:
        return (value for _, line in lines_of(source) if (value := _parsed(line)) is not None), True
    return _blocks(source), False


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _beginning(source: Source) -> Iterator[Any]:
    seen = 0
    try:
        for _, line in lines_of(source):
            seen += len(line)
            if seen > _PACKED_LINES_BYTES:
                return
            if (value := _parsed(line)) is not None:
                yield value
    except DAMAGE:
        return


def _blocks(source: Source) -> Iterator[Any]:
    size = source.size
    with source.path.open("rb") as stream:
        for i in range(_BLOCKS):
            stream.seek(i * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
            block = stream.read(_BLOCK_BYTES)
            # The first line of a block is a part of one, and so is the last.
            for line in block.split(b"\n")[1 if i else 0:-1]:
                if (value := _parsed(line)) is not None:
                    yield value
