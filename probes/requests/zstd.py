"""Whether a zstd file is all there. The table engine unpacks one without a word of a missing end; frames and blocks say
their length (RFC 8878, section 3.1), so that walking over them tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = bytes(range(0x50, 0x60)), b"\x2a\x4d\x18"
_RLE, _RESERVED = 1, 3
_DICTIONARY_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)
_CHECKSUM_BYTES = 4


def is_whole(path: Path) -> bool:
    """Whether every frame ends where it says."""
    return _walked(path, lambda end: None)


def block_ends(path: Path) -> list[int]:
    """Where the blocks end that are there whole, in bytes from the file's beginning: it can be cut behind each, and
    what stands before it is then unpacked without the rest."""
    found: list[int] = []
    _walked(path, found.append)
    return found


def _walked(path: Path, seen: Callable[[int], object]) -> bool:
    """Over all frames; `seen` is told where each block ends. False where the file ends early or is none."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        while start := stream.read(4):
            if len(start) == 4 and start[0] in _SKIPPABLE[0] and start[1:] == _SKIPPABLE[1]:
                stream.seek(int.from_bytes(stream.read(4), "little"), 1)
            elif start != MAGIC or not _frame(stream, size, seen):
                return False
            if stream.tell() > size:
                return False
    return True


def _frame(stream: IO[bytes], size: int, seen: Callable[[int], object]) -> bool:
    """Over one frame behind its magic number; False where it ends early."""
    head = stream.read(1)
    if not head:
        return False
    single = bool(head[0] & 0x20)
    known = _SIZE_BYTES[head[0] >> 6] or single
    stream.seek((not single) + _DICTIONARY_BYTES[head[0] & 3] + known, 1)
    while len(block := stream.read(3)) == 3:
        told = int.from_bytes(block, "little")
        kind = told >> 1 & 3
        if kind == _RESERVED:
            return False
        stream.seek(1 if kind == _RLE else told >> 3, 1)
        if stream.tell() <= size:
            seen(stream.tell())
        if told & 1:
            stream.seek(_CHECKSUM_BYTES if head[0] & 4 else 0, 1)
            return True
    return False
