"""Arrivals and running requests over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.requests.clock import EPOCH_FROM_S
from probes.requests.table import Table, blocks
from profiles.traffic import Arrivals

HOUR_S = 3600.0
_BINS_KEPT = 48
_EXACT_INTERVALS = 3_000_000
_ARRIVAL_BINS = 100_000
_FINE_BINS = 1_000_000
_SEARCHED = 8
"""Times to a bin from which looking for its edge is less work than going through them."""
Floats = npt.NDArray[np.float64]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """What the times say."""

    duration_s: float | None = None
    rate_rps: float | None = None
    arrivals: Arrivals | None = None
    concurrency: dict[str, Any] | None = None


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
    per_group = -(-len(counts) // _BINS_KEPT)
    kept = [int(counts[i:i + per_group].sum()) for i in range(0, len(counts), per_group)]
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
