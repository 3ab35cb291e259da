"""Files that people name are read within a bound, and what is none is one sentence that comes at once."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from profiles.errors import InputError
from profiles.reading import read_whole, refuse_no_file

MOST = 2 * 2**20


def _sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(5 * 2**30)


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


@pytest.mark.parametrize(("make", "said"), [
    (_sparse, "is larger than 2 MiB: expected a thing; name the right file"),
    (lambda path: path.write_bytes(gzip.compress(b"\0" * (MOST + 1))), "unpacked, is larger than 2 MiB"),
    (lambda path: path.write_bytes(gzip.compress(b"abc" * 999)[:-9]), "is a damaged gzip file"),
    (Path.mkdir, "is a folder"),
    (os.mkfifo, "is no regular file"),
    (_link("/dev/zero"), "is no regular file"),
    (_link("nowhere"), "does not exist \\(a link that leads nowhere\\)"),
    (_link("f"), "cannot read"),
    (lambda path: None, "does not exist: expected a thing; check the path"),
])
def test_what_cannot_be_read_whole_is_one_sentence(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    make(tmp_path / "f")
    with pytest.raises(InputError, match=said) as caught:
        read_whole(tmp_path / "f", "a thing", MOST, packed=True)
    assert "\n" not in str(caught.value)


def test_a_name_no_file_can_have_is_one_sentence() -> None:
    for name in ("x" * 5000, "a\0b"):
        with pytest.raises(InputError, match="cannot read"):
            refuse_no_file(Path(name), "a thing")


def test_files_within_the_bound_come_whole_and_unpacked_where_asked(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * MOST)
    assert read_whole(tmp_path / "f", "a thing", MOST) == b"x" * MOST
    packed = gzip.compress(b"text")
    (tmp_path / "g").write_bytes(packed)
    with pytest.raises(InputError, match=r"is a gzip file: expected a thing; unpack it first"):
        read_whole(tmp_path / "g", "a thing", MOST)
    assert read_whole(tmp_path / "g", "a thing", MOST, packed=True) == b"text"


def test_a_pipe_of_the_shell_is_read() -> None:
    end, start = os.pipe()
    os.write(start, b"text")
    os.close(start)
    try:
        assert read_whole(Path(f"/dev/fd/{end}"), "a thing", MOST) == b"text"
    finally:
        os.close(end)


def test_the_path_is_not_shown_where_another_name_stands_for_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_whole(tmp_path / "secret", "a thing", MOST, name="the page")
    assert "the page does not exist" in str(caught.value)
    assert "secret" not in str(caught.value)
