"""The table engine: duckdb with bounded memory, spilling to a folder of its own."""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from profiles.errors import InputError

MEMORY = "400MB"
"""Of the table engine alone; what does not fit goes to disk."""
THREADS = 4
"""Each thread buffers tens of MB while it reads."""

Arrays = dict[str, npt.NDArray[Any]]


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def named(name: str) -> str:
    """An identifier as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


class Database:
    """One in-memory database; `close` removes what it spilled."""

    def __init__(self) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise InputError("reading request logs needs duckdb: install it with `pip install duckdb`") from error
        self.Error: type[Exception] = duckdb.Error
        self._folder = tempfile.TemporaryDirectory(prefix="specadvise-")
        threads = min(THREADS, os.cpu_count() or 1)
        self._connection = duckdb.connect(config={
            "memory_limit": MEMORY, "temp_directory": self._folder.name, "threads": threads,
            # Files come from anywhere: nothing is loaded or fetched because of what stands in them.
            "autoinstall_known_extensions": False, "autoload_known_extensions": False,
        })
        # Token counts and minutes have few values: grouping by them is an array look-up then.
        self._connection.execute("SET perfect_ht_threshold = 22")
        self._connection.execute("SET enable_progress_bar = false")
        # Times without a zone are UTC, wherever the command runs.
        self._connection.execute("SET TimeZone = 'UTC'")

    def execute(self, query: str) -> Any:
        return self._connection.execute(query)

    def one(self, query: str) -> tuple[Any, ...]:
        # All of it: a result that is not read to its end holds the connection.
        return tuple((self._connection.execute(query).fetchall() or [()])[0])

    def arrays(self, query: str) -> Arrays:
        """Columns as arrays; missing values as NaN or masked ones filled by the caller."""
        return {name: np.asarray(column) for name, column in self._connection.execute(query).fetchnumpy().items()}

    def present(self, query: str) -> Arrays:
        """Columns as arrays, each without its missing values."""
        found = self._connection.execute(query).fetchnumpy()
        return {name: column.compressed() if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
                for name, column in found.items()}

    def with_gaps(self, query: str) -> tuple[Arrays, Arrays]:
        """Columns as arrays, and for each that lacks values where they are missing (bool, True for none)."""
        # Gathered by all threads and copied once: a stream hands over a little at a time, and arrays grow with it.
        found = self._connection.sql(query).fetchnumpy()
        gaps = {name: np.asarray(column.mask) for name, column in found.items()
                if isinstance(column, np.ma.MaskedArray) and column.mask.any()}
        return {name: np.asarray(column) for name, column in found.items()}, gaps

    def view(self, name: str, columns: Arrays, missing: Arrays) -> None:
        """A view of arrays; `missing` says of some columns where their values are none."""
        gaps = {f"no {column}": gap for column, gap in missing.items()}
        self._connection.register("held", {**columns, **gaps})
        values = ", ".join(f"CASE WHEN {named(f'no {n}')} THEN NULL ELSE {named(n)} END AS {named(n)}" if n in missing
                           else named(n) for n in columns)
        self._connection.execute(f"CREATE VIEW {named(name)} AS SELECT {values} FROM held")

    def written(self, name: str) -> None:
        """A view of arrays as a table of its own."""
        self._connection.execute(f"CREATE TABLE written AS SELECT * FROM {named(name)}")
        self._connection.execute(f"DROP VIEW {named(name)}")
        self._connection.execute(f"ALTER TABLE written RENAME TO {named(name)}")
        self._connection.unregister("held")

    def insert(self, table: str, columns: Arrays) -> None:
        """Rows from arrays; NaN becomes NULL in number columns."""
        names = ", ".join(map(named, columns))
        values = ", ".join(
            f"CASE WHEN isnan({named(n)}) THEN NULL ELSE {named(n)} END" if c.dtype.kind == "f" else named(n)
            for n, c in columns.items())
        self._connection.register("incoming", columns)
        try:
            self._connection.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM incoming")
        finally:
            self._connection.unregister("incoming")

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def connect() -> Database:
    return Database()
