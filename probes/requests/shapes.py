"""What formats are made of: where a column's values stand, in which unit, and how a file is recognised by content.

Two kinds of format. A `TableFormat` names columns only: the rows are read by the table engine (`table.py`) without a
Python object per row. A `RecordFormat` turns parsed documents into `Row`s or into one `Total` in Python, for what is
nested, aggregated or free text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

Unit = Literal["s", "ms", "us", "ns", "time", "count", "name", "share"]
"""`time` is an ISO text or a number whose size tells its unit."""

Statistic = Literal["mean", "median"]

FIELDS: Mapping[str, Unit] = {
    "arrival": "time", "end": "time", "queued": "time", "scheduled": "time", "first": "time", "last": "time",
    "latency": "s", "ttft": "s", "tpot": "s", "prompt": "count", "output": "count", "cached": "count",
    "running": "count", "model": "name", "id": "name", "status": "name", "temperature": "share",
}
"""Everything that the table of requests may hold, with the unit it is kept in."""

SECONDS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Place:
    """One name a column goes by: a CSV header or a dotted path of keys, and the unit its values are in."""

    path: str
    unit: Unit | None = None
    """None: the field's own unit."""


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A column name as it is compared: case, spaces, dashes and underscores make no difference, so that promptTokens
    is prompt_tokens."""
    return re.sub(r"[\s\-_]+", "", name.strip().lower())


@dataclass(frozen=True)
class Head:
    """The beginning of a file: enough to recognise it and to tell the unit of its times."""

    name: str
    container: Literal["csv", "jsonl", "json", "parquet", "text"]
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Plain name of each column or dotted path to its parts as they are written."""
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The first values of each, by the same plain name."""
    records: tuple[Any, ...] = ()
    """The first parsed records; the document itself where there is only one."""
    lines: tuple[str, ...] = ()
    delimiter: str = ","
    header: bool = True
    quoted: bool = False
    """Whether quotation marks are in what was looked at."""
    wrapped: str = ""
    """The key under which each JSON object holds a line of a log, where a container or collector wrapped it."""
    doubled: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Plain names that several columns of a table have, to where these stand, from 1. `keys` has the first of them."""

    def twice(self, name: str) -> str:
        """`2 and 4`, the columns of that name; empty where there is one at most."""
        return " and ".join(map(str, self.doubled.get(plain(name), ())))

    def doubled_notes(self) -> Iterator[str]:
        """What is said of columns that share a name."""
        for name in self.doubled:
            yield (f"{self.name.rpartition('/')[2]}: columns {self.twice(name)} are called "
                   f"{shown('.'.join(self.keys[name]))}, and the first of them counts: give each a name of its own")

    def has(self, *names: str) -> bool:
        return all(plain(name) in self.keys for name in names)

    def first(self) -> Mapping[str, Any]:
        found = next((one for one in self.records if isinstance(one, dict)), {})
        return found if isinstance(found, dict) else {}


Recogniser = Callable[[Head], bool]
Places = Mapping[str, tuple[Place, ...]]


@dataclass(frozen=True)
class TableFormat:
    """Rows of flat or nested columns. `columns` adds to or overrides the general vocabulary."""

    name: str
    title: str
    recognises: Recogniser
    columns: Places = field(default_factory=dict)
    needs: tuple[str, ...] = ("prompt", "output")
    """Fields without which a row is unreadable; those that the file lacks altogether are not asked for."""
    failed: str | None = None
    """SQL condition on the fields' names for a request that failed, where the format has its own way to say it."""
    notes: tuple[str, ...] = ()
    vocabulary: bool = True
    """Whether fields that `columns` does not name are looked for under the general names."""
    rank: int = 50
    """Lower ones are asked first."""


@dataclass(slots=True)
class Row:
    """One request as numbers. Times are seconds on the file's own clock, durations seconds."""

    arrival: float | None = None
    end: float | None = None
    prompt: float | None = None
    output: float | None = None
    ttft: float | None = None
    tpot: float | None = None
    latency: float | None = None
    queued: float | None = None
    scheduled: float | None = None
    last: float | None = None
    """These three are on the engine's own clock."""
    running: float | None = None
    cached: float | None = None
    temperature: float | None = None
    model: str | None = None
    id: str | None = None
    failed: bool = False
    view: Any = None
    """The request's text (`texts.View`), for the reader to look at and let go."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Something that should have been a request and is none."""

    reason: str
    line: int | None = None


@dataclass(frozen=True)
class Total:
    """What a document says of many requests at once, where it holds no rows. Times are seconds."""

    requests: int = 0
    failed: int = 0
    duration: float | None = None
    rate: float | None = None
    prompt: Mapping[str, float] = field(default_factory=dict)
    """mean, p50, p90, p95, p99, max: those that are known."""
    output: Mapping[str, float] = field(default_factory=dict)
    ttft: float | None = None
    tpot: float | None = None
    latency: float | None = None
    statistic: Statistic = "mean"
    """What the three times before it are over the requests."""
    concurrency: Mapping[str, float] = field(default_factory=dict)
    concurrency_basis: str = ""
    lengths_note: str = ""
    """What to know of these lengths, where they are used."""
    models: tuple[str, ...] = ()
    engine: Mapping[str, Any] | None = None
    """What a server log says of the engine: throughput, versions, speculation."""
    notes: tuple[str, ...] = ()
    file: str = ""
    """The name of the file it stands in, as the user gave it."""


def nothing_succeeded(failed: int, models: tuple[str, ...] = ()) -> Total:
    """A run of which no request succeeded: the zeros that tools write then are no measurements."""
    return Total(failed=failed, models=models, notes=("no request succeeded: nothing was measured",))


@dataclass(frozen=True)
class Note:
    """Something to tell the user once."""

    text: str


Found = Row | Bad | Total | Note


@dataclass(frozen=True)
class RecordFormat:
    """Documents or lines that are read in Python. `read` gets (line number, parsed record) pairs, or (line number,
    text) where `text` is set."""

    name: str
    title: str
    recognises: Recogniser
    read: Callable[[Iterator[tuple[int, Any]]], Iterator[Found]]
    text: bool = False
    notes: tuple[str, ...] = ()
    rank: int = 50
    as_columns: Callable[[Head], Any] | None = None
    """The plan (`plan.Plan`) by which the table engine reads the file where no tokenizer is asked for, or None."""
    refused: bool = False
    """Whether such a file is taken for a request log by mistake; `title` says what it is."""


Format = TableFormat | RecordFormat


def shown(text: str, most: int = 300) -> str:
    """Text of a log as evidence may hold it: one line of it, without what no UTF-8 has."""
    return encodable(" ".join(text.split())[:most])


def encodable(text: str) -> str:
    """The text with question marks for halves of surrogate pairs, which a cut emoji leaves and no UTF-8 has."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def number(value: Any) -> float | None:
    """A finite number, or None; numerals in texts count."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found == found and abs(found) != float("inf") else None


class Doubled(dict[str, Any]):
    """A JSON object with keys that stand twice: it has the last value of each, and nobody knows which was meant."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.twice = frozenset(key for key, count in counts.items() if count > 1)


def paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object as the parsers of JSON are to build it (`object_pairs_hook`)."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else Doubled(pairs)


def at(record: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.split("."):
        if not isinstance(record, dict):
            return None
        if part not in record:
            return None
        record = record[part]
    return record
