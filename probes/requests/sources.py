"""The files behind the arguments: globs, stdin, compression, other encodings; each ends as one readable path."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, cast

from probes.requests import zstd
from profiles import gunzip
from profiles.errors import InputError
from profiles.gunzip import GZIP, PIECE, gunzipped
from profiles.reading import file_key, refuse_no_file

Compression = Literal["none", "gzip", "zstd"]
HEAD_BYTES = 1 << 18
DOCUMENT_BYTES = 512 << 20
"""The largest JSON document that is not a list: it is parsed as a whole."""
_CHUNK = 1 << 20
_ZSTD_LINE = 32 << 20
ENDS_EARLY = f"{gunzip.ENDS_EARLY}: what could be unpacked of it was read"
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
"""What a compressed file that is cut or damaged raises while it is read."""
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class Source:
    """One file to read. `shown` is the name the user gave; notes say what was done to it first."""

    path: Path
    shown: str
    compression: Compression = "none"
    notes: tuple[str, ...] = ()
    damage: str = ""
    """What is wrong with it as a packed file, to go behind its name; empty where nothing is."""

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def name(self) -> str:
        """What notes and evidence call it: a folder tells more than it should."""
        return Path(self.shown).name

    def noted(self, what: str) -> Source:
        """The same with one more note, which begins with its name."""
        return replace(self, notes=(*self.notes, f"{self.name} {what}"))

    def harmed(self, fault: str, line: int) -> Source:
        """The same, of which no more than up to this line could be unpacked, or all of it with damage in it."""
        where = (f"{fault}, some of its {max(1, line - 1):,} lines are damaged" if fault == gunzip.WRONG_SUM
                 else f"{fault}, in line {line:,}")
        return replace(self.noted(f"{where}: what could be unpacked of it was read"), damage=where)


def expand(names: Sequence[str], folder: Path) -> list[Source]:
    """The files that `names` mean: paths, globs, `-` for stdin; `folder` is for copies that have to be made. A file
    that several of them lead to is one.

    InputError where nothing is found, a file is empty or cannot be read.
    """
    found: list[Source] = []
    seen: dict[object, int] = {}
    for name in names:
        if name == "-":
            found.append(_prepared(_spooled(folder), "stdin", folder))
            continue
        paths = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not paths:
            raise InputError(f"no file is called {name!r}, and as a pattern it matches none: check the path")
        for path in paths:
            if os.path.isdir(path):
                raise InputError(f"{path} is a folder: name its files, as in {os.path.join(path, '*.jsonl')!r}")
            refuse_no_file(Path(path), "a log or trace of requests")
            first = seen.setdefault(file_key(Path(path)), len(found))
            if first < len(found):
                found[first] = found[first].noted(f"is named more than once (also as {Path(path).name}): it is read "
                                                  "once")
            else:
                found.append(_prepared(Path(path), path, folder))
    return found


def _spooled(folder: Path) -> Path:
    path = folder / "stdin"
    with path.open("wb") as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept, _CHUNK)
    return path


def _prepared(path: Path, shown: str, folder: Path) -> Source:
    try:
        if not path.is_file():
            # A pipe or a process substitution can be read once only.
            copy = folder / f"copy-{len(os.listdir(folder))}"
            with path.open("rb") as stream, copy.open("wb") as kept:
                shutil.copyfileobj(stream, kept, _CHUNK)
            path = copy
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as error:
        raise InputError(f"cannot read {shown}: {error.strerror or error}; check the path and its "
                         "permissions") from error
    source = Source(path, shown)
    if start.startswith(GZIP):
        source = _sound_gzip(replace(source, compression="gzip"), folder)
    elif start.startswith(zstd.MAGIC):
        source = _said_zstd(replace(source, compression="zstd"), folder)
    first = head_of(source, 4)
    if not first.strip():
        _refuse_blank(source)
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if first.startswith(mark):
            return _transcoded(source, encoding, folder)
    return source


def _refuse_blank(source: Source) -> None:
    with opened(source) as stream:
        if any(chunk.strip() for chunk in iter(lambda: stream.read(_CHUNK), b"")):
            return
    raise InputError(f"{source.shown} is empty: expected a log or trace of requests")


def damaged(source: Source, kind: str, error: Exception | None = None) -> InputError:
    """What to say of a file that cannot be read at all; error: what its reader says."""
    why = ": nothing in it can be unpacked" if error is None else f" ({first_line(source, error)})"
    return InputError(f"{source.shown} is a damaged {kind} file{why}; fetch it again")


def first_line(source: Source, error: Exception) -> str:
    """What the table engine says, without the folder of the file."""
    return str(error).splitlines()[0].replace(str(source.path), source.name)[:160]


def _said_zstd(source: Source, folder: Path) -> Source:
    try:
        if head_of(source, 1):
            return source if zstd.is_whole(source.path) else source.noted(ENDS_EARLY)
    except InputError:
        return _sound_zstd(source, folder)
    if zstd.is_whole(source.path):
        return source
    raise damaged(source, "zstd")


def _sound_zstd(source: Source, folder: Path) -> Source:
    """A copy of the longest beginning that can be unpacked: the table engine gives up a file with damage in it as a
    whole, and takes one that is cut between two blocks for all there is."""
    copy, ends = folder / f"unpacked-{len(os.listdir(folder))}", zstd.block_ends(source.path)

    def unpacks(blocks: int) -> bool:
        with source.path.open("rb") as packed, copy.open("wb") as kept:
            kept.write(packed.read(ends[blocks - 1]))
        try:
            with opened(replace(source, path=copy)) as stream:
                return all(True for _ in iter(lambda: stream.read(_CHUNK), b""))
        except InputError:
            return False

    good, bad = 0, 1
    while bad <= len(ends) and unpacks(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, len(ends) + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if unpacks(middle) else (good, middle)
    if not good or not unpacks(good):
        raise damaged(source, "zstd")
    with opened(replace(source, path=copy)) as stream:
        lines = sum(part.count(b"\n") for part in iter(lambda: stream.read(_CHUNK), b""))
    return replace(source, path=copy).harmed(gunzip.BROKEN, lines)


def _sound_gzip(source: Source, folder: Path) -> Source:
    """The file where it unpacks to its end, else a copy of what can be unpacked of it, and why. Reading it through
    costs less than reading what is in it."""
    if _copied(_gunzipped(source), lambda part: None) is None:
        return source
    copy, lines = folder / f"unpacked-{len(os.listdir(folder))}", 1
    with copy.open("wb") as kept:
        def keep(part: bytes) -> None:
            nonlocal lines
            lines += part.count(b"\n")
            kept.write(part)

        fault = _copied(_gunzipped(source), keep)
    if not copy.stat().st_size:
        raise damaged(source, "gzip")
    source = replace(source, path=copy, compression="none")
    if fault == gunzip.FOREIGN:
        return source.noted(f"{fault}, which was left out")
    return source.harmed(fault, lines) if fault else source


def _copied(parts: Generator[bytes, None, str | None], write: Callable[[bytes], object]) -> str | None:
    """Hand on all parts; what the generator returns."""
    while True:
        try:
            part = next(parts)
        except StopIteration as end:
            return cast("str | None", end.value)
        write(part)


def _gunzipped(source: Source) -> Generator[bytes, None, str | None]:
    with source.path.open("rb") as packed:
        return (yield from gunzipped(iter(lambda: packed.read(PIECE), b"")))


def _transcoded(source: Source, encoding: str, folder: Path) -> Source:
    copy = folder / f"utf8-{len(os.listdir(folder))}"
    with opened(source) as stream, copy.open("w", encoding="utf-8", newline="") as kept:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
        shutil.copyfileobj(text, kept, _CHUNK)
    return replace(source, path=copy, compression="none").noted(f"is {encoding.upper()}")


class _Joined(io.RawIOBase):
    """Lines that the table engine unpacks, as a stream of bytes: the standard library has no zstd before 3.14."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines, self._rest = lines, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            try:
                self._rest = next(self._lines)
            except StopIteration:
                return 0
        taken = self._rest[:len(buffer)]
        buffer[:len(taken)] = taken
        self._rest = self._rest[len(taken):]
        return len(taken)


