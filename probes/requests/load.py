"""Arrivals and running requests over time, and the faults that clocks and double logging leave in a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.requests.clock import EPOCH_FROM_S
from probes.requests.table import Table, blocks
from profiles.schema import MAX_CONCURRENCY, MAX_SECONDS, MAX_TOKENS
from profiles.traffic import Arrivals

HOUR_S = 3600.0
_COARSE = 4096
_FAR_S = 86_400.0
_NO_TIME_S = 4.9e9
"""The year 2125, and a longer run than any."""
_FAR_WIDTHS = 20.0
_BINS_KEPT = 48
_SAMPLED = 20_000
_EXACT_INTERVALS = 3_000_000
_ARRIVAL_BINS = 100_000
_FINE_BINS = 1_000_000
_SEARCHED = 8
"""Times to a bin from which looking for its edge is less work than going through them."""
_LOOKED_THROUGH = 20_000_000
"""Above so many rows the order and the ids are not looked at: both need every row at once."""
Floats = npt.NDArray[np.float64]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """What the times say."""

    duration_s: float | None = None
    rate_rps: float | None = None
    arrivals: Arrivals | None = None
    concurrency: dict[str, Any] | None = None


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
    "cached": ("cached tokens", 0.0, MAX_TOKENS), "temp": ("temperatures", 0.0, 5.0),
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
    first, last = table.database.one(
        f"SELECT quantile_disc(a, 0.005), quantile_disc(a, 0.995) FROM {table.part(_SAMPLED)} "
        "WHERE bad = 0 AND a IS NOT NULL")
    if first is None:
        return True
    return bool((last - first) * _FAR_WIDTHS < high - low)


# --- arrivals ------------------------------------------------------------------------------------------------------
def load_of(table: Table, note: Note, tpot_s: float | None = None, ttft_s: float | None = None) -> Load:
    """Rate and concurrency. `tpot_s` and `ttft_s` are what the user states for a log without ends."""
    for column in (one for one in ("a", "e") if table.has(one)):
        low, high, n = table.ends(column)
        if n:
            break
    else:
        return Load(concurrency=_at_dispatch(table))
    span = (high - low) / 1e6
    if column == "e":
        note("only the ends of requests are known: the rate is that of ends")
    if n < 2 or span <= 0:
        return Load(duration_s=span, concurrency=_concurrency(table, tpot_s, ttft_s))
    return Load(span, (n - 1) / span, _arrivals(table, column, low, span), _concurrency(table, tpot_s, ttft_s))


def _arrivals(table: Table, column: str, low: int, span: float) -> Arrivals:
    width = float(max(1, -(-int(span) // _ARRIVAL_BINS)))
    counts = _binned(table, column, low, width, span)
    window = min(HOUR_S, span)
    cells = max(1, round(window / width))
    sums = np.concatenate(([0.0], np.cumsum(counts)))
    moving = sums[cells:] - sums[:-cells] if len(counts) >= cells else np.array([sums[-1]])
    busiest = int(np.argmax(moving))
    groups = np.array_split(counts, min(_BINS_KEPT, len(counts)))
    per_group = -(-len(counts) // min(_BINS_KEPT, len(counts)))
    kept = [int(counts[i:i + per_group].sum()) for i in range(0, len(counts), per_group)] if groups else []
    mean = float(counts.mean())
    start = datetime.fromtimestamp(low / 1e6, timezone.utc).isoformat() if low / 1e6 > EPOCH_FROM_S else None
    return Arrivals(
        start=start, bin_s=min(per_group * width, 1e7), counts=tuple(kept), busy_window_s=window,
        busy_start_s=min(busiest * width, 1e7), busy_rate_rps=float(moving[busiest]) / max(window, width),
        dispersion=float(counts.var() / mean) if width == 1.0 and mean > 0 and len(counts) > 1 else None,
    )


def _binned(table: Table, column: str, low: int, width: float, span: float) -> Floats:
    """Requests in each bin. Counted here and not by the table engine, for which a group of its own for each second is
    the dearest of all figures."""
    counts = np.zeros(int(span / width) + 1)
    rising = table.rising(column)
    if rising is not None and len(rising) > _SEARCHED * len(counts):
        edges = low + np.arange(1, len(counts), dtype=np.int64) * int(width * 1e6)
        return np.diff(np.searchsorted(rising, edges), prepend=0, append=len(rising)).astype(np.float64)
    for times in blocks(table.in_order(column)):
        # A quotient of whole numbers that a float holds has the right whole part; int64 division takes thrice as long.
        bins = ((times - low) / (width * 1e6)).astype(np.intp)
        counts += np.bincount(np.minimum(bins, len(counts) - 1, out=bins), minlength=len(counts))
    return counts


# --- running requests ----------------------------------------------------------------------------------------------
def _at_dispatch(table: Table) -> dict[str, Any] | None:
    if not table.has("run"):
        return None
    mean, p95, most = table.database.one("SELECT avg(run), quantile_cont(run, 0.95), max(run) FROM r WHERE bad = 0")
    if mean is None:
        return None
    return {"mean": mean, "p95": p95, "max": most, "basis": "running requests as the log states them at dispatch"}


def _concurrency(table: Table, tpot_s: float | None, ttft_s: float | None) -> dict[str, Any] | None:
    files = "count(DISTINCT src)" if table.has("src") else "1"
    if table.has("s", "l") and table.database.one(
            f"SELECT count(*) > 0 AND {files} = 1 FROM r WHERE bad = 0 AND l >= s")[0]:
        # One file, one engine's clock: arrivals on the wall clock jitter against it.
        running = {**_overlaps(table, "s", "l"), "basis": "from the start of running to the last token, in the log"}
        if table.has("q"):
            running["with_waiting"] = {**_overlaps(table, "q", "l"), "basis": "from queueing to the last token"}
        return running
    if table.has("a", "e") and table.database.one("SELECT count(*) FROM r WHERE bad = 0 AND e >= a")[0]:
        return {**_overlaps(table, "a", "e"), "basis": "starts and ends in the log"}
    stated = _at_dispatch(table)
    if stated is not None:
        return stated
    if tpot_s is None or not table.has("a", "o"):
        return None
    end = f"(a + (({ttft_s or 0.0!r}) + greatest(o - 1, 0) * ({tpot_s!r})) * 1e6)::BIGINT"
    table.database.execute(f"CREATE OR REPLACE VIEW stated AS SELECT a, {end} AS e, bad FROM r")
    return {**_overlaps(table, "a", "e", "stated"),
            "basis": f"Little's law: arrivals in the log, durations from the stated TPOT of {tpot_s * 1000:g} ms"
                     + (f" and TTFT of {ttft_s * 1000:g} ms" if ttft_s else "")}


def _overlaps(table: Table, start: str, end: str, where: str = "r") -> dict[str, Any]:
    """Time-weighted mean and 95th percentile, maximum, and the mean over equal parts of the time."""
    kept = f"FROM {where} WHERE bad = 0 AND {end} >= {start}"
    low, high, n, busy = table.database.one(
        f"SELECT min({start}), max({end}), count(*), sum(({end} - {start}) / 1e6) {kept}")
    span = max((high - low) / 1e6, 1e-6)
    if n <= _EXACT_INTERVALS:
        found = table.database.arrays(f"SELECT {start} AS a, {end} AS e {kept}")
        starts, ends = np.sort(found["a"].astype(np.int64)), np.sort(found["e"].astype(np.int64))
        times = np.concatenate((ends, starts))
        steps = np.concatenate((np.full(n, -1), np.full(n, 1)))
        order = np.argsort(times, kind="stable")
        level = np.cumsum(steps[order])
        held = np.diff(times[order], append=times[order[-1]]) / 1e6
        times_s = (times[order] - low) / 1e6
    else:
        width = max(1, -(-(high - low) // _FINE_BINS))
        parts = []
        for column in (start, end):
            found = table.database.arrays(f"SELECT (({column} - {low}) // {width})::INTEGER AS b, count(*) AS n {kept} "
                                          "GROUP BY 1")
            counts = np.zeros(_FINE_BINS + 2)
            counts[found["b"].astype(np.int64)] = found["n"]
            parts.append(counts)
        level = np.cumsum(parts[0]) - np.cumsum(parts[1])
        held = np.full(len(level), width / 1e6)
        times_s = np.arange(len(level)) * width / 1e6
    ranked = np.argsort(level)
    shares = np.cumsum(held[ranked]) / max(held.sum(), 1e-12)
    p95 = float(level[ranked[min(len(level) - 1, int(np.searchsorted(shares, 0.95)))]])
    edges = np.minimum((times_s / span * _BINS_KEPT).astype(np.int64), _BINS_KEPT - 1)
    sums = np.bincount(edges, weights=level * held, minlength=_BINS_KEPT)
    spans = np.bincount(edges, weights=held, minlength=_BINS_KEPT)
    over = [round(float(s / t), 3) if t > 0 else None for s, t in zip(sums, spans, strict=True)]
    return {"mean": float(busy) / span, "p95": max(p95, 0.0), "max": float(level.max(initial=0)), "over_s": span,
            "over_time": over}
