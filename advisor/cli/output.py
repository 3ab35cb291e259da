"""How commands speak: the result on stdout, everything else on stderr; files appear whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import click

from advisor.cli.interrupts import uninterrupted
from profiles.errors import InputError
from profiles.inputs import is_input
from profiles.printable import escaped, masked, plain

if TYPE_CHECKING:
    from rich.console import Console

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
        click.echo(plain(masked(message)), err=True)


def print_json(document: Any, *, one_line: bool = False) -> None:
    """One JSON document on stdout; on a line of its own where several follow one another."""
    text = json.dumps(document, indent=None if one_line else 2, ensure_ascii=not _is_unicode(sys.stdout),
                      allow_nan=False)
    click.echo(escaped(text))


def _is_unicode(stream: TextIO) -> bool:
    """Whether it can hold any character: of another encoding a question mark is all that is left of some."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


class Terminal(NamedTuple):
    """What stdout is shown on."""

    width: int | None
    """Columns to fill, 40 to 120: fewer hold no table. None in a pipe or a file."""
    color: bool
    """A terminal that has not refused it (NO_COLOR, TERM=dumb)."""


def stdout_terminal() -> Terminal:
    """What stdout is shown on, as far as the environment tells."""
    if not sys.stdout.isatty():
        return Terminal(None, False)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Terminal(_columns(), not plain)


def _columns() -> int:
    return max(_FEWEST_COLUMNS, min(_MOST_COLUMNS, shutil.get_terminal_size((80, 24)).columns))


_FEWEST_COLUMNS, _MOST_COLUMNS = 40, 120


def print_text(text: str, color: bool = False) -> None:
    """Text on stdout, its ANSI sequences kept with `color`. What its encoding lacks becomes question marks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), nl=False, color=color or None)


def rich_console() -> Console:
    """A console on stdout: as wide as the terminal, or 120 columns in a pipe."""
    from rich.console import Console

    class ToReader(Console):
        """Says that the reader is gone as everything else does: rich's own way ends with the code of failed checks."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return ToReader(file=sys.stdout, highlight=False, width=_columns() if sys.stdout.isatty() else _MOST_COLUMNS)


def write_whole(path: Path, text: str, *, private: bool = False) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, never half of it.

    private: whether it is its owner's alone to read. InputError names the path and the system's reason (permissions,
    disk full), or that something else than a file is in the way.
    """
    write_together({path: text}, private=private)


@contextmanager
def result_folder(folder: Path) -> Iterator[None]:
    """The folder for results, made if need be and shown to be writable: better to learn it before a long run than
    after it. A run that fails takes away the folders made for it that are still empty."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        make_folder(folder)
        yield
    except BaseException:
        with uninterrupted():
            _remove_empty(made)
        raise


def make_folder(folder: Path) -> None:
    """The folder, made if need be and shown to be writable."""
    if str(folder) == "-":
        raise InputError("--out '-' is stdout, and the results are several files: name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}; choose another folder with "
                         "--out") from error


def write_together(files: Mapping[Path, str], *, private: bool = False) -> None:
    """All files or none: each is written beside its place, then all are renamed; a failure puts the old ones back, and
    a signal waits for the end.

    Links are followed. One run at a time puts files into a folder. InputError names the file and the system's reason,
    or what is in the way: a folder, a device, a file that the command reads.
    """
    _place({path: partial(_put, text) for path, text in files.items()}, private)


def write_streamed(path: Path, write: Callable[[TextIO], object]) -> None:
    """One file as `write_together` writes it, its text made while it is written: `write` gets the stream. What `write`
    raises leaves everything as it was."""
    _place({path: write})


def _put(text: str, stream: TextIO) -> None:
    stream.write(text)


def _place(files: Mapping[Path, Callable[[TextIO], object]], private: bool = False) -> None:
    files = {place_of(path): write for path, write in files.items()}
    made: list[Path] = []
    placing: list[_Placing] = []
    try:
        with uninterrupted():
            for path in files:
                with _named(path):
                    made += [one for one in (path.parent, *path.parent.parents)
                             if not one.exists() and one not in made]
                    path.parent.mkdir(parents=True, exist_ok=True)
        # Under names of their own, so that nobody waits for a text that is long in the making; that may be interrupted.
        for path, write in files.items():
            with _named(path):
                with uninterrupted():
                    placing.append(_Placing(path))
                placing[-1].stage(write, private)
        with ExitStack() as locks:
            with _named(next(iter(files))):
                alone = [locks.enter_context(_only_writer(folder))
                         for folder in sorted({path.parent.resolve() for path in files})]
            with uninterrupted():
                _replace(placing, alone=all(alone))
                _clean(placing)
    except BaseException:
        with uninterrupted():
            _clean(placing)
            _remove_empty(made)
        raise


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system says goes out with the name of the file that was wanted."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; free space or choose another place, "
                         "then run again") from error


