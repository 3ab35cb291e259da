"""Lengths, their joint shape, and timings of the requests in the table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from probes.requests.table import BLOCK, Table, blocks
from profiles.schema import Quantity, Source
from profiles.traffic import LengthCell, SamplingSeen
from profiles.workload import Lengths

_MARKS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_Z80 = 1.2816
_LOOKED_AT = 10_000
_FEW = 1 << 22
"""Lengths below it are counted in an array of their own."""
Counts = npt.NDArray[np.int64]


def _histogram(table: Table, column: str) -> tuple[Counts, Counts]:
    """Values in rising order, and how often each occurs. Token counts have few values, so this is small and exact."""
    values = table.at_hand(column)
    most = int(values.max(initial=0)) if values is not None else _FEW
    if values is not None and most < _FEW:
        counts = np.zeros(most + 1, dtype=np.int64)
        for part in blocks([values]) if most < BLOCK else [values]:
            counts += np.bincount(part, minlength=most + 1)
        seen = np.flatnonzero(counts)
        return seen, counts[seen]
    found = table.database.arrays(
        f"SELECT {column} AS v, count(*) AS n FROM r WHERE bad = 0 AND {column} IS NOT NULL GROUP BY 1 ORDER BY 1")
    return found["v"].astype(np.int64), found["n"].astype(np.int64)


def quantile(values: Counts, counts: Counts, share: float) -> float:
    """The quantile of a histogram, between neighbours linearly: what numpy gives for the values themselves."""
    ends = np.cumsum(counts)
    place = share * (int(ends[-1]) - 1)
    low = int(values[np.searchsorted(ends, math.floor(place), side="right")])
    high = int(values[np.searchsorted(ends, math.ceil(place), side="right")])
    return low + (high - low) * (place - math.floor(place))


def lengths(table: Table, column: str) -> tuple[Lengths | None, int]:
    """Mean and percentiles of a column of token counts, and their sum; None where there is none above 0."""
    if not table.has(column):
        return None, 0
    values, counts = _histogram(table, column)
    total = int((values * counts).sum())
    if not total:
        return None, 0
    marks = {name: quantile(values, counts, share) for name, share in _MARKS.items()}
    return Lengths(mean=total / int(counts.sum()), max=float(values[-1]),
                   **{name: value for name, value in marks.items() if value > 0}), total


def joint_lengths(table: Table) -> tuple[LengthCell, ...]:
    """Share of requests by powers of four of prompt and output; of a large table an even part is looked at."""
    if not table.has("p", "o"):
        return ()
    rows = _sampled_powers(table) or table.database.execute(
        f"SELECT {_power('p')} AS pe, {_power('o')} AS oe, count(*) AS n FROM {table.part(_LOOKED_AT)} "
        "WHERE bad = 0 AND p IS NOT NULL AND o IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    whole = sum(n for *_, n in rows)
    return tuple(LengthCell(prompt_from=_low(p), prompt_to=4**p, output_from=_low(o), output_to=4**o, share=n / whole)
                 for p, o, n in rows)


def _sampled_powers(table: Table) -> list[tuple[int, int, int]]:
    """The same from columns that are at hand, where none of their values is missing; nothing otherwise."""
    prompts, outputs = table.at_hand("p"), table.at_hand("o")
    if prompts is None or outputs is None or not len(prompts) == len(outputs) == table.good() > 0:
        return []
    step = len(prompts) // _LOOKED_AT if len(prompts) >= 4 * _LOOKED_AT else 1
    edges = np.array([4**i for i in range(1, 14)])
    prompt, output = (1 + np.searchsorted(edges, one[::step], side="right") for one in (prompts, outputs))
    counts = np.bincount(len(edges) * 2 * prompt + output)
    return [(*divmod(int(pair), len(edges) * 2), int(counts[pair])) for pair in np.flatnonzero(counts)]


def _power(column: str) -> str:
    """The power of four that a length is below."""
    return "1 + " + " + ".join(f"({column} >= {4**i})::INTEGER" for i in range(1, 14))


def _low(power: int) -> int:
    return 4 ** (power - 1) if power > 1 else 0


def mean_of(table: Table, expression: str, needs: Sequence[str], scale: float, note: str) -> Quantity | None:
    """Mean over requests with an 80 % interval, or None where the columns are missing or empty."""
    if not table.has(*needs):
        return None
    mean, spread, n = table.database.one(
        f"SELECT avg(x), coalesce(stddev_samp(x), 0), count(x) FROM (SELECT {expression} AS x FROM r WHERE bad = 0)")
    if not n or mean is None or not math.isfinite(mean) or mean < 0:
        return None
    half = _Z80 * spread / math.sqrt(n) if math.isfinite(spread) else 0.0
    return Quantity(value=mean * scale, low=max(0.0, mean - half) * scale, high=(mean + half) * scale, n=n,
                    source=Source.RECORDED, note=note)


def tpot_ms(table: Table) -> Quantity | None:
    """Milliseconds per output token after the first."""
    if table.has("tpot"):
        return mean_of(table, "tpot", ("tpot",), 1000.0, "mean over requests")
    return mean_of(table, "CASE WHEN o > 1 AND lat > ttft THEN (lat - ttft) / (o - 1) END", ("lat", "ttft", "o"),
                   1000.0, "mean over requests of (latency - TTFT) over the output tokens after the first")


def decode_time_share(table: Table) -> Quantity | None:
    """Share of all requests' time that lies after their first token."""
    if not table.has("lat", "ttft"):
        return None
    decode, whole, n = table.database.one(
        "SELECT sum(lat - ttft), sum(lat), count(*) FROM r WHERE bad = 0 AND lat > 0 AND ttft BETWEEN 0 AND lat")
    if not n or not whole:
        return None
    return Quantity(value=min(1.0, max(0.0, decode / whole)), n=n, source=Source.RECORDED,
                    note="time after the first token over the whole time of the requests")


def cached_share(table: Table, prompt_total: int) -> Quantity | None:
    """Share of prompt tokens that a prefix cache held."""
    if not table.has("cached", "p"):
        return None
    cached, prompts, n = table.database.one(
        "SELECT sum(least(cached, p)), sum(p), count(cached) FROM r WHERE bad = 0 AND cached >= 0 AND p > 0")
    if not n or not prompts:
        return None
    return Quantity(value=min(1.0, float(cached) / float(prompts)), n=n, source=Source.RECORDED,
                    note="cached prompt tokens as the log counts them")


def temperature(table: Table) -> SamplingSeen | None:
    """How hot requests sample, over those that say it."""
    if not table.has("temp"):
        return None
    rows = table.database.execute(
        "SELECT temp, count(*) FROM r WHERE bad = 0 AND temp BETWEEN 0 AND 5 GROUP BY 1 ORDER BY 2 DESC, 1").fetchall()
    stated = sum(n for _, n in rows)
    if not stated:
        return None
    whole = table.database.one("SELECT count(*) FROM r WHERE bad = 0")[0]
    return SamplingSeen(requests=stated, stated_share=stated / whole, usual=rows[0][0], usual_share=rows[0][1] / stated,
                        mean=sum(value * n for value, n in rows) / stated, low=min(v for v, _ in rows),
                        high=max(v for v, _ in rows))
