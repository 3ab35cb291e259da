"""From a format and a file's beginning to what is read from where: once, for the table engine and for Python alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from probes.requests.clock import BEYOND_S, moment, unit_by_size
from probes.requests.shapes import (
    FIELDS,
    SECONDS,
    Bad,
    Doubled,
    Head,
    Place,
    Places,
    Row,
    TableFormat,
    number,
    plain,
    shown,
)
from probes.requests.vocabulary import VOCABULARY
from profiles.errors import InputError
from profiles.once import once
from profiles.schema import MAX_TOKENS

FAILED_WORDS = ("error", "failed", "failure", "timeout", "cancelled", "canceled", "aborted")

NO_PROMPT, NO_OUTPUT, NO_TIME, NO_LATENCY = "no prompt tokens", "no output tokens", "no readable time", "no latency"
ABSURD = "a token count below 0 or beyond belief"
BOOLEAN = "true or false where a number belongs"
TWICE = "a key that stands twice"
NOTHING = "none of the format's columns"
NO_OBJECT = "no JSON object"
BEYOND_BELIEF = "a time or duration beyond belief"
TOO_LONG = "more fields than the header"
REASONS = (NOTHING, NO_PROMPT, NO_OUTPUT, ABSURD, NO_TIME, NO_LATENCY, TOO_LONG)
"""In the order in which they are looked for; the table engine numbers them from 1."""
FAILED = len(REASONS) + 1


@dataclass(frozen=True)
class Resolved:
    """Where one field's values stand in this file."""

    parts: tuple[str, ...]
    unit: str
    """A key of SECONDS, `iso`, `count`, `share`, `name`, or `text`: a length worked out from a text."""
    leaves: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Of a text: where its parts stand, and their types."""
    sql: str = ""
    """Of a text: its tokens, {0}, {1}, ... being the leaves."""


@dataclass(frozen=True)
class Plan:
    """What to read. Several places for one field are tried in turn, row by row."""

    format: TableFormat
    head: Head
    fields: Mapping[str, tuple[Resolved, ...]]
    needs: tuple[str, ...]
    estimated: bool = False
    """Whether lengths are worked out from texts."""

    @property
    def in_python(self) -> bool:
        """Whether it holds times in a writing that only Python's reader knows."""
        times = [plain(".".join(place.parts)) for places in self.fields.values() for place in places
                 if place.unit == "iso" and self.head.container != "parquet"]
        return any(isinstance(text, str) and not _ISO.fullmatch(text.strip()) and moment(text) is not None
                   for key in times for text in self.head.values.get(key, ()))


_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?\s*(Z|UTC|[+-]\d\d(:?\d\d)?)?)?")
"""Times that the table engine reads as Python does."""


def plan_of(form: TableFormat, head: Head) -> Plan:
    """Fields that the file holds; a time's unit is told by its first values where the format does not state it."""
    places: dict[str, tuple[Place, ...]] = dict(form.columns)
    if form.vocabulary:
        places = {**VOCABULARY, **places}
    fields: dict[str, tuple[Resolved, ...]] = {}
    for name, candidates in places.items():
        found = [_resolved(name, one, head) for one in candidates if plain(one.path) in head.keys]
        if found:
            fields[name] = tuple(found) if FIELDS[name] in ("count", "share", "name") else (found[0],)
    needs = tuple(one for one in form.needs if one in fields)
    if "arrival" in fields and "arrival" not in needs:
        needs += ("arrival",)
    return Plan(form, head, fields, needs)


def _resolved(field: str, place: Place, head: Head) -> Resolved:
    key = plain(place.path)
    kind, unit = FIELDS[field], place.unit or FIELDS[field]
    if kind == "time" and unit == "time":
        values = head.values.get(key, ())
        texts = [one for one in values if number(one) is None]
        unit = "iso" if len(texts) * 2 > len(values) else unit_by_size(values)  # type: ignore[assignment]
    return Resolved(head.keys[key], unit)


def mapped(mapping: str) -> Places:
    """`--columns prompt=IN,output=OUT,arrival=T:ms` as places of a format. InputError names the part that is none."""

    def pairs() -> Iterator[tuple[str, tuple[Place, ...]]]:
        for part in mapping.split(","):
            field, equals, column = part.partition("=")
            name, _, unit = column.rpartition(":")
            column, unit = (name, unit) if unit in (*SECONDS, "time") else (column, "")
            if field.strip() not in FIELDS or not equals or not column.strip():
                raise InputError(f"--columns {part.strip()!r}: expected FIELD=COLUMN or FIELD=COLUMN:UNIT with a field "
                                 f"of {', '.join(FIELDS)} and a unit of s, ms, us, ns")
            yield field.strip(), (Place(column.strip(), unit or None),)  # type: ignore[arg-type]

    return once("--columns", pairs())


def mapped_format(mapping: str, head: Head) -> TableFormat:
    """The format that a column mapping makes of a file."""
    places = mapped(mapping)
    missing = [p[0].path for p in places.values() if plain(p[0].path) not in head.keys]
    if missing:
        have = ", ".join(".".join(parts) for parts in list(head.keys.values())[:12])
        raise InputError(f"--columns names {missing[0]!r}, which is no column of {head.name}: it has {have or 'none'}")
    for (place,) in places.values():
        if head.twice(place.path):
            raise InputError(f"--columns names {place.path!r}, and {head.name} has columns of that name at "
                             f"{head.twice(place.path)}: give each a name of its own in its first line")
    if "prompt" not in places and "output" not in places and "arrival" not in places:
        raise InputError("--columns maps no lengths and no times: name at least prompt, output or arrival")
    return TableFormat("mapped", "columns as mapped", lambda _: True, places,
                       tuple(one for one in ("prompt", "output") if one in places), vocabulary=False)


