"""Recorded arrivals for `plan --trace`: CSV with a header or JSON lines, read line by line within bounds."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiles.errors import InputError
from profiles.json_text import parse_json
from profiles.reading import refuse_no_file
from profiles.schema import MAX_TOKENS

if TYPE_CHECKING:
    from advisor.capacity.arrivals import Arrivals

COLUMNS = {"arrival_s": 1e11, "prompt_tokens": float(MAX_TOKENS), "output_tokens": float(MAX_TOKENS)}
"""What a request states, and the most it may be; times may count from 1970."""
MAX_REQUESTS = 2_000_000
MAX_LINE_BYTES = 64 * 1024
"""A request is three numbers; a longer line is another kind of file."""
_EXPECTED = f"CSV or JSON lines of {', '.join(COLUMNS)}"


def read_trace(path: Path) -> Arrivals:
    """The trace as arrivals. InputError names the line and what it lacks."""
    from advisor.capacity.arrivals import from_trace

    columns: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for number, row in _rows(path):
        if len(columns["arrival_s"]) == MAX_REQUESTS:
            raise InputError(f"the trace {path} has more than {MAX_REQUESTS:,} requests: expected a part of the day, "
                             "which is repeated where more are simulated; cut it")
        for name, most in COLUMNS.items():
            value = _number(row.get(name))
            if value is None or not 0 <= value <= most:
                raise InputError(f"the trace {path}, line {number}: no usable {name}: expected a number from 0 to "
                                 f"{most:,.0f} in each of {', '.join(COLUMNS)}")
            columns[name].append(value)
    times = columns["arrival_s"]
    if len(times) < 2 or max(times) <= min(times):
        raise InputError(f"the trace {path} has fewer than two requests at different times: expected recorded arrivals")
    return from_trace(times, [int(v) for v in columns["prompt_tokens"]], [int(v) for v in columns["output_tokens"]])


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, row); JSON where the first line begins like an object, else CSV under the first line's names."""
    names: list[str] | None = None
    jsonl = False
    for number, line in _lines(path):
        where = f"the trace {path}, line {number}"
        if names is None:
            jsonl = line.startswith("{")
        if jsonl:
            names = []
            yield number, _json_row(line, where)
            continue
        try:
            cells = next(csv.reader([line]))
        except csv.Error as error:
            raise InputError(f"{where}: no CSV ({error}): expected {_EXPECTED}") from None
        if names is None:
            names = [cell.strip() for cell in cells]
        else:
            yield number, dict(zip(names, cells, strict=False))


def _json_row(line: str, where: str) -> dict[str, Any]:
    try:
        row = parse_json(line, where)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: no JSON ({error.msg}): expected {_EXPECTED}") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: no JSON object: expected {_EXPECTED}")
    return row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers, each within MAX_LINE_BYTES."""
    refuse_no_file(path, f"a trace: {_EXPECTED}", f"the trace {path}")
    try:
        with path.open("rb") as stream:
            number = 0
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise InputError(f"the trace {path}, line {number} is longer than {MAX_LINE_BYTES // 1024} KiB: "
                                     f"expected {_EXPECTED}; name the right file")
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if text:
                    yield number, text
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the trace {path}: {reason}; expected {_EXPECTED}") from error
