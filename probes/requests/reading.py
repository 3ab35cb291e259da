"""One file after another into the table of requests, with everything that could not be read counted and placed."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.requests.booleans import numbers_are_booleans
from probes.requests.plan import NO_OBJECT, NOTHING, TOO_LONG, Plan, checked, name_in, row_of
from probes.requests.shapes import Bad, Head, Note, RecordFormat, Row, Total, shown
from probes.requests.signals import LOOKED_AT, LOOKED_AT_BYTES, Signals
from probes.requests.sources import (
    DAMAGE,
    DOCUMENT_BYTES,
    ENDS_EARLY,
    Source,
    is_whole,
    lines_of,
    open_text,
    unpacked,
    whole,
)
from probes.requests.table import Table, bad_lines, malformed
from probes.requests.text_sample import drawn_records
from probes.requests.texts import View, view_of

PLACES_NAMED = 5
_CHUNK = 4 << 20
_QUOTED_LINES = 20
"""Lines that a quoted field may span."""
NOT_JSON, NOT_UTF8 = "not JSON", "not UTF-8"

CountTokens = Callable[[str], float]


@dataclass
class Reading:
    """What was read so far besides the rows."""

    table: Table
    count_tokens: CountTokens
    folder: Path
    model: str | None = None
    """The one model whose requests are wanted."""
    signals: Signals = field(default_factory=Signals)
    totals: list[Total] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)
    failed: int = 0
    counted: int = 0
    """Requests whose tokens were counted or estimated from text."""
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)
    """File to (good, bad)."""

    def note(self, text: str) -> None:
        self.notes[shown(text)] = None

    def refuse(self, reason: str, count: int, source: Source, lines: Iterable[int] = ()) -> None:
        self.bad[reason] += count
        places = self.places.setdefault(reason, [])
        places += [f"{source.shown}:{line}" for line in list(lines)[:max(0, PLACES_NAMED - len(places))]]

    # --- the table engine's way ------------------------------------------------------------------------------------
    def by_table(self, plan: Plan, source: Source, number: int,
                 otherwise: Callable[[Source], None] | None = None) -> None:
        """A file of rows. What the strict reading refuses is read again tolerantly, or in Python where quotes may
        hide a line's end; `otherwise` says how, in place of the plan's own way."""
        container = plan.head.container
        in_python = otherwise or (lambda one: self.in_python(plan, one, number))
        if plan.in_python or (container == "jsonl" and numbers_are_booleans(plan, source)):
            in_python(source)
            return
        if source.compression == "gzip" and not self.table.database.notices_cut_gzip and not is_whole(source):
            source = unpacked(source, self.folder)
            for note in source.notes:
                self.note(note)
        try:
            if container == "csv":
                try:
                    self.table.load(plan, source, number, tolerant=False)
                except self.table.database.Error:
                    if plan.head.quoted:
                        in_python(source)
                        return
                    self._tolerantly(plan, source, number)
                    return
            elif container in ("jsonl", "parquet"):
                self.table.load(plan, source, number, tolerant=True)
            else:
                in_python(source)
                return
        except self.table.database.Error as error:
            if source.compression == "gzip":
                copy = unpacked(source, self.folder)
                for note in copy.notes:
                    self.note(note)
                self.by_table(plan, copy, number, otherwise)
                return
            self.note(f"{source.shown} was read line by line: {str(error).splitlines()[0][:160]}")
            in_python(source)
            return
        self._count_rows(plan, source, number, 0)

    def _tolerantly(self, plan: Plan, source: Source, number: int) -> None:
        rejected = self.table.load(plan, source, number, tolerant=True)
        if rejected:
            self.refuse(NOT_UTF8, rejected, source, self.table.rejected())
        self._count_rows(plan, source, number, rejected)

    def _count_rows(self, plan: Plan, source: Source, number: int, rejected: int) -> None:
        reasons = self.table.reasons(number)
        self.failed += reasons.pop("failed", 0)
        if reasons:
            self._place(plan, source, reasons)
        total = self.table.of(number)
        bad = sum(reasons.values())
        self.lines[source.shown] = (total - bad, bad + rejected)
        self.counted += total - bad if plan.estimated else 0
        if plan.head.container == "jsonl" and view_of(plan.head.first()) is not None:
            self._look(source, plan)

    def _place(self, plan: Plan, source: Source, reasons: dict[str, int]) -> None:
        rejected = self.table.rejected() if plan.head.container == "csv" else []
        rows = bad_lines(self.table, plan, source, PLACES_NAMED)
        lines = _physical(source, {n for found in rows.values() for n in found}, plan.head, set(rejected))
        nothing = reasons.pop(NOTHING, 0)
        for reason, count in reasons.items():
            self.refuse(reason, count, source, [lines.get(n, n) for n in rows.get(reason, [])])
        if nothing:
            torn = malformed(self.table, source) if plan.head.container == "jsonl" else 0
            found = [lines.get(n, n) for n in rows.get(NOTHING, [])]
            if torn:
                self.refuse(NOT_JSON, min(torn, nothing), source, found)
            if nothing > torn:
                self.refuse(NOTHING, nothing - torn, source, () if torn else found)
            reasons["nothing"] = nothing

    def _look(self, source: Source, plan: Plan) -> None:
        found, complete = drawn_records(source, LOOKED_AT_BYTES)
        records, before = list(found), self.signals.n
        self.signals.share = min(1.0, LOOKED_AT / max(1, len(records)))
        for record in records:
            view = view_of(record)
            if view is not None:
                self._offer(view, name_in(record, plan.fields.get("model", ())))
        if not complete or self.signals.share < 1:
            self.note(f"task mix and sampling are from {self.signals.n - before:,} requests drawn from {source.shown}")

    def _offer(self, view: View, model: str | None) -> None:
        if self.model is None or model == self.model:
            self.signals.offer(view)

    # --- Python's way ----------------------------------------------------------------------------------------------
    def in_python(self, plan: Plan, source: Source, number: int) -> None:
        """Rows by the same plan, one record at a time: for JSON documents and tables with quotes."""
        def rows() -> Iterator[Any]:
            for line, record in records_of(plan.head, source, self.note):
                found = record if isinstance(record, Bad) else row_of(plan, record)
                if isinstance(found, Row) and isinstance(record, dict) and plan.head.container != "csv":
                    view = view_of(record)
                    if view is not None:
                        self._offer(view, found.model)
                yield Bad(found.reason, line) if isinstance(found, Bad) else found

        self._take(rows(), source, number)

    def by_records(self, form: RecordFormat, head: Head, number: int, source: Source) -> None:
        """A document or log by its own reader."""
        bad: list[Bad] = []

        def good() -> Iterator[tuple[int, Any]]:
            for line, record in records_of(head, source, self.note, text=form.text):
                if form.text or isinstance(record, dict):
                    yield line, record
                    continue
                # Lists of records are what several tools write; anything else is none.
                for one in record if isinstance(record, list) else [record]:
                    if isinstance(one, dict):
                        yield line, one
                    else:
                        bad.append(Bad(one.reason if isinstance(one, Bad) else NO_OBJECT, line))

        self.signals.share = _share_looked_at(head, source)
        for note in form.notes:
            self.note(note)
        self._take(form.read(good()), source, number, bad)

    def _take(self, found: Iterator[Any], source: Source, number: int, torn: list[Bad] | None = None) -> None:
        good, wrong = 0, Counter[str]()
        placed: dict[str, list[int]] = {}

        def rows() -> Iterator[Row]:
            nonlocal good
            for one in (checked(one) if isinstance(one, Row) else one for one in found):
                if isinstance(one, Row):
                    good += 1
                    self.failed += one.failed
                    yield self._counted(one)
                elif isinstance(one, Bad):
                    wrong[one.reason] += 1
                    if one.line is not None:
                        placed.setdefault(one.reason, []).append(one.line)
                elif isinstance(one, Total):
                    self.totals.append(one)
                    for note in one.notes:
                        self.note(note)
                elif isinstance(one, Note):
                    self.note(one.text)

        self.table.add(rows(), number)
        for one in torn or ():
            wrong[one.reason] += 1
            if one.line is not None:
                placed.setdefault(one.reason, []).append(one.line)
        for reason, count in wrong.items():
            self.refuse(reason, count, source, placed.get(reason, ()))
        self.lines[source.shown] = (good, sum(wrong.values()))

    def _counted(self, row: Row) -> Row:
        view = row.view
        if isinstance(view, View):
            if row.prompt is None or (row.output is None and view.output is not None):
                self.counted += 1
            row.prompt = self.count_tokens(view.prompt) if row.prompt is None else row.prompt
            if row.output is None and view.output is not None:
                row.output = self.count_tokens(view.output)
            self._offer(view, row.model)
            row.view = None
        return row


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
        note(f"{source.shown} {ENDS_EARLY}")


def unwrapped(line: str, key: str) -> str:
    """The line of a log inside a JSON object; the line itself where it is none."""
    if not key or not line.startswith("{"):
        return line
    try:
        inner = json.loads(line)[key]
    except (ValueError, RecursionError, KeyError):
        return line
    return inner if isinstance(inner, str) else line


def _share_looked_at(head: Head, source: Source) -> float:
    """Looking at a text costs more than reading it: of many only so many are looked at."""
    mean = sum(map(len, head.lines)) / len(head.lines) if head.lines else 1.0
    return min(1.0, LOOKED_AT / max(1.0, source.size / max(mean, 1.0)))


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
            yield number, json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            yield number, Bad(NOT_UTF8)
        except (ValueError, RecursionError):
            yield number, Bad(NOT_JSON)


def _items(source: Source) -> Iterator[tuple[int, Any]]:
    """The items of an array as they come, or the one document; a cut end is one bad record."""
    decoder, buffer, count = json.JSONDecoder(), "", 0
    with open_text(source) as stream:
        buffer = stream.read(_CHUNK).lstrip()
        if not buffer.startswith("["):
            try:
                yield 1, json.loads(whole(source, DOCUMENT_BYTES))
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


def _physical(source: Source, rows: set[int], head: Head, rejected: set[int]) -> dict[int, int]:
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
