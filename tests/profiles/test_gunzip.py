"""A packed file that was cut or damaged is told from a whole one, whichever byte it was."""

from __future__ import annotations

import gzip
import random

import pytest

from profiles.gunzip import BROKEN, ENDS_EARLY, FILLED, FOREIGN, PIECE, WRONG_SUM, gunzipped

TEXT = "".join(f'{{"line": {i}, "x": "{random.Random(i).randbytes(6).hex()}"}}\n' for i in range(300)).encode()
PACKED = gzip.compress(TEXT, mtime=0)


def unpacked(data: bytes, piece: int = PIECE) -> tuple[bytes, str | None]:
    parts, kept = gunzipped(data[at:at + piece] for at in range(0, len(data), piece)), b""
    while True:
        try:
            kept += next(parts)
        except StopIteration as end:
            return kept, end.value


@pytest.mark.parametrize("piece", [PIECE, 1, 7])
@pytest.mark.parametrize(("data", "whole", "fault"), [
    (PACKED, TEXT, None), (PACKED * 2, TEXT * 2, None),
    (PACKED + bytes(40), TEXT, FILLED), (PACKED + b"more", TEXT, FOREIGN),
    (PACKED[:-3], TEXT, ENDS_EARLY), (PACKED[:-8] + bytes(8), TEXT, WRONG_SUM),
])
def test_what_is_wrong_is_said_and_what_can_be_unpacked_is_there(data: bytes, whole: bytes, fault: str | None,
                                                                 piece: int) -> None:
    assert unpacked(data, piece) == (whole, fault)


def test_every_flipped_byte_is_noticed_or_changes_nothing() -> None:
    for place in range(2, len(PACKED)):
        data = bytearray(PACKED)
        data[place] ^= 0x10
        kept, fault = unpacked(bytes(data))
        assert fault in (BROKEN, WRONG_SUM, ENDS_EARLY) or kept == TEXT, place


def test_every_cut_is_noticed() -> None:
    for size in range(3, len(PACKED)):
        kept, fault = unpacked(PACKED[:size])
        assert fault == ENDS_EARLY
        assert TEXT.startswith(kept)
