"""Files that people name, read within a bound: a folder, a device that never ends, a pipe that nobody writes to or some
gigabytes of the wrong file are one sentence each, whoever reads them.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from profiles.errors import InputError
from profiles.gunzip import GZIP, PIECE, gunzipped
from profiles.inputs import key_of, note_input
from profiles.schema import shown

_SHELL_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Pipes that the shell made, for `<(command)` and the like: they have a writer."""


def refuse_no_file(path: Path, expected: str, name: str | None = None) -> None:
    """InputError unless `path` leads to a regular file, or to a pipe that the shell made: any other pipe would wait for
    a writer for ever, and a device may never end. The file is one of the command's inputs from here on.

    expected: what should be there, such as "a YAML file". name: stands for the path in messages.
    """
    name = str(path) if name is None else name
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        dangling = " (a link that leads nowhere)" if path.is_symlink() else ""
        raise InputError(f"{name} does not exist{dangling}: expected {expected}; check the path (the working folder is "
                         f"{_working_folder()})") from None
    except (OSError, ValueError) as error:
        raise _cannot_read(name, error, expected) from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{name} is a folder: expected {expected}; name the file inside it")
    if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and str(path).startswith(_SHELL_PIPES)):
        raise InputError(f"{name} is no regular file: expected {expected}; name the right file")
    note_input(path)


def file_key(path: Path) -> object:
    """What is the same for all names and links that lead to one file, and no other's; the path where none is there."""
    return key_of(path) or path


def read_whole(path: Path, expected: str, most: int, *, packed: bool = False, name: str | None = None) -> bytes:
    """All of a file of at most `most` bytes. Links are followed.

    packed: whether a gzip file is unpacked, within the same bound; else one is refused. name: stands for the path in
    messages.

    InputError where it is missing, a folder, a device or pipe, too large, or a damaged gzip file.
    """
    refuse_no_file(path, expected, name)
    name = str(path) if name is None else name
    try:
        with path.open("rb") as stream:
            # One byte more than allowed tells "too large" without trusting the size a special file reports.
            data = stream.read(most + 1)
    except (OSError, ValueError) as error:
        raise _cannot_read(name, error, expected) from None
    refuse_too_large(data, most, name, expected)
    if not data.startswith(GZIP):
        return data
    if not packed:
        raise InputError(f"{name} is a gzip file: expected {expected}; unpack it first (gunzip), or name the right "
                         "file")
    return _unpacked(data, most, name, expected)


def _unpacked(data: bytes, most: int, name: str, expected: str) -> bytes:
    parts, kept, size = gunzipped(data[at:at + PIECE] for at in range(0, len(data), PIECE)), list[bytes](), 0
    fault = None
    while size <= most:
        try:
            kept.append(next(parts))
        except StopIteration as end:
            fault = end.value
            break
        size += len(kept[-1])
    whole = b"".join(kept)
    refuse_too_large(whole, most, f"{name}, unpacked,", expected)
    if fault:
        line = whole.count(b"\n") + 1
        raise InputError(f"{name} is a damaged gzip file: it {fault}, and reading stopped in line {line:,}; expected "
                         f"{expected}: fetch it again, or unpack what can be saved")
    return whole


def read_stdin(expected: str, most: int) -> bytes:
    """All that comes on stdin, at most `most` bytes; InputError where there is more."""
    data = sys.stdin.buffer.read(most + 1)
    refuse_too_large(data, most, "stdin", expected)
    return data


def refuse_too_large(data: bytes | str, most: int, name: str, expected: str) -> None:
    """InputError where more was read than is allowed."""
    if len(data) > most:
        raise InputError(f"{name} is larger than {most // 2**20} MiB: expected {expected}; name the right file")


def _cannot_read(name: str, error: Exception, expected: str) -> InputError:
    # A name that Python itself refuses holds a NUL character.
    reason = getattr(error, "strerror", None) or "no file can have that name"
    return InputError(f"cannot read {shown(name)}: {reason}; expected {expected}; check the path and its permissions")


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "one that is gone"