def _zstd_lines(source: Source) -> Iterator[bytes]:
    from probes.requests.database import connect, quoted

    with connect() as database:
        try:
            result = database.execute(
                f"SELECT line FROM read_csv({quoted(str(source.path))}, compression='zstd', auto_detect=false, "
                "header=false, delim=chr(1), quote='', escape='', strict_mode=false, ignore_errors=true, "
                f"max_line_size={_ZSTD_LINE}, buffer_size={2 * _ZSTD_LINE}, "
                "columns={'line': 'VARCHAR'})")
            while rows := result.fetchmany(4096):
                yield b"".join((line or "").encode("utf-8", "replace") + b"\n" for line, in rows)
        except database.Error as error:
            raise damaged(source, "zstd", error) from error


def opened(source: Source) -> IO[bytes]:
    """The file unpacked."""
    if source.compression == "gzip":
        return cast(IO[bytes], gzip.open(source.path))
    if source.compression == "zstd":
        return io.BufferedReader(_Joined(_zstd_lines(source)), _CHUNK)
    return source.path.open("rb")


def head_of(source: Source, size: int = HEAD_BYTES) -> bytes:
    """The first bytes, unpacked; those before the damage where there is some."""
    found = b""
    if source.compression == "gzip":
        for part in _gunzipped(source):
            found += part
            if len(found) >= size:
                break
        return found[:size]
    try:
        with opened(source) as stream:
            while len(found) < size and (chunk := stream.read(min(size - len(found), 1 << 16))):
                found += chunk
    except DAMAGE:
        pass
    return found


def lines_of(source: Source) -> Iterator[tuple[int, bytes]]:
    """Numbered lines, unpacked. Only \\n ends one: U+2028 and its kind are ordinary characters inside a text."""
    with opened(source) as stream:
        for number, line in enumerate(stream, 1):
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def whole(source: Source, limit: int) -> bytes:
    """All of it; InputError above `limit` bytes."""
    with opened(source) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"{source.shown} is one JSON document of more than {limit >> 20} MiB: write its requests as "
                         "one JSON object a line")
    return data.removeprefix(codecs.BOM_UTF8)


def is_parquet(source: Source) -> bool:
    with source.path.open("rb") as stream:
        return stream.read(4) == _PARQUET


def open_text(source: Source) -> IO[str]:
    """The file as text, unpacked; bytes that are no UTF-8 are replaced."""
    return io.TextIOWrapper(opened(source), encoding="utf-8-sig", errors="replace", newline="\n")
