"""The records of a file, numbered: lines of text, rows of a table, JSON lines, or the items of a JSON document."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from probes.requests.plan import TOO_LONG
from probes.requests.shapes import Bad, Head, paired
from probes.requests.sources import DAMAGE, DOCUMENT_BYTES, ENDS_EARLY, Source, lines_of, open_text, whole

NOT_JSON, NOT_UTF8 = "not JSON", "not UTF-8"
_CHUNK = 4 << 20
_QUOTED_LINES = 20
"""Lines that a quoted field may span."""


def records_of(head: Head, source: Source, note: Callable[[str], None], *, text: bool = False
               ) -> Iterator[tuple[int, Any]]:
    """Numbered records: lines of text, rows of a table, JSON lines, or the items of a JSON document."""
    try:
        if text:
            for line, data in lines_of(source):
                yield line, unwrapped(data.decode("utf-8", "replace"), head.wrapped).rstrip("\r\n")
        elif head.container == "csv":
            yield from _table_rows(head, source)
        elif head.container == "json":
            yield from _items(source)
        else:
            yield from _json_lines(source)
    except DAMAGE:
        note(f"{source.name} {ENDS_EARLY}")


def unwrapped(line: str, key: str) -> str:
    """The line of a log inside a JSON object; the line itself where it is none."""
    if not key or not line.startswith("{"):
        return line
    try:
        inner = json.loads(line)[key]
    except (ValueError, RecursionError, KeyError):
        return line
    return inner if isinstance(inner, str) else line


def _table_rows(head: Head, source: Source) -> Iterator[tuple[int, Any]]:
    """Rows of a table with quotes. A quoted field may hold line ends; a quote that nothing closes soon is a torn line,
    and takes no other line with it."""
    names = [parts[0] for parts in head.keys.values()]
    lines = ((n, data.decode("utf-8", "replace").rstrip("\r\n").replace("\0", "")) for n, data in lines_of(source))
    waiting: list[tuple[int, str]] = []
    header = head.header
    while True:
        number, line = waiting.pop(0) if waiting else next(lines, (0, ""))
        if not number:
            return
        if not line.strip():
            continue
        record, taken = line, 0
        while record.count('"') % 2 and taken < _QUOTED_LINES:
            if taken == len(waiting):
                more = next(lines, None)
                if more is None:
                    break
                waiting.append(more)
            record += "\n" + waiting[taken][1]
            taken += 1
        row = _fields(record, head.delimiter, strict=bool(taken)) if not record.count('"') % 2 else None
        if taken and (row is None or len(row) != len(names)):
            row, taken = _fields(line, head.delimiter) if not line.count('"') % 2 else None, 0
        del waiting[:taken]
        if header:
            header = False
        elif row is None:
            yield number, Bad("not CSV")
        elif len(row) > len(names):
            yield number, Bad(TOO_LONG)
        else:
            yield number, dict(zip(names, row, strict=False))


def _fields(record: str, delimiter: str, *, strict: bool = False) -> list[str] | None:
    """None where it is no row. strict: nothing but a delimiter may follow a closing quote, as is so where a quote that
    nothing closes meets the one of a later line."""
    try:
        rows = list(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter, strict=strict))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _json_lines(source: Source) -> Iterator[tuple[int, Any]]:
    for number, line in lines_of(source):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line.decode("utf-8"), object_pairs_hook=paired)
        except UnicodeDecodeError:
            yield number, Bad(NOT_UTF8)
        except (ValueError, RecursionError):
            yield number, Bad(NOT_JSON)


def _items(source: Source) -> Iterator[tuple[int, Any]]:
    """The items of an array as they come, or the one document; a cut end is one bad record."""
    decoder, buffer, count = json.JSONDecoder(object_pairs_hook=paired), "", 0
    with open_text(source) as stream:
        buffer = stream.read(_CHUNK).lstrip()
        if not buffer.startswith("["):
            try:
                yield 1, json.loads(whole(source, DOCUMENT_BYTES), object_pairs_hook=paired)
            except (ValueError, RecursionError):
                yield 1, Bad(NOT_JSON)
            return
        place, ended, inside = 1, False, True
        while True:
            while place < len(buffer) and (buffer[place].isspace() or (buffer[place] == "," and inside)):
                place += 1
            # One array after another is what some write a line each.
            if buffer[place:place + 1] == ("]" if inside else "["):
                inside, place = not inside, place + 1
                continue
            try:
                value, after = decoder.raw_decode(buffer, place)
                # A number at the very end of what was read may go on.
                complete = after < len(buffer) or ended
            except (ValueError, RecursionError):
                complete = False
            if complete:
                count += 1
                place = after
                yield count, value
                continue
            more = "" if ended else stream.read(max(_CHUNK, len(buffer) - place))
            if not more:
                if ended:
                    if buffer[place:].strip():
                        yield count + 1, Bad("the document ends in the middle of a record or is damaged there")
                    return
                ended = True
            buffer, place = buffer[place:] + more, 0


def physical_lines(source: Source, rows: set[int], head: Head, rejected: set[int]) -> dict[int, int]:
    """Row numbers of the table engine, which counts no blank, header or refused line, as lines of the file."""
    if not rows or head.container == "parquet":
        return {}
    found: dict[int, int] = {}
    last, row, header = max(rows), 0, head.container == "csv" and head.header
    try:
        for line, data in lines_of(source):
            if not data.strip(b"\r\n") or line in rejected:
                continue
            if header:
                header = False
                continue
            row += 1
            if row in rows:
                found[row] = line
            if row >= last:
                break
    except DAMAGE:
        pass
    return found
