"""One file after another into the table of requests, with everything that could not be read counted and placed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from probes.requests.misread import numbers_are_booleans, only_python_reads
from probes.requests.plan import NO_OBJECT, NOTHING, TWICE, Plan, checked, name_in, row_of
from probes.requests.queries import bad_lines, malformed
from probes.requests.records import NOT_JSON, NOT_UTF8, physical_lines, records_of
from probes.requests.shapes import Bad, Doubled, Head, Note, RecordFormat, Row, Total, shown
from probes.requests.signals import LOOKED_AT, LOOKED_AT_BYTES, Signals
from probes.requests.sources import Source, damaged, first_line
from probes.requests.table import Table
from probes.requests.text_sample import drawn_records
from probes.requests.texts import View, view_of
from profiles.errors import InputError

PLACES_NAMED = 5
_MEASURED = 50
"""Records whose size tells how many a file has, about."""

CountTokens = Callable[[str], float]
Read = Callable[[Source], None]


@dataclass
class Reading:
    """What was read so far besides the rows."""

    table: Table
    count_tokens: CountTokens
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
        if source.damage:
            # What a line is no longer says less than what happened to its file.
            reason = f"{reason}, in a damaged file"
        self.bad[reason] += count
        places = self.places.setdefault(reason, [])
        places += [f"{source.shown}:{line}" for line in list(lines)[:max(0, PLACES_NAMED - len(places))]]

    # --- the table engine's way ------------------------------------------------------------------------------------
    def by_table(self, plan: Plan, source: Source, number: int, otherwise: Read | None = None) -> None:
        """A file of rows, strictly. What that refuses is read again tolerantly, or in Python where quotes may hide a
        line's end or the table engine would misread a line; `otherwise` says how, in place of the plan's own way."""
        container, refused = plan.head.container, self.table.database.Error
        in_python = otherwise or (lambda one: self.in_python(plan, one, number))
        if plan.in_python or container not in ("csv", "jsonl", "parquet") or (
                container == "jsonl" and numbers_are_booleans(plan, source)):
            in_python(source)
            return
        try:
            self.table.load(plan, source, number, tolerant=False)
        except refused as error:
            if container == "parquet":
                raise damaged(source, "Parquet", error) from error
            self._again(plan, source, number, in_python)
            return
        self._count_rows(plan, source, number, 0)

    def _again(self, plan: Plan, source: Source, number: int, in_python: Read) -> None:
        """A file that the strict reading has refused."""
        database, rejected = self.table.database, 0
        try:
            for_python = plan.head.quoted or (plan.head.container == "jsonl"
                                              and only_python_reads(database, plan, source))
            if not for_python:
                rejected = self.table.load(plan, source, number, tolerant=True)
        except database.Error as error:
            self.note(f"{source.name} was read line by line: {first_line(source, error)}")
            for_python = True
        if for_python:
            in_python(source)
            return
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
        database = self.table.database
        rejected = self.table.rejected() if plan.head.container == "csv" else []
        rows = bad_lines(database, plan, source, PLACES_NAMED)
        lines = physical_lines(source, {n for found in rows.values() for n in found}, plan.head, set(rejected))
        nothing = reasons.pop(NOTHING, 0)
        for reason, count in reasons.items():
            self.refuse(reason, count, source, [lines.get(n, n) for n in rows.get(reason, [])])
        if nothing:
            torn = malformed(database, source) if plan.head.container == "jsonl" else 0
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
            self.note(f"task mix and sampling are from {self.signals.n - before:,} requests drawn from {source.name}")

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

        self.signals.share = _share_looked_at(plan.head, source)
        self._take(rows(), source, number)

    def by_records(self, form: RecordFormat, head: Head, number: int, source: Source) -> None:
        """A document or log by its own reader."""
        if form.refused:
            raise InputError(f"{source.shown} is {form.title}: there are no requests in it; give the log or trace with "
                             "one request a line or record")
        bad: list[Bad] = []

        def good() -> Iterator[tuple[int, Any]]:
            for line, record in records_of(head, source, self.note, text=form.text):
                if form.text or (isinstance(record, dict) and not isinstance(record, Doubled)):
                    yield line, record
                    continue
                # Lists of records are what several tools write; anything else is none.
                for one in record if isinstance(record, list) else [record]:
                    if isinstance(one, Doubled):
                        bad.append(Bad(TWICE, line))
                    elif isinstance(one, dict):
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
                    self.totals.append(replace(one, file=source.shown))
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


def _share_looked_at(head: Head, source: Source) -> float:
    """Looking at a text costs more than reading it: of many only so many are looked at."""
    records = [json.dumps(one, default=str) for one in head.records[:_MEASURED]]
    sizes = [len(one) for one in records or head.lines]
    mean = sum(sizes) / len(sizes) if sizes else 1.0
    return min(1.0, LOOKED_AT / max(1.0, source.size / max(mean, 1.0)))
