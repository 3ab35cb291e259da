"""The table of requests: numbers only, filled by the table engine where it can read a file, by Python where not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from probes.requests.database import Database, named, quoted
from probes.requests.plan import FAILED, NOTHING, REASONS, Plan, column_type, expressions, reason_sql
from probes.requests.shapes import Bad, Row
from probes.requests.sources import Source, is_parquet
from probes.requests.text_sample import drawn_blocks

COLUMNS: Mapping[str, str] = {
    "a": "BIGINT", "e": "BIGINT", "q": "BIGINT", "s": "BIGINT", "l": "BIGINT", "p": "INTEGER", "o": "INTEGER",
    "ttft": "DOUBLE", "tpot": "DOUBLE", "lat": "DOUBLE", "run": "DOUBLE", "cached": "INTEGER", "temp": "DOUBLE",
    "model": "VARCHAR", "id": "UBIGINT",
    "src": "SMALLINT", "bad": "TINYINT",
}
"""Arrival and end (microseconds); queued, scheduled and last token on the engine's own clock (microseconds); prompt and
output tokens, seconds to the first token and per token, latency, running requests at dispatch, cached tokens,
temperature, model, hash of the id, file, why it is none."""
ENGINE_CLOCK = {"q": "queued", "s": "scheduled", "l": "last"}
_BATCH = 50_000
CHUNK = 6_000_000
"""Rows that are looked at together outside of the table engine."""
BLOCK = 1 << 17
"""Values that are worked on at once: what is made of them on the way stays in the processor's cache."""
_MEASURED_BYTES = 1 << 20
_PACKED = 16
"""Times that a trace is longer when unpacked, at most."""
_LIGHT = {"a", "p", "o", "bad"}
"""Columns of a trace and no more: a file of these alone that is within a chunk is never written into a table at all."""
_LINE_BYTES = 16 << 20
"""The longest line the table engine takes: each of its threads holds twice that. Files with longer ones are read in
Python."""


