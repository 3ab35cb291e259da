"""How commands speak: the result on stdout, everything else on stderr; files appear whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from profiles.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def format_option(*formats: str) -> Callable[[F], F]:
    """`--format`, the first being the default."""
    return click.option("--format", "output_format", type=click.Choice(formats), default=formats[0], show_default=True,
                        help="How the result is printed on stdout.")


def quiet_option(command: F) -> F:
    """`-q/--quiet`: no progress on stderr."""
    return click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")(command)


def say(message: str, quiet: bool = False) -> None:
    """One line of progress on stderr."""
    if not quiet:
        click.echo(message, err=True)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def write_whole(path: Path, text: str) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, never half of it.

    InputError names the path and the system's reason (permissions, disk full).
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; free space or choose another place, "
                         "then run again") from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def make_folder(folder: Path) -> None:
    """The folder, made if need be and shown to be writable: better to learn it before a long run than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}; choose another folder with "
                         "--out") from error


def write_together(files: Mapping[Path, str]) -> None:
    """All files or none: each is written beside its place, then all are renamed; a failure puts the old ones back.

    InputError names the file and the system's reason.
    """
    staged: list[tuple[Path, Path]] = []
    kept: list[tuple[Path, Path]] = []
    placed: list[Path] = []
    path = next(iter(files))
    try:
        for path, text in files.items():
            beside = path.with_name(f".{path.name}.new-{os.getpid()}")
            staged.append((beside, path))
            write_whole(beside, text)
        for beside, path in staged:
            if path.exists():
                before = path.with_name(f".{path.name}.old-{os.getpid()}")
                os.replace(path, before)
                kept.append((before, path))
            os.replace(beside, path)
            placed.append(path)
    except BaseException as error:
        for done in placed:
            done.unlink(missing_ok=True)
        for before, was in kept:
            os.replace(before, was)
        kept.clear()
        if isinstance(error, OSError):
            raise InputError(f"cannot write {path}: {error.strerror or error}; free space or choose another place with "
                             "--out, then run again") from error
        raise
    finally:
        for leftover, _ in (*staged, *kept):
            leftover.unlink(missing_ok=True)
