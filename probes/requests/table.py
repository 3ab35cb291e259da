"""The table of requests: numbers only, filled by the table engine where it can read a file, by Python where not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from probes.requests.database import Arrays, Database
from probes.requests.plan import FAILED, REASONS, Plan
from probes.requests.queries import COLUMNS, ENGINE_CLOCK, rows_sql
from probes.requests.shapes import Row
from probes.requests.sources import Source, is_parquet
from probes.requests.text_sample import drawn_blocks

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
        self._ends: dict[str, tuple[int, int, int]] = {}
        self._rising: set[str] = set()
        """Columns that were looked through and hold no value behind a larger one."""
        kinds = ", ".join(f"{name} {COLUMNS[name]}" for name in self.columns)
        database.execute(f"CREATE TABLE r ({kinds})")

    def of_file(self, number: int) -> str:
        """The condition that a row is of this file."""
        return f"src = {number}" if self.has("src") else "true"

    def change(self, statement: str) -> None:
        """Run an UPDATE: what was kept of the rows is no longer what stands there."""
        self._write()
        self._forget()
        self.database.execute(statement)

    def _forget(self) -> None:
        self._kept.clear()
        self._ends.clear()
        self._rising.clear()
        self._rows = self._good = None

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

    def behind(self, column: str) -> int:
        """How many values of the good rows stand behind a larger one in the log they are of."""
        if self.has("src"):
            return self._behind_in_files(column)
        count, last = 0, None
        for values in self.in_order(column):
            count += int(np.count_nonzero(values[1:] < values[:-1])) + (last is not None and bool(values[0] < last))
            last = values[-1]
        if not count:
            self._rising.add(column)
        return count

    def _behind_in_files(self, column: str) -> int:
        count = 0
        before: Arrays = {"v": np.empty(0, np.int64), "src": np.empty(0, np.int16)}
        for start in range(0, self.count(), CHUNK):
            found = self.database.arrays(f"SELECT {column} AS v, src FROM r WHERE rowid BETWEEN {start} AND "
                                         f"{start + CHUNK - 1} AND bad = 0 AND {column} IS NOT NULL")
            values, files = (np.concatenate((before[name], found[name])) for name in ("v", "src"))
            count += int(np.count_nonzero((values[1:] < values[:-1]) & (files[1:] == files[:-1])))
            before = {"v": values[-1:], "src": files[-1:]}
        return count

    def rising(self, column: str) -> np.ndarray | None:
        """The values at hand of a column of which `behind` has found none out of order; None for any other."""
        return self.at_hand(column) if column in self._rising else None

    def ends(self, column: str) -> tuple[int, int, int]:
        """Smallest, largest and number of the values of the good rows; the first two only where there is one."""
        if column not in self._ends:
            self._ends[column] = self._found_ends(column)
        return self._ends[column]

    def _found_ends(self, column: str) -> tuple[int, int, int]:
        values = self.at_hand(column)
        if values is None:
            low, high, n = self.database.one(f"SELECT min({column}), max({column}), count({column}) FROM r "
                                             "WHERE bad = 0")
            return low, high, n
        if not len(values):
            return 0, 0, 0
        low, high = (values[0], values[-1]) if column in self._rising else (values.min(), values.max())
        return int(low), int(high), len(values)

    def has(self, *names: str) -> bool:
        return all(name in self.columns for name in names)

    # --- by the table engine ---------------------------------------------------------------------------------------
    def load(self, plan: Plan, source: Source, number: int, *, tolerant: bool) -> int:
        """Insert a file's rows, unreadable ones marked. Returns the lines that the reader itself could not take."""
        if plan.head.container == "csv":
            self.database.execute("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
        before = self.count()
        rows = rows_sql(plan, source, number, self.columns, tolerant=tolerant)
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
            self._forget()
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