# --- in Python -----------------------------------------------------------------------------------------------------
def row_of(plan: Plan, record: Any) -> Row | Bad:
    """One record by the plan, the same answer as the table engine's."""
    if not isinstance(record, dict):
        return Bad(NO_OBJECT)
    if any(_stands_twice(record, place.parts) for places in plan.fields.values() for place in places):
        return Bad(TWICE)
    values = {name: _value(record, places, time=FIELDS[name] == "time") for name, places in plan.fields.items()}
    if any(isinstance(found, bool) for name in _NEVER_BOOLEAN if name in plan.fields
           for found in _found(record, plan.fields[name])):
        return Bad(BOOLEAN)
    if all(value is None for value in values.values()):
        return Bad(NOTHING)
    for need, reason in (("prompt", NO_PROMPT), ("output", NO_OUTPUT)):
        if need in plan.needs and values.get(need) is None:
            return Bad(reason)
    if any(v is not None and not 0 <= v <= MAX_TOKENS for v in (values.get("prompt"), values.get("output"))):
        return Bad(ABSURD)
    for need, reason in (("arrival", NO_TIME), ("latency", NO_LATENCY)):
        if need in plan.needs and values.get(need) is None:
            return Bad(reason)
    # Judged as they stand, whole only where they are kept: as the table engine does it.
    values = {name: round(v) if FIELDS[name] == "count" and isinstance(v, float) else v for name, v in values.items()}
    latency, ttft = _durations(values)
    return Row(arrival=values.get("arrival"), end=values.get("end"), queued=values.get("queued"),
               scheduled=values.get("scheduled"), last=values.get("last"), prompt=values.get("prompt"),
               output=values.get("output"), ttft=ttft, tpot=values.get("tpot"), latency=latency,
               running=values.get("running"),
               cached=values.get("cached"), temperature=values.get("temperature"), model=values.get("model"),
               id=values.get("id"), failed=_failed(values.get("status"))
               or (plan.format.failed is not None and values.get("output") == 0))


def checked(row: Row) -> Row | Bad:
    """The row as the table can hold it, or why it is none: what a reader found is as wrong as its document."""
    if any(value is not None and not 0 <= value <= MAX_TOKENS for value in (row.prompt, row.output)):
        return Bad(ABSURD)
    if row.cached is not None and not 0 <= row.cached <= MAX_TOKENS:
        row.cached = -1.0
    times = (row.arrival, row.end, row.queued, row.scheduled, row.last, row.latency, row.ttft, row.tpot)
    if any(value is not None and abs(value) > BEYOND_S for value in times):
        return Bad(BEYOND_BELIEF)
    row.model = None if row.model is None else shown(row.model)
    return row


def _durations(values: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Latency and time to first token: stated, or between two times of one clock."""
    def between(start: str, end: str) -> float | None:
        a, b = values.get(start), values.get(end)
        return b - a if a is not None and b is not None and b >= a else None

    latency, ttft = values.get("latency"), values.get("ttft")
    latency = latency if latency is not None else between("queued", "last")
    if ttft is None:
        ttft = between("queued", "first")
    # A first token at the end is that of a response in one piece: it says nothing of the first token.
    if ttft is None and values.get("first") is not None and values.get("first") != values.get("end"):
        ttft = between("arrival", "first")
    return latency, ttft


_NEVER_BOOLEAN = ("prompt", "output", "arrival", "end")


def _stands_twice(record: Mapping[str, Any], parts: tuple[str, ...]) -> bool:
    found: Any = record
    for part in parts:
        if isinstance(found, Doubled) and part in found.twice:
            return True
        found = found.get(part) if isinstance(found, dict) else None
    return False


def _found(record: Mapping[str, Any], places: tuple[Resolved, ...]) -> Iterator[Any]:
    """What stands at each place, None where nothing does."""
    for place in places:
        found: Any = record
        for part in place.parts:
            found = found.get(part) if isinstance(found, dict) else None
        yield found


def _value(record: Mapping[str, Any], places: tuple[Resolved, ...], *, time: bool) -> Any:
    for place, found in zip(places, _found(record, places), strict=True):
        if found is None or found == "":
            continue
        if place.unit == "name":
            return str(found)
        if place.unit == "iso":
            value = moment(found) if isinstance(found, str) else None
        else:
            value = number(found)
            value = value if value is None else value * SECONDS.get(place.unit, 1.0)
            if value is not None and time and abs(value) > BEYOND_S:
                value = None
        if value is not None:
            return value
    return None


def name_in(record: Mapping[str, Any], places: tuple[Resolved, ...]) -> str | None:
    """The name at the first place that holds one."""
    found = _value(record, places, time=False)
    return found if isinstance(found, str) else None


def _failed(status: Any) -> bool:
    if status is None:
        return False
    code = number(status)
    return code >= 400 if code is not None else str(status).lower() in FAILED_WORDS
