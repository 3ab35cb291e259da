"""Recorded arrivals one by one, for what needs each request and not their statistics. The same formats, names and units
as `probe requests`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.requests import Options
from probes.requests.assembly import tokens_from
from probes.requests.cleaning import clean
from probes.requests.loading import Loaded, loaded
from probes.requests.recognise import UnknownFormat
from probes.requests.vocabulary import VOCABULARY
from profiles.errors import InputError
from profiles.reading import refuse_no_file

_NAMES = {"a": "arrival", "p": "prompt", "o": "output"}
EXPECTED = ("CSV or JSON lines of " + ", ".join(VOCABULARY[field][0].path for field in _NAMES.values())
            + ", or another trace that `probe requests` reads")
_WORDS = {"a": "arrival times", "p": "prompt tokens", "o": "output tokens"}


@dataclass(frozen=True)
class Trace:
    """One vector entry a request, in the order of the file."""

    arrival_s: Any
    """Since 1970, or since the trace's own start."""
    prompt_tokens: Any
    output_tokens: Any
    notes: tuple[str, ...]
    """What a reader of it should know: lengths that are assumed, copies left out."""


def read_trace(path: Path, most: int) -> Trace:
    """Every request of a trace. InputError names the line that is none, and what else no simulation can use: more than
    `most` requests, or requests without a time or a length."""
    name = f"the trace {path}"
    refuse_no_file(path, f"a trace: {EXPECTED}", name)
    try:
        with loaded([str(path)], Options()) as found:
            return _trace(found, name, most)
    except UnknownFormat as error:
        raise InputError(f"{name} is of no known format ({error.seen}): expected {EXPECTED}") from None


def _trace(found: Loaded, name: str, most: int) -> Trace:
    reading, table = found.reading, found.reading.table
    for reason, count in reading.bad.items():
        places = reading.places.get(reason, [])
        line = f", line {places[0].rsplit(':', 1)[-1]}" if places else ""
        more = f" ({count:,} lines in all)" if count > 1 else ""
        raise InputError(f"{name}{line}: {reason}{more}: expected {EXPECTED}; correct it or leave it out")
    for column, words in _WORDS.items():
        if not table.has(column):
            usual = ", ".join(place.path for place in VOCABULARY[_NAMES[column]][:4])
            raise InputError(f"{name} has no {words} (columns such as {usual}): expected {EXPECTED}")
    if table.good() > most:
        raise InputError(f"{name} has more than {most:,} requests: expected a part of the day, which is repeated where "
                         "more are simulated; cut it")
    copies = clean(table, 1, reading.note)
    if copies:
        reading.note(f"{copies:,} copies of earlier lines are left out")
    missing = table.database.one("SELECT " + ", ".join(f"count(*) - count({one})" for one in _NAMES)
                                 + " FROM r WHERE bad = 0")
    for words, absent in zip(_WORDS.values(), missing, strict=True):
        if absent:
            raise InputError(f"{name}: {absent:,} requests have no usable {words}: expected {EXPECTED}; leave them out")
    tokens_from(reading, Options())
    rows = table.database.arrays("SELECT a / 1e6 AS a, p, o FROM r WHERE bad = 0")
    return Trace(rows["a"], rows["p"], rows["o"], tuple(reading.notes))