def _replace(placing: Sequence[_Placing], *, alone: bool) -> None:
    try:
        for one in placing:
            with _named(one.path):
                if alone:
                    _remove_left_behind(one.path)
                one.keep_old()
                os.replace(one.staged, one.path)
    except BaseException:
        for one in reversed(placing):
            one.undo()
        raise


def _clean(placing: Sequence[_Placing]) -> None:
    for one in placing:
        one.clean()


class _Placing:
    """One file on its way to its place. Only names made here are ever renamed or removed, so that whatever the user
    has put there stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = tempfile.mkdtemp(dir=path.parent, prefix=f"{_beside(path)}{os.getpid()}-")
        self._claim = _claimed(self._folder)
        self.staged = os.path.join(self._folder, "new")
        self._old = os.path.join(self._folder, "old")

    def stage(self, write: Callable[[TextIO], object], private: bool) -> None:
        with open(self.staged, "w", encoding="utf-8", newline="") as stream:
            if private:
                os.chmod(self.staged, 0o600)
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())

    def keep_old(self) -> None:
        """A second name for the file that is there: its place is never empty in between."""
        if not self.path.is_symlink() and not self.path.exists():
            return
        try:
            os.link(self.path, self._old, follow_symlinks=False)
        except (OSError, NotImplementedError):
            # File systems without links.
            shutil.copy2(self.path, self._old, follow_symlinks=False)

    def undo(self) -> None:
        if os.path.lexists(self.staged):
            return
        with suppress(OSError):
            if os.path.lexists(self._old):
                os.replace(self._old, self.path)
            else:
                self.path.unlink(missing_ok=True)

    def clean(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None


def _claimed(folder: str) -> int | None:
    """The folder, open and locked as long as this process lives; None where there are no locks, or another holds it."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _beside(path: Path) -> str:
    """What the name of a folder begins with that is made beside a file while it is written; a process id follows."""
    return f".{path.name[:50]}.specadvise-"


def _remove_left_behind(path: Path) -> None:
    """Take away what runs that were killed while they wrote this file left beside it: a second name of the old one and
    a new one that never got its place. A run of another container has a process id that says nothing here: it still
    holds its folder locked."""
    begin = _beside(path)
    with os.scandir(path.parent) as entries:
        names = [one.name for one in entries if one.name.startswith(begin) and one.is_dir(follow_symlinks=False)]
    for name in names:
        process = name[len(begin):].partition("-")[0]
        if not process.isdecimal() or _runs(int(process)):
            continue
        claim = _claimed(os.path.join(path.parent, name))
        if claim is not None:
            shutil.rmtree(path.parent / name, ignore_errors=True)
            os.close(claim)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        # It is of another user.
        return True
    except (OSError, OverflowError):
        return False
    return True


def place_of(path: Path) -> Path:
    """Where a result of that name goes: links are followed. InputError where something is there that no result may
    replace: a folder, a device, a stream of this process, or a file that the command reads."""
    with _named(path):
        problem = _in_the_way(path)
        if problem is not None:
            raise InputError(f"cannot write {path}: {problem}, then run again")
        return Path(os.path.realpath(path)) if path.is_symlink() else path


def _in_the_way(path: Path) -> str | None:
    """What is there that no result may replace, and what to do; None where nothing is."""
    if str(path) == "-":
        return "stdout has the result already (--format json for a program); name a file"
    if str(path.absolute()).startswith(_NO_PLACE) or (path.exists() and not path.is_file() and not path.is_dir()):
        return "what is there is not a regular file; choose another place"
    if path.is_dir():
        return "a folder of that name is there; move it away or choose another place"
    if is_input(path):
        return "this command reads that very file; choose another place"
    return None


_NO_PLACE = ("/dev/fd/", "/dev/std", "/proc/")


@contextmanager
def _only_writer(folder: Path) -> Iterator[bool]:
    """Holds the folder itself locked, so that no lock file is left behind; False where there are no locks."""
    try:
        import fcntl
    except ImportError:
        yield False
        return
    locked, handle = False, os.open(folder, os.O_RDONLY)
    try:
        for tries_left in range(_LOCK_TRIES, -1, -1):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
                break
            except BlockingIOError:
                if not tries_left:
                    raise InputError(f"another run is writing into {folder}: wait for its end or choose another folder "
                                     "with --out, then run again") from None
                time.sleep(_LOCK_PAUSE_S)
            except OSError:
                # Some network file systems know no locks.
                break
        yield locked
    finally:
        os.close(handle)


_LOCK_PAUSE_S = 0.05
_LOCK_TRIES = 200


def _remove_empty(folders: Sequence[Path]) -> None:
    """Innermost first; one that holds something is kept."""
    for folder in sorted(folders, key=lambda one: -len(one.parts)):
        with suppress(OSError):
            folder.rmdir()
