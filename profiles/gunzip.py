"""Gzip files, unpacked as far as they can be, and what is wrong with one that cannot be to its end: no reader of gzip
in the standard library says all of that.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Any

GZIP = b"\x1f\x8b"
"""How such a file begins."""
PIECE = 1 << 16
"""Bytes to hand over at once: what they unpack to stays within a bound."""
ENDS_EARLY = "ends early"
WRONG_SUM = "fails its own checksum"
"""All of it can be unpacked, and is not what was packed."""
BROKEN = "is damaged inside"
FOREIGN = "holds something else behind its end"
FILLED = ""
"""Nothing is wrong with it: zeros fill it up."""
_SUM_ERRORS = ("incorrect data check", "incorrect length check")
_WITH_HEAD = 31
"""zlib's word for a gzip file with its head and checksum."""


def gunzipped(pieces: Iterable[bytes]) -> Generator[bytes, None, str | None]:
    """What can be unpacked of a gzip file, member by member, up to where it is cut or damaged. Returns what is wrong
    with it, one of the names above; None where nothing is."""
    unpacker, begun, members, filled = zlib.decompressobj(wbits=_WITH_HEAD), False, 0, False
    # Whether anything came of the member that is being unpacked.
    gave = False
    for rest in pieces:
        while rest:
            rest = rest if begun else rest.lstrip(b"\0")
            if filled := not rest:
                break
            before = unpacker.copy()
            try:
                part = unpacker.decompress(rest)
            except zlib.error as error:
                # Of a piece with damage in it nothing is unpacked: byte by byte what stands before the damage is.
                saved = b"".join(_bytewise(before, rest))
                yield saved
                if members and not gave and not saved:
                    return FOREIGN
                return WRONG_SUM if any(one in str(error) for one in _SUM_ERRORS) else BROKEN
            yield part
            gave = gave or bool(part)
            begun, rest = not unpacker.eof, unpacker.unused_data if unpacker.eof else b""
            if unpacker.eof:
                unpacker, members, gave = zlib.decompressobj(wbits=_WITH_HEAD), members + 1, False
    return ENDS_EARLY if begun else FILLED if filled else None


def _bytewise(unpacker: Any, rest: bytes) -> Iterator[bytes]:
    for place in range(len(rest)):
        try:
            yield unpacker.decompress(rest[place:place + 1])
        except zlib.error:
            return
