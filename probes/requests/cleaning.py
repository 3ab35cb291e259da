"""The faults that clocks, units and double logging leave in a log: taken out or set aside, and said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from probes.requests.clock import EPOCH_FROM_S
from probes.requests.table import Table
from profiles.schema import MAX_CONCURRENCY, MAX_SECONDS, MAX_TEMPERATURE, MAX_TOKENS

_COARSE = 4096
_FAR_S = 86_400.0
_NO_TIME_S = 4.9e9
"""The year 2125, and a longer run than any."""
_FAR_WIDTHS = 20.0
_SAMPLED = 20_000
_LOOKED_THROUGH = 20_000_000
"""Above so many rows ids are not looked at: that needs every row at once."""
Note = Callable[[str], None]


def clean(table: Table, files: int, note: Note) -> int:
    """Take out identical copies, put files' clocks one after the other, set far-off times aside; say all of it.

    Returns the number of copies taken out.
    """
    copies = _copies(table, note)
    _impossible(table, note)
    if table.has("a"):
        _order(table, note)
        _line_up(table, files, note)
        _far_off(table, note)
        _other_units(table, note)
        if table.has("e"):
            wrong = table.database.one("SELECT count(*) FROM r WHERE bad = 0 AND e < a")[0]
            if wrong:
                note(f"{wrong:,} requests end before they start (clocks that differ): their durations are not used")
                table.change("UPDATE r SET e = NULL WHERE e < a")
    return copies


def _copies(table: Table, note: Note) -> int:
    if not table.has("id") or table.count() > _LOOKED_THROUGH:
        return 0
    same = [name for name in ("a", "p", "o") if table.has(name)]
    total, ids = table.database.one("SELECT count(*), count(DISTINCT id) FROM r WHERE bad = 0 AND id <> 0")
    if total == ids:
        return 0
    copies = 0
    if "a" in same:
        key = ", ".join(("id", *same))
        copies = int(table.database.one(
            "SELECT coalesce(sum(n - 1), 0) FROM "
            f"(SELECT count(*) AS n FROM r WHERE bad = 0 AND id <> 0 GROUP BY {key})")[0])
        if copies:
            table.change(
                f"UPDATE r SET bad = 100 WHERE bad = 0 AND id <> 0 AND rowid NOT IN (SELECT min(rowid) FROM r "
                f"WHERE bad = 0 AND id <> 0 GROUP BY {key})")
    if total - ids - copies:
        note(f"{total - ids - copies:,} requests repeat an id of another one with other numbers (retries, or ids that "
             "start anew): each counts")
    return copies


_POSSIBLE = {
    "ttft": ("times to the first token (s)", 0.0, MAX_SECONDS),
    "tpot": ("times per output token (s)", 0.0, MAX_SECONDS),
    "lat": ("latencies (s)", 0.0, MAX_SECONDS), "run": ("running requests", 0.0, MAX_CONCURRENCY),
    "cached": ("cached tokens", 0.0, MAX_TOKENS), "temp": ("temperatures", 0.0, MAX_TEMPERATURE),
}
"""What a figure of a request is called, and between which values it can be."""


def _impossible(table: Table, note: Note) -> None:
    """Figures beside the lengths that no request can have are said and not used; the request counts."""
    there = [name for name in _POSSIBLE if table.has(name)]
    if not there:
        return
    # NaN is above every number here.
    wrong = {name: f"{name} NOT BETWEEN {_POSSIBLE[name][1]} AND {_POSSIBLE[name][2]}" for name in there}
    counts = table.database.one("SELECT " + ", ".join(f"count(*) FILTER (WHERE {one})" for one in wrong.values())
                                + " FROM r WHERE bad = 0")
    for (name, condition), count in zip(wrong.items(), counts, strict=True):
        if count:
            words, low, high = _POSSIBLE[name]
            note(f"{count:,} {words} are not between {low:g} and {high:,.0f}: they are not used, their requests count")
            # An end follows from a latency where the log states none.
            also = ", e = NULL" if name == "lat" and table.has("e") else ""
            table.change(f"UPDATE r SET {name} = NULL{also} WHERE bad = 0 AND {condition}")


def _order(table: Table, note: Note) -> None:
    back = table.behind("a")
    if back:
        note(f"{back:,} requests stand behind a later one in the log: the order is not used, the times are")


def _line_up(table: Table, files: int, note: Note) -> None:
    """Traces that count from their own start are laid one after the other."""
    if files < 2:
        return
    spans = table.database.execute("SELECT src, min(a), max(a) FROM r WHERE bad = 0 AND a IS NOT NULL GROUP BY 1 "
                                   "ORDER BY 1").fetchall()
    relative = [one for one in spans if abs(one[2]) < EPOCH_FROM_S * 1e6]
    if len(spans) < 2 or not relative:
        return
    if len(relative) < len(spans):
        names = len(relative)
        note(f"{names} of the files count time from their own start and the others state dates: the times of those "
             f"{names} are not used")
        for src, *_ in relative:
            _forget_times(table, f"src = {src}")
        return
    note("the files count time from their own starts: they are laid one after the other")
    place = 0
    moved = [name for name in ("a", "e") if table.has(name)]
    for src, first, last in spans:
        shift = place - first
        table.change(f"UPDATE r SET {', '.join(f'{name} = {name} + ({shift})' for name in moved)} "
                     f"WHERE src = {src}")
        place += last - first


def _far_off(table: Table, note: Note) -> None:
    """Times that are days and twenty widths away from nearly all others are a clock's fault, not traffic."""
    low, high, n = table.ends("a")
    if n and max(-low, high) > _NO_TIME_S * 1e6:
        far = f"bad = 0 AND abs(a) > {int(_NO_TIME_S * 1e6)}"
        note(f"{table.database.one(f'SELECT count(*) FROM r WHERE {far}')[0]:,} requests have times beyond any "
             "calendar: their times are not used, their lengths are")
        _forget_times(table, far)
        low, high, n = table.ends("a")
    for _ in range(3):
        if n < 10 or (high - low) / 1e6 <= _FAR_S:
            return
        if n > _SAMPLED and not _far_off_in_part(table, low, high, n):
            return
        width = max(1, (high - low) // (_COARSE - 1))
        found = table.database.arrays(f"SELECT (a - {low}) // {width} AS b, count(*) AS n FROM r "
                                      "WHERE bad = 0 AND a IS NOT NULL GROUP BY 1 ORDER BY 1")
        bins, ends = found["b"].astype(np.int64), np.cumsum(found["n"])
        trimmed = max(1, int(0.005 * n))
        first = bins[np.searchsorted(ends, trimmed, side="right")]
        last = bins[np.searchsorted(ends, n - trimmed - 1, side="right")]
        span = int(last - first + 1) * width
        reach = max(_FAR_WIDTHS * span, _FAR_S * 1e6)
        least, most = low + int(first) * width - int(reach), low + int(last + 1) * width + int(reach)
        far = f"bad = 0 AND (a < {least} OR a > {most})"
        count = table.database.one(f"SELECT count(*) FROM r WHERE {far}")[0]
        if not count:
            return
        note(f"{count:,} requests have times far from all others (a clock that is off, or 0 for unknown): their times "
             "are not used, their lengths are")
        _forget_times(table, far)
        low, high, n = table.ends("a")


def _other_units(table: Table, note: Note) -> None:
    """Dates beside times that are none: some lines are in another unit, or say 0 for unknown. The fewer ones go."""
    low, high, n = table.ends("a")
    date = int(EPOCH_FROM_S * 1e6)
    if not n or not low < date <= high:
        return
    early = table.database.one(f"SELECT count(*) FROM r WHERE bad = 0 AND a < {date}")[0]
    fewer = "<" if early * 2 <= n else ">="
    note(f"{min(early, n - early):,} requests have times of another unit than the others (dates, and times before "
         "1990): their times are not used, their lengths are")
    _forget_times(table, f"bad = 0 AND a {fewer} {date}")


def _forget_times(table: Table, where: str) -> None:
    table.change(f"UPDATE r SET a = NULL{', e = NULL' if table.has('e') else ''} WHERE {where}")


def _far_off_in_part(table: Table, low: int, high: int, n: int) -> bool:
    """Whether nearly all of an even part of the rows lies in a twentieth of the time: only then all are looked at."""
    values = table.at_hand("a")
    if values is not None:
        part = np.sort(values[::len(values) // _SAMPLED])
        trimmed = len(part) // 200
        first, last = int(part[trimmed]), int(part[-1 - trimmed])
    else:
        first, last = table.database.one(
            f"SELECT quantile_disc(a, 0.005), quantile_disc(a, 0.995) FROM {table.part(_SAMPLED)} "
            "WHERE bad = 0 AND a IS NOT NULL")
        if first is None:
            return True
    return bool((last - first) * _FAR_WIDTHS < high - low)
