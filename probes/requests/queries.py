"""A plan as queries of the table engine: where it reads a file's columns, what a row of the table of requests is made
of, and why a row is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from probes.requests.database import Database, named, quoted
from probes.requests.plan import FAILED, FAILED_WORDS, REASONS, Plan, Resolved
from probes.requests.shapes import FIELDS, SECONDS, Head, plain
from probes.requests.sources import Source
from profiles.schema import MAX_TOKENS

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
_LINE_BYTES = 16 << 20
"""The longest line the table engine takes: each of its threads holds twice that. Files with longer ones are read in
Python."""
_ZONE = re.compile(r":\d\d(\.\d+)?\s*([A-Za-z]|[+-]\d\d)")
_ZONED = "TIMESTAMPTZ"
"""A TIMESTAMP passes over the zone that a text states; what states none is taken as UTC (`database.connect`)."""


# --- columns of the file -------------------------------------------------------------------------------------------
def _clock(plan: Plan, place: Resolved) -> str:
    """Reading zones costs as much again as reading the times: only where the file states any."""
    values = plan.head.values.get(plain(".".join(place.parts)), ())
    return _ZONED if any(_ZONE.search(str(value)) for value in values) else "TIMESTAMP"


def column_type(plan: Plan, place: Resolved, *, tolerant: bool) -> str:
    """The type a column is read as. The tolerant reading takes texts and tries to cast them."""
    if place.unit == "name" or (tolerant and plan.head.container == "csv"):
        return "VARCHAR"
    if place.unit == "iso":
        return _clock(plan, place) if plan.head.container == "csv" else "VARCHAR"
    return "BIGINT" if place.unit == "count" and plan.head.container == "csv" else "DOUBLE"


def expressions(plan: Plan, *, tolerant: bool) -> dict[str, str]:
    """SQL of each field of the file, in the units of FIELDS; times in microseconds."""
    return {name: _coalesced([_expression(plan, one, name, tolerant) for one in places])
            for name, places in plan.fields.items()}


def _coalesced(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"


def _expression(plan: Plan, place: Resolved, field: str, tolerant: bool) -> str:
    if place.unit == "text":
        return place.sql.format(*(".".join(map(named, parts)) for parts, _ in place.leaves))
    value = ".".join(map(named, place.parts))
    typed = column_type(plan, place, tolerant=tolerant)
    if tolerant and plan.head.container == "csv":
        # A bare cast would be made by the reader itself, which refuses the row and does not say why.
        value = f"nullif({value}, '')"
    parquet = plan.head.container == "parquet"
    if place.unit == "name":
        return f"nullif({value}::VARCHAR, '')"
    if place.unit == "iso":
        return f"epoch_us({value})" if typed in (_ZONED, "TIMESTAMP") else f"epoch_us(try_cast({value} AS {_ZONED}))"
    if parquet:
        value = f"CASE WHEN typeof({value}) <> 'BOOLEAN' THEN {value} END"
    if typed == "VARCHAR" or parquet:
        value = f"try_cast({value} AS DOUBLE)"
        typed = "DOUBLE"
    scale = SECONDS.get(place.unit, 1.0)
    if FIELDS[field] == "time":
        factor = round(scale * 1e6, 9)
        scaled = value if factor == 1 else f"({value} * {factor!r})"
        return f"try_cast({scaled} AS BIGINT)"
    if FIELDS[field] == "count":
        # Checked and made whole where it is stored: once a row, and only as a DOUBLE or BIGINT until then.
        return value
    finite = f"CASE WHEN isfinite({value}) THEN {value} END"
    return finite if scale == 1 else f"({finite}) * {scale!r}"


def reason_sql(plan: Plan, *, tolerant: bool = False) -> str:
    """SQL of the number of the reason why a row is no request; 0 where it is one, FAILED where it did not succeed."""
    have = plan.fields
    csv = tolerant and plan.head.container == "csv"
    failed = []
    if "status" in have:
        words = ", ".join(f"'{word}'" for word in FAILED_WORDS)
        failed.append(f"coalesce(try_cast(status AS DOUBLE) >= 400 OR lower(status) IN ({words}), false)")
    if plan.format.failed:
        failed.append(plan.format.failed)
    end = " ".join(f"WHEN {condition} THEN {FAILED}" for condition in failed) + " ELSE 0 END"
    lengths = [one for one in ("prompt", "output") if one in have]
    absent = {name: f"({name} IS NULL OR NOT isfinite({name}))" if FIELDS[name] == "count" else f"{named(name)} IS NULL"
              for name in have}
    cases = [(7, "excess IS NOT NULL")] if csv else []
    cases.append((1, " AND ".join(absent.values())))
    cases += [(i, absent[need]) for i, need in ((2, "prompt"), (3, "output")) if need in plan.needs]
    cases += [(4, f"(isfinite({one}) AND {one} NOT BETWEEN 0 AND {MAX_TOKENS})") for one in lengths]
    cases += [(i, absent[need]) for i, need in ((5, "arrival"), (6, "latency")) if need in plan.needs]
    slow = "CASE " + " ".join(f"WHEN {condition} THEN {code}" for code, condition in cases) + " " + end
    # Nearly all rows are good: one test says so, and the reasons are gone through for the others only.
    good = [f"{one} BETWEEN 0 AND {MAX_TOKENS}" if one in lengths else f"{named(one)} IS NOT NULL"
            for one in (*lengths, *(n for n in plan.needs if n not in lengths))]
    if not good or set(lengths) - set(plan.needs):
        return slow
    good += ["excess IS NULL"] if csv else []
    good += [f"NOT ({condition})" for condition in failed]
    return f"CASE WHEN {' AND '.join(good)} THEN 0 ELSE {slow} END"


# --- a row of the table --------------------------------------------------------------------------------------------
def rows_sql(plan: Plan, source: Source, number: int, columns: Sequence[str], *, tolerant: bool) -> str:
    """The query of a file's rows in these columns of the table, `number` being which file it is."""
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
    select = ", ".join(f"({row.get(name, 'NULL')})::{COLUMNS[name]} AS {name}" for name in columns)
    return f"SELECT {select} FROM {_fields_sql(plan, source, tolerant=tolerant)}"


