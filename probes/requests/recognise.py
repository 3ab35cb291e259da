"""Which format a file is of, by its beginning."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from probes.requests.database import connect, quoted
from probes.requests.formats import formats
from probes.requests.shapes import Format, Head, RecordFormat, number, plain
from probes.requests.sources import DOCUMENT_BYTES, HEAD_BYTES, Source, damaged, head_of, is_parquet, lines_of, whole
from probes.requests.vocabulary import VOCABULARY
from profiles.errors import InputError

_RECORDS = 200
_LONG = 5
"""Lines that are read of a file whose first one is very long."""
_KEYS = 1000
"""Keys of one object that are looked at: some documents are keyed by request."""
_LINES = 2000
_DEPTH = 4
_NAME_CHARS = 80
_RARE = 5
"""A text with an object in fewer than one of so many lines is a text."""
_WRAPPERS = ("log", "message", "msg", "MESSAGE", "@message", "textPayload", "line", "body")
"""Keys under which containers, journals and collectors put a line of a log."""
_SAME_WIDTH = 0.6
"""Share of lines with as many fields as the header, for a file to be taken as a table."""


def head(source: Source) -> Head:
    """The beginning of a file, parsed as what it looks like."""
    if is_parquet(source):
        return _parquet(source)
    data = head_of(source)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    cut = len(data) >= HEAD_BYTES
    lines = [line for line in text.split("\n")[:-1 if cut else None] if line.strip()][:_LINES]
    if not lines:
        lines = [text]
    start = text.lstrip()[:1]
    if start in ("{", "[") or _objects(lines[:20]):
        found = _json(source, lines, text, cut)
        if found is not None:
            return _log_inside(found) or found
    table = _csv(source.shown, lines)
    return table if table is not None else Head(source.shown, "text", lines=tuple(lines))


def _log_inside(found: Head) -> Head | None:
    """The log whose lines these objects wrap, where a format for logs knows it."""
    if found.container != "jsonl" or any(found.has(place.path) for place in VOCABULARY["prompt"]):
        # Requests with their tokens are what they say they are, whatever their users write.
        return None
    for key in _WRAPPERS:
        lines = tuple(one[key] for one in found.records if isinstance(one.get(key), str))
        if len(lines) * 2 > len(found.records):
            head = Head(found.name, "text", lines=lines, wrapped=key)
            if any(isinstance(form, RecordFormat) and form.text and form.recognises(head) for form in formats()):
                return head
    return None


def _objects(lines: Sequence[str]) -> list[Any]:
    found = []
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, (dict, list)):
            found.append(value)
    return found


def _json(source: Source, lines: Sequence[str], text: str, cut: bool) -> Head | None:
    name = source.shown
    records = [one for one in _objects(lines[:_RECORDS]) if isinstance(one, dict)]
    # A pretty-printed document opens with a brace alone; a log of objects may be torn anywhere.
    begins = text.lstrip()
    if records and begins[:1] != "[" and begins[1:].lstrip(" \t\r")[:1] not in ("\n", "") and (
            begins[:1] == "{" or len(records) * _RARE >= len(lines[:_RECORDS])):
        return _of_records(name, "jsonl", records, lines)
    items = list(salvaged(text, _RECORDS))
    if text.lstrip().startswith("["):
        dicts = [one for one in items if isinstance(one, dict)]
        return _of_records(name, "json", dicts, lines) if dicts else None
    if items and not cut:
        return _of_records(name, "json", [one for one in items if isinstance(one, dict)], lines)
    if cut and text.lstrip().startswith("{"):
        return _large(source, lines)
    return _of_records(name, "jsonl", records, lines) if records else None


def _large(source: Source, lines: Sequence[str]) -> Head | None:
    """An object longer than the beginning that is looked at: the first line of several, or a whole document."""
    first = [one for one in _objects([line.decode("utf-8", "replace") for _, line in islice(lines_of(source), _LONG)])
             if isinstance(one, dict)]
    if first:
        return _of_records(source.shown, "jsonl" if len(first) > 1 else "json", first, lines)
    try:
        document = json.loads(whole(source, DOCUMENT_BYTES))
    except (ValueError, RecursionError):
        return None
    return _of_records(source.shown, "json", [document], lines) if isinstance(document, dict) else None


def salvaged(text: str, limit: int | None = None) -> Iterator[Any]:
    """The values of a JSON document, item by item where it is an array, so that a cut one gives those it holds."""
    decoder = json.JSONDecoder()
    place = len(text) - len(text.lstrip())
    inside = text[place:place + 1] == "["
    place += inside
    count = 0
    while limit is None or count < limit:
        while place < len(text) and (text[place].isspace() or (inside and text[place] == ",")):
            place += 1
        if place >= len(text) or (inside and text[place] == "]"):
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        count += 1
        yield value


def _of_records(name: str, container: Any, records: Sequence[dict[str, Any]], lines: Sequence[str]) -> Head:
    keys: dict[str, tuple[str, ...]] = {}
    values: dict[str, list[Any]] = {}

    def walk(record: Mapping[str, Any], parts: tuple[str, ...]) -> None:
        for key, value in islice(record.items(), _KEYS):
            here = (*parts, key)
            known = plain(".".join(here))
            keys.setdefault(known, here)
            if value is not None:
                values.setdefault(known, []).append(value if not isinstance(value, (dict, list)) else None)
            if isinstance(value, dict) and len(here) < _DEPTH:
                walk(value, here)

    for record in records:
        walk(record, ())
    return Head(name, container, keys, {key: tuple(v for v in found if v is not None) for key, found in values.items()},
                tuple(records), tuple(lines))


def _csv(name: str, lines: Sequence[str]) -> Head | None:
    for delimiter in (",", "\t", ";", "|"):
        try:
            rows = list(csv.reader((line.rstrip("\r") for line in lines[:_RECORDS]), delimiter=delimiter))
        except csv.Error:
            continue
        width = len(rows[0]) if rows else 0
        if width < 2 or sum(len(row) == width for row in rows) < _SAME_WIDTH * len(rows):
            continue
        if any(": " in cell or len(cell) > _NAME_CHARS for cell in rows[0]):
            # Sentences with commas are no columns.
            continue
        header = not any(number(cell) is not None for cell in rows[0])
        names = [cell.strip() for cell in rows[0]] if header else [str(i) for i in range(width)]
        known = [plain(one) for one in names]
        names = _apart(names) if header else names
        places = {one: tuple(i for i, other in enumerate(known, 1) if other == one) for one in known if one}
        kept = [row for row in rows[header:] if len(row) == width]
        columns = {plain(one): tuple(row[i] for row in kept) for i, one in enumerate(names)}
        return Head(name, "csv", {plain(one): (one,) for one in names}, columns,
                    tuple(dict(zip(names, row, strict=True)) for row in kept), tuple(lines), delimiter, header,
                    any('"' in line for line in lines),
                    doubled={one: at for one, at in places.items() if len(at) > 1})
    return None


def _apart(names: Sequence[str]) -> list[str]:
    """The same, with the column's number behind those that are empty or that another one before has."""
    found: list[str] = []
    taken = {plain(one) for one in names}
    for i, name in enumerate(names):
        if not plain(name) or any(plain(name) == plain(one) for one in found):
            name = f"{name or 'column'}_{i}"
            while plain(name) in taken:
                name += "_x"
            taken.add(plain(name))
        found.append(name)
    return found