class Table:
    """`r`, with the columns that the files fill."""

    def __init__(self, database: Database, columns: Iterable[str], files: int = 1) -> None:
        self.database = database
        # Which file a row is of is a column to write like any other: one file does without.
        wanted = {*columns, "bad", "src"} if files > 1 else {*columns, "bad"} - {"src"}
        self.columns = [name for name in COLUMNS if name in wanted]
        self._kept: dict[str, np.ndarray] = {}
        self._held = False
        """Whether the rows are the kept arrays, which `r` is a view of."""
        self._rows: int | None = None
        self._good: int | None = None
        kinds = ", ".join(f"{name} {COLUMNS[name]}" for name in self.columns)
        database.execute(f"CREATE TABLE r ({kinds})")

    def of_file(self, number: int) -> str:
        """The condition that a row is of this file."""
        return f"src = {number}" if self.has("src") else "true"

    def change(self, statement: str) -> None:
        """Run an UPDATE: what was kept of the rows is no longer what stands there."""
        self._write()
        self._kept.clear()
        self._rows = self._good = None
        self.database.execute(statement)

    def at_hand(self, column: str) -> np.ndarray | None:
        """The values of a column of the good rows in the order of the log; None where they are too many for that."""
        if not self._held and self.count() > CHUNK:
            return None
        if column not in self._kept:
            good = "" if self.good() == self.count() else " WHERE bad = 0"
            self._kept[column] = self.database.present(f"SELECT {column} AS v FROM r{good}")["v"]
        return self._kept[column]

    def in_order(self, column: str) -> Iterator[np.ndarray]:
        """The same, so many rows at once where they are too many."""
        whole = self.at_hand(column)
        parts = range(0, self.count(), CHUNK) if whole is None else ()
        found = (self.database.present(f"SELECT {column} AS v FROM r WHERE rowid BETWEEN {start} AND "
                                       f"{start + CHUNK - 1} AND bad = 0")["v"] for start in parts)
        yield from (one for one in (found if whole is None else (whole,)) if len(one))

    def ends(self, column: str) -> tuple[int, int, int]:
        """Smallest, largest and number of the values of the good rows; the first two only where there is one."""
        values = self.at_hand(column)
        if values is None:
            low, high, n = self.database.one(f"SELECT min({column}), max({column}), count({column}) FROM r "
                                             "WHERE bad = 0")
            return low, high, n
        return (int(values.min()), int(values.max()), len(values)) if len(values) else (0, 0, 0)

    def has(self, *names: str) -> bool:
        return all(name in self.columns for name in names)

    # --- by the table engine ---------------------------------------------------------------------------------------
    def load(self, plan: Plan, source: Source, number: int, *, tolerant: bool) -> int:
        """Insert a file's rows, unreadable ones marked. Returns the lines that the reader itself could not take."""
        row = self._row(plan, number, tolerant)
        select = ", ".join(f"({row.get(name, 'NULL')})::{COLUMNS[name]} AS {name}" for name in self.columns)
        fields = ", ".join(f"{sql} AS {named(name)}" for name, sql in expressions(plan, tolerant=tolerant).items())
        excess = ", excess" if tolerant and plan.head.container == "csv" else ""
        if plan.head.container == "csv":
            self.database.execute("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
        before = self.count()
        rows = f"SELECT {select} FROM (SELECT {fields}{excess} FROM {reader_sql(plan, source, tolerant=tolerant)})"
        try:
            if not before and _LIGHT.issuperset(self.columns) and _few_lines(source):
                self._hold(rows)
            else:
                # Made from what is read: half as dear as filling a table that is there already.
                into = "INSERT INTO r" if before else "CREATE OR REPLACE TABLE r AS"
                self.change(f"{into} {rows}")
        except self.database.Error:
            if self.count() != before:
                self.change(f"DELETE FROM r WHERE {self.of_file(number)}")
            raise
        return len(self.rejected()) if tolerant and plan.head.container == "csv" else 0

    def _hold(self, rows: str) -> None:
        """Take the rows as arrays."""
        values, missing = self.database.with_gaps(rows)
        self.database.execute("DROP TABLE r")
        self.database.view("r", values, missing)
        self._rows, self._held = len(values["bad"]), True
        if missing or values["bad"].any():
            self._write()
        else:
            self._good, self._kept = self._rows, values

    def _write(self) -> None:
        """Rows that are held as arrays into a table: only there can they be changed."""
        if self._held:
            self._held = False
            self._kept.clear()
            self.database.written("r")

    def rejected(self) -> list[int]:
        """Lines that the last reading of a CSV could not take at all, such as those that are not UTF-8. Only a tolerant
        one goes on without them, and only then is there a table of them."""
        if not self.database.one("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'reject_errors'")[0]:
            return []
        return [int(line) for line, in self.database.execute(
            "SELECT DISTINCT line FROM reject_errors ORDER BY line").fetchall()]

    def _row(self, plan: Plan, number: int, tolerant: bool) -> dict[str, str]:
        have = plan.fields
        row = {"src": str(number), "bad": reason_sql(plan, tolerant=tolerant)}
        for column, name in (("p", "prompt"), ("o", "output"), ("run", "running"), ("cached", "cached"),
                             ("temp", "temperature"), ("model", "model")):
            if name in have:
                row[column] = name if COLUMNS[column] == "VARCHAR" else f"try_cast({name} AS {COLUMNS[column]})"
        if "cached" in have:
            # What no column of whole numbers holds is kept as an impossible one, to be said.
            row["cached"] = "CASE WHEN cached BETWEEN 0 AND 2147483647 THEN cached WHEN cached IS NOT NULL THEN -1 END"
        if "id" in have:
            row["id"] = "hash(id)"
        row.update(_times(set(have)))
        return {name: sql for name, sql in row.items() if name in self.columns}

    def part(self, rows: int) -> str:
        """The table, or for a large one an even part of about so many rows: whole blocks of 2048, always the same."""
        count = self.count()
        return "r" if count < 4 * rows else f"r TABLESAMPLE SYSTEM ({100 * rows / count:.6f} PERCENT) REPEATABLE (1)"

    def count(self) -> int:
        if self._rows is None:
            self._rows = int(self.database.one("SELECT count(*) FROM r")[0])
        return self._rows

    def of(self, number: int) -> int:
        """Rows of a file."""
        if not self.has("src"):
            return self.count()
        return int(self.database.one(f"SELECT count(*) FROM r WHERE src = {number}")[0])

    def good(self) -> int:
        """Rows that are requests."""
        if self._good is None:
            self._good = int(self.database.one("SELECT count(*) FROM r WHERE bad = 0")[0])
        return self._good

    def reasons(self, number: int) -> dict[str, int]:
        """Why rows of a file are no requests, and how many; those of failed requests under `failed`."""
        if self._held:
            return {}
        found = self.database.execute(
            f"SELECT bad, count(*) FROM r WHERE {self.of_file(number)} AND bad <> 0 GROUP BY bad").fetchall()
        return {("failed" if code == FAILED else REASONS[code - 1]): int(n) for code, n in found}

    # --- by Python -------------------------------------------------------------------------------------------------
    def add(self, rows: Iterable[Row], number: int) -> None:
        """Insert rows of Python's making."""
        self._write()
        rows = iter(rows)
        while batch := list(islice(rows, _BATCH)):
            self._rows = self._good = None
            self.database.insert("r", self._arrays(batch, number))

    def _arrays(self, rows: Sequence[Row], number: int) -> dict[str, np.ndarray]:
        def numbers(values: Iterable[float | None], scale: float = 1.0) -> np.ndarray:
            return np.array([np.nan if v is None else v * scale for v in values], dtype=np.float64)

        start = numbers((row.arrival for row in rows), 1e6)
        end, latency = numbers((row.end for row in rows), 1e6), numbers(row.latency for row in rows)
        output, ttft = numbers(row.output for row in rows), numbers(row.ttft for row in rows)
        tpot = numbers(row.tpot for row in rows)
        latency = np.where(np.isnan(latency) & (end >= start), (end - start) / 1e6, latency)
        latency = np.where(np.isnan(latency), ttft + tpot * np.maximum(output - 1, 0), latency)
        end = np.where(np.isnan(end), start + latency * 1e6, end)
        start = np.where(np.isnan(start), end - latency * 1e6, start)
        columns = {
            "a": start, "e": end, **{name: numbers((getattr(row, field) for row in rows), 1e6)
                                     for name, field in ENGINE_CLOCK.items()},
            "p": numbers(row.prompt for row in rows), "o": output, "ttft": ttft, "tpot": tpot, "lat": latency,
            "run": numbers(row.running for row in rows), "cached": numbers(row.cached for row in rows),
            "temp": numbers(row.temperature for row in rows),
            "model": np.array([row.model for row in rows], dtype=object),
            "id": np.array([0 if row.id is None else hash(row.id) & (2**63 - 1) for row in rows], dtype=np.uint64),
            "src": np.full(len(rows), number, dtype=np.int16),
            "bad": np.array([FAILED if row.failed else 0 for row in rows], dtype=np.int8),
        }
        return {name: values for name, values in columns.items() if name in self.columns
                and not (values.dtype == object and all(one is None for one in values))}


def columns_of(plan: Plan) -> set[str]:
    """Columns of the table that a plan fills."""
    names = {"prompt": "p", "output": "o", "running": "run", "cached": "cached", "temperature": "temp",
             "model": "model", "id": "id"}
    return {names[name] for name in plan.fields if name in names} | set(_times(set(plan.fields)))


def blocks(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Arrays in parts of at most BLOCK values."""
    for one in arrays:
        for start in range(0, len(one), BLOCK):
            yield one[start:start + BLOCK]


def _few_lines(source: Source) -> bool:
    """Whether a file's lines are within a chunk, by their length all over it; a Parquet file's are not known."""
    read = lines = 0
    for block in drawn_blocks(source, _MEASURED_BYTES):
        read, lines = read + len(block), lines + block.count(b"\n")
    packed = 1 if source.compression == "none" else _PACKED
    return not is_parquet(source) and source.size * packed * max(1, lines) <= CHUNK * max(1, read)


def _times(have: set[str]) -> dict[str, str]:
    """SQL of the times and durations that the fields at hand allow; the same as `Table._arrays` does for rows."""
    def between(a: str, b: str) -> str:
        return f"CASE WHEN {b} >= {a} THEN ({b} - {a}) / 1e6 END"

    found = {name: field for name, field in ENGINE_CLOCK.items() if field in have}
    ttft = [name for name in ("ttft",) if name in have]
    if {"queued", "first"} <= have:
        ttft.append(between("queued", "first"))
    elif {"arrival", "first"} <= have:
        whole = f"{between('arrival', 'first')}"
        ttft.append(f"CASE WHEN first IS DISTINCT FROM \"end\" THEN {whole} END" if "end" in have else whole)
    latency = [name for name in ("latency",) if name in have]
    if {"queued", "last"} <= have:
        latency.append(between("queued", "last"))
    if {"arrival", "end"} <= have:
        latency.append(between("arrival", '"end"'))
    if "tpot" in have and ttft and "output" in have:
        latency.append(f"({_first(ttft)} + tpot * greatest(output - 1, 0))")
    if ttft:
        found["ttft"] = _first(ttft)
    if "tpot" in have:
        found["tpot"] = "tpot"
    if latency:
        found["lat"] = _first(latency)
    if "arrival" in have:
        found["a"] = "arrival"
        if "end" in have:
            found["e"] = '"end"' if not latency else f'coalesce("end", arrival + ({_first(latency)} * 1e6)::BIGINT)'
        elif latency:
            found["e"] = f"arrival + ({_first(latency)} * 1e6)::BIGINT"
    elif "end" in have:
        found["e"] = '"end"'
        if latency:
            found["a"] = f'"end" - ({_first(latency)} * 1e6)::BIGINT'
    return found


def _first(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"


def reader_sql(plan: Plan, source: Source, *, tolerant: bool) -> str:
    """The table function that reads a file's needed columns."""
    path = quoted(str(source.path))
    packed = "" if source.compression == "none" else f", compression={quoted(source.compression)}"
    head = plan.head
    if head.container == "parquet":
        return f"read_parquet({path})"
    if head.container == "csv":
        needed = {place.parts[0]: column_type(plan, place, tolerant=tolerant)
                  for places in plan.fields.values() for place in places}
        names = [parts[0] for parts in head.keys.values()]
        columns = {name: needed.get(name, "VARCHAR") for name in names}
        quotes = "quote='\"', escape='\"'" if head.quoted else "quote='', escape=''"
        extra = ""
        if tolerant:
            # A row too long or too short is said, never shifted: the first is seen by what is in `excess`.
            columns["excess"] = "VARCHAR"
            extra = ", null_padding=true, ignore_errors=true, store_rejects=true, strict_mode=false"
        return (f"read_csv({path}{packed}, auto_detect=false, header={str(head.header).lower()}, "
                f"delim={quoted(head.delimiter)}, {quotes}{extra}, "
                f"columns={{{_columns(columns)}}})")
    return (f"read_ndjson({path}{packed}, ignore_errors=true, maximum_object_size={_LINE_BYTES}, "
            f"columns={{{_columns(_tree(plan))}}})")


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in columns.items())


def _tree(plan: Plan) -> dict[str, str]:
    """Column types of nested JSON: only the keys that are needed, as structs."""
    tree: dict[str, object] = {}
    for places in plan.fields.values():
        for place in places:
            for parts, kind in place.leaves or ((place.parts, column_type(plan, place, tolerant=True)),):
                here: dict[str, object] = tree
                for part in parts[:-1]:
                    inner = here.get(part)
                    if not isinstance(inner, dict):
                        inner = here[part] = {}
                    here = inner
                here.setdefault(parts[-1], kind)

    def typed(value: object) -> str:
        if isinstance(value, dict):
            return "STRUCT(" + ", ".join(f"{named(name)} {typed(inner)}" for name, inner in value.items()) + ")"
        return str(value)

    return {name: typed(value) for name, value in tree.items()}


def bad_lines(table: Table, plan: Plan, source: Source, limit: int) -> dict[str, list[int]]:
    """For each reason the numbers of the first rows, counted from 1 in the order of the file."""
    fields = ", ".join(f"{sql} AS {named(name)}" for name, sql in expressions(plan, tolerant=True).items())
    fields += ", excess" if plan.head.container == "csv" else ""
    reader = reader_sql(plan, source, tolerant=True)
    found = table.database.execute(
        f"SELECT bad, min(n, {limit}) FROM (SELECT n, {reason_sql(plan, tolerant=True)} AS bad FROM "
        f"(SELECT row_number() OVER () AS n, {fields} FROM {reader})) "
        f"WHERE bad BETWEEN 1 AND {len(REASONS)} GROUP BY bad"
    ).fetchall()
    return {REASONS[code - 1]: [int(n) for n in numbers] for code, numbers in found}


def malformed(table: Table, source: Source) -> int:
    """Lines that are no JSON at all."""
    packed = "" if source.compression == "none" else f", compression={quoted(source.compression)}"
    return int(table.database.one(
        f"SELECT count(*) FROM read_ndjson_objects({quoted(str(source.path))}{packed}, ignore_errors=true, "
        f"maximum_object_size={_LINE_BYTES}) WHERE json IS NULL")[0])


__all__ = ["BLOCK", "COLUMNS", "NOTHING", "Bad", "Table", "bad_lines", "blocks", "columns_of", "malformed",
           "reader_sql"]
