"""A zstd file that ends early is told from one that is whole."""

from __future__ import annotations

import random
import re
from pathlib import Path

import duckdb
import pytest

from probes.requests import probe_requests
from probes.requests.zstd import block_ends, is_whole
from profiles.errors import InputError


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Synthetic lines that pack badly, so that they take several blocks."""
    draw, folder = random.Random(0), tmp_path_factory.mktemp("zstd")
    (folder / "a.jsonl").write_text("".join(
        f'{{"timestamp": {1000 * i}, "input_length": {draw.randint(1, 9000)}, "output_length": {draw.randint(1, 900)}, '
        f'"x": "{draw.randbytes(40).hex()}"}}\n' for i in range(6000)))
    duckdb.read_csv(str(folder / "a.jsonl"), delimiter="\x01", header=False, quotechar="", escapechar="",
                    columns={"line": "VARCHAR"}, auto_detect=False).write_csv(
        str(folder / "a.zst"), sep="\x01", header=False, compression="zstd", quotechar="", escapechar="")
    return (folder / "a.zst").read_bytes()


def test_a_whole_file_is_whole_and_no_part_of_it_is(packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(packed)
    assert is_whole(path)
    path.write_bytes(packed * 2)
    assert is_whole(path)
    for size in [*range(1, len(packed), len(packed) // 97), len(packed) - 1]:
        path.write_bytes(packed[:size])
        assert not is_whole(path), size


def test_what_can_be_unpacked_is_read_and_the_missing_end_is_said(packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(packed)
    whole = probe_requests([str(path)])
    assert (whole.requests, any("ends early" in note for note in whole.notes)) == (6000, False)
    path.write_bytes(packed[:len(packed) * 2 // 3])
    part = probe_requests([str(path)])
    assert 1000 < part.requests < 6000
    assert any("ends early" in note for note in part.notes)


def test_a_file_with_damage_in_it_gives_what_stands_before_that_and_says_in_which_line_reading_stopped(
        packed: bytes, tmp_path: Path) -> None:
    path, told = tmp_path / "a.zst", 0
    for place in range(len(packed) // 5, len(packed), len(packed) // 12):
        spoilt = packed[:place] + bytes(40) + packed[place + 40:]
        path.write_bytes(spoilt)
        try:
            found = probe_requests([str(path)])
        except InputError as error:
            said = [str(error)]
        else:
            # Frames without a checksum, as these are, may unpack to another text: its lines are then bad ones.
            said = [*(note for note in found.notes if note.startswith("a.zst ")), *found.skipped]
            assert found.requests <= 6000
        assert said, place
        told += bool(re.search("is damaged inside, in line|is a damaged zstd file", " ".join(said)))
    assert told


def test_blocks_end_where_a_file_can_be_cut(packed: bytes, tmp_path: Path) -> None:
    path, before = tmp_path / "a.zst", -1
    path.write_bytes(packed)
    ends = block_ends(path)
    assert len(ends) > 2
    assert ends == sorted(ends)
    assert ends[-1] <= len(packed)
    for end in ends:
        path.write_bytes(packed[:end])
        found = probe_requests([str(path)]).requests
        assert found >= before
        before = found
    assert before == 6000
