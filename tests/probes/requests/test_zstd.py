"""A zstd file that ends early is told from one that is whole."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from probes.requests import probe_requests
from probes.requests.zstd import is_whole


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
