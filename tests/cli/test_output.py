"""Files appear together or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

import pytest

from advisor.cli import output
from advisor.cli.output import make_folder, result_folder, write_streamed, write_together
from advisor.cli.provenance import command_line
from profiles.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


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


def test_a_full_disk_names_the_file_that_was_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(InputError) as error:
        write_together({tmp_path / "a": "1"})
    assert str(error.value).startswith(f"cannot write {tmp_path / 'a'}: No space left on device")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused_and_left_as_it_is(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_text("old")
    if kind == "folder":
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "mine").write_text("kept")
    else:
        os.mkfifo(tmp_path / "b")
    with pytest.raises(InputError, match=f"cannot write {tmp_path / 'b'}"):
        write_together({tmp_path / "a": "new", tmp_path / "b": "2"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "b" / "mine").exists() == (kind == "folder")


def test_an_interrupt_while_placing_puts_the_old_files_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).write_text("old")
    real = os.replace

    def interrupted(source: object, target: object) -> None:
        if Path(str(target)).name == "b":
            raise KeyboardInterrupt
        real(str(source), str(target))

    monkeypatch.setattr(output.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old", "b": "old"}


def test_writers_into_one_folder_take_turns(tmp_path: Path) -> None:
    def write(text: str) -> None:
        write_together({tmp_path / name: text for name in "abc"})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, [str(i) for i in range(24)]))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]
    assert len({p.read_text() for p in tmp_path.iterdir()}) == 1


def test_a_folder_held_by_another_writer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(output, "_LOCK_TRIES", 1)
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another run is writing into"):
            write_together({tmp_path / "a": "1"})
    finally:
        os.close(held)
    assert list(tmp_path.iterdir()) == []


def fail_in(folder: Path, *names: str) -> None:
    with result_folder(folder):
        for name in names:
            (folder / name).write_text("{}")
        raise InputError("failed")


def test_a_failed_run_takes_away_the_empty_folders_it_made(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="failed"):
        fail_in(tmp_path / "there" / "new" / "deep")
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]
    with pytest.raises(InputError, match="failed"):
        fail_in(tmp_path / "new", "trial-checkpoint.json")
    assert (tmp_path / "new" / "trial-checkpoint.json").exists()


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--out"):
        make_folder(tmp_path / "file" / "out")
    make_folder(tmp_path / "new" / "deep")
    assert list((tmp_path / "new" / "deep").iterdir()) == []


def test_the_command_of_evidence_carries_no_secret() -> None:
    line = command_line(
        [
            "advise", "--server=u:pw@host:8000", "--server", "http://user:pw@host:8000/metrics?key=abc", "--token",
            "hush", "--api-key=hush",
        ]
    )
    assert line == (
        "specadvise advise '--server=***@host:8000' --server 'http://***@host:8000/metrics' --token '***' "
        "'--api-key=***'"
    )


def test_what_a_killed_run_left_beside_a_file_goes_at_the_next_write(tmp_path: Path) -> None:
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    for name in (f".a.specadvise-{died.pid}-xyz", f".a.specadvise-{os.getpid()}-xyz", f".b.specadvise-{died.pid}-xyz",
                 ".a.specadvise-mine", ".a.backup"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "new").write_text("half")
    write_together({tmp_path / "a": "1"})
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted((
        "a", f".a.specadvise-{os.getpid()}-xyz", f".b.specadvise-{died.pid}-xyz", ".a.specadvise-mine", ".a.backup"))


def test_a_run_that_is_killed_while_it_writes_leaves_nothing_for_long(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    script = ("import os, signal, sys; from pathlib import Path; from advisor.cli import output\n"
              "output.os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
              "output.write_together({Path(sys.argv[1]): 'new'})")
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], check=False, cwd=ROOT)
    assert len(list(tmp_path.iterdir())) == 2
    assert (tmp_path / "a").read_text() == "old"
    write_together({tmp_path / "a": "1"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "1"}


def test_the_folder_of_a_run_that_no_process_id_tells_of_stays_as_long_as_it_is_held(tmp_path: Path) -> None:
    import fcntl

    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    elsewhere = tmp_path / f".a.specadvise-{died.pid}-xyz"
    elsewhere.mkdir()
    held = os.open(elsewhere, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_together({tmp_path / "a": "1"})
        assert elsewhere.exists()
    finally:
        os.close(held)
    write_together({tmp_path / "a": "2"})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_text_that_fails_in_the_making_leaves_the_old_file_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fails(stream: TextIO) -> None:
        stream.write("half")
        raise InputError("no more")

    for path in (tmp_path / "a", tmp_path / "new" / "deep" / "b"):
        with pytest.raises(InputError, match="no more"):
            write_streamed(path, fails)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old"}


def test_nobody_waits_for_a_text_that_is_still_in_the_making(tmp_path: Path) -> None:
    def slow(stream: TextIO) -> None:
        write_together({tmp_path / "other": "2"})
        stream.write("1")

    write_streamed(tmp_path / "slow", slow)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"slow": "1", "other": "2"}