def _parquet(source: Source) -> Head:
    with connect() as database:
        try:
            result = database.execute(f"SELECT * FROM read_parquet({quoted(str(source.path))}) LIMIT {_RECORDS}")
            names = [column[0] for column in result.description]
            records = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        except database.Error as error:
            raise damaged(source, "Parquet", error) from error
    found = _of_records(source.shown, "parquet", records, ())
    return found if records else Head(source.shown, "parquet", {plain(one): (one,) for one in names})


class UnknownFormat(InputError):
    """A file that no format takes; `seen` is what it holds instead."""

    def __init__(self, name: str, columns: str) -> None:
        self.seen = f"its columns are {columns}" if columns else (
            "it is neither a table, nor JSON, nor the log of a vLLM server")
        advice = ": map them with --columns arrival=NAME,prompt=NAME,output=NAME" if columns else ""
        super().__init__(f"{name} is of no known format; {self.seen}{advice}")


def format_of(found: Head) -> Format:
    """The first format that takes it. InputError names what is known and how to map columns."""
    for one in formats():
        if one.recognises(found):
            return one
    columns = ", ".join(".".join(parts) for parts in list(found.keys.values())[:12])
    raise UnknownFormat(found.name, columns)


def named_format(name: str) -> Format:
    """A format by its name. InputError lists those there are."""
    for one in formats():
        if one.name == name:
            return one
    raise InputError(f"--as {name!r} is no format: expected one of {', '.join(sorted(one.name for one in formats()))}")
