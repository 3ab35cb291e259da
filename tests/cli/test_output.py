"""Files appear together or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisor.cli import output
from advisor.cli.output import make_folder, write_together
from advisor.cli.provenance import command_line
from profiles.errors import InputError


def test_all_files_appear_and_nothing_beside_them(tmp_path: Path) -> None:
    write_together({tmp_path / "a": "1", tmp_path / "b": "2"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "1", "b": "2"}


def test_a_file_that_cannot_be_placed_puts_the_old_ones_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "full").write_text("")
    real = os.replace

    def refuse(source: object, target: object) -> None:
        if Path(str(target)).name == "c":
            raise OSError(28, "No space left on device")
        real(str(source), str(target))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output.os, "replace", refuse)
        with pytest.raises(InputError, match="No space left on device"):
            write_together({tmp_path / "a": "new", tmp_path / "new": "x", tmp_path / "c": "3"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "old"


def test_a_disk_that_fills_up_while_writing_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_together({tmp_path / "a": "new", tmp_path / "b": "2"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old"}


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--out"):
        make_folder(tmp_path / "file" / "out")
    make_folder(tmp_path / "new" / "deep")
    assert list((tmp_path / "new" / "deep").iterdir()) == []


def test_the_command_of_evidence_carries_no_secret() -> None:
    line = command_line(
        ["advise", "--server", "http://user:pw@host:8000/metrics?key=abc", "--token", "hush", "--api-key=hush"]
    )
    assert line == "specadvise advise --server 'http://***@host:8000/metrics' --token '***' '--api-key=***'"