def _fields_sql(plan: Plan, source: Source, *, tolerant: bool, more: Iterable[str] = ()) -> str:
    fields = [*more, *(f"{sql} AS {named(name)}" for name, sql in expressions(plan, tolerant=tolerant).items())]
    fields += [f"{named(_beyond(plan.head))} AS excess"] if tolerant and plan.head.container == "csv" else []
    return f"(SELECT {', '.join(fields)} FROM {reader_sql(plan, source, tolerant=tolerant)})"


def columns_of(plan: Plan) -> set[str]:
    """Columns of the table that a plan fills."""
    names = {"prompt": "p", "output": "o", "running": "run", "cached": "cached", "temperature": "temp",
             "model": "model", "id": "id"}
    return {names[name] for name in plan.fields if name in names} | set(_times(set(plan.fields)))


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
        latency.append(f"({_coalesced(ttft)} + tpot * greatest(output - 1, 0))")
    if ttft:
        found["ttft"] = _coalesced(ttft)
    if "tpot" in have:
        found["tpot"] = "tpot"
    if latency:
        found["lat"] = _coalesced(latency)
    if "arrival" in have:
        found["a"] = "arrival"
        if "end" in have:
            found["e"] = '"end"' if not latency else f'coalesce("end", arrival + ({_coalesced(latency)} * 1e6)::BIGINT)'
        elif latency:
            found["e"] = f"arrival + ({_coalesced(latency)} * 1e6)::BIGINT"
    elif "end" in have:
        found["e"] = '"end"'
        if latency:
            found["a"] = f'"end" - ({_coalesced(latency)} * 1e6)::BIGINT'
    return found


# --- the reader ----------------------------------------------------------------------------------------------------
def reader_sql(plan: Plan, source: Source, *, tolerant: bool) -> str:
    """The table function that reads a file's needed columns."""
    path = quoted(str(source.path))
    packed, head = _packed(source), plan.head
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
            # A row too long or too short is said, never shifted: the first is seen by what is behind its columns.
            columns[_beyond(head)] = "VARCHAR"
            extra = ", null_padding=true, ignore_errors=true, store_rejects=true, strict_mode=false"
        return (f"read_csv({path}{packed}, auto_detect=false, header={str(head.header).lower()}, "
                f"delim={quoted(head.delimiter)}, {quotes}{extra}, "
                f"columns={{{_columns(columns)}}})")
    errors = ", ignore_errors=true" if tolerant else ""
    return (f"read_ndjson({path}{packed}{errors}, maximum_object_size={_LINE_BYTES}, "
            f"columns={{{_columns(_tree(plan))}}})")


def _beyond(head: Head) -> str:
    """A name for what stands behind a row's last column, which none of the file's own columns has."""
    name = "excess"
    while plain(name) in head.keys:
        name += "x"
    return name


def _packed(source: Source) -> str:
    return "" if source.compression == "none" else f", compression={quoted(source.compression)}"


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


# --- what is wrong with a file -------------------------------------------------------------------------------------
def bad_lines(database: Database, plan: Plan, source: Source, limit: int) -> dict[str, list[int]]:
    """For each reason the numbers of the first rows, counted from 1 in the order of the file."""
    rows = _fields_sql(plan, source, tolerant=True, more=("row_number() OVER () AS n",))
    found = database.execute(
        f"SELECT bad, min(n, {limit}) FROM (SELECT n, {reason_sql(plan, tolerant=True)} AS bad FROM {rows}) "
        f"WHERE bad BETWEEN 1 AND {len(REASONS)} GROUP BY bad"
    ).fetchall()
    return {REASONS[code - 1]: [int(n) for n in numbers] for code, numbers in found}


def malformed(database: Database, source: Source) -> int:
    """Lines that are no JSON at all."""
    return int(database.one(f"SELECT count(*) FROM {_objects_sql(source)} WHERE json IS NULL")[0])


def keys_twice(database: Database, plan: Plan, source: Source) -> bool:
    """Whether some line has an object, of those that are read, in which a key stands twice. The table engine takes the
    first of the two and other readers the last."""
    parents = {place.parts[:-1] for places in plan.fields.values() for place in places}
    parents |= {parts[:-1] for places in plan.fields.values() for place in places for parts, _ in place.leaves}
    pointers = {"".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts[:depth])
                for parts in parents for depth in range(len(parts) + 1)}
    keys = [f"json_keys(json, {quoted(pointer)})" if pointer else "json_keys(json)" for pointer in sorted(pointers)]
    twice = " OR ".join(f"len({one}) > len(list_distinct({one}))" for one in keys)
    found: bool = database.one(f"SELECT count(*) > 0 FROM (SELECT 1 FROM {_objects_sql(source)} "
                               f"WHERE json IS NOT NULL AND json_type(json) = 'OBJECT' AND ({twice}) LIMIT 1)")[0]
    return found


def _objects_sql(source: Source) -> str:
    return (f"read_ndjson_objects({quoted(str(source.path))}{_packed(source)}, ignore_errors=true, "
            f"maximum_object_size={_LINE_BYTES})")
