"""A histogram's buckets turned into a mean with its spread and percentiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from profiles.schema import Quantity, Source
from profiles.workload import Lengths

Z80 = 1.2816
"""Half-width of a normal's central 80 %, in standard deviations."""


@dataclass(frozen=True)
class Histogram:
    """`cumulative` maps a bucket's upper edge to how many observations lie at or below it; `total` is their sum."""

    cumulative: Mapping[float, float]
    count: float
    total: float

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count > 0 else None

    def minus(self, earlier: Histogram) -> Histogram:
        """What was observed since `earlier`."""
        edges = {edge: value - earlier.cumulative.get(edge, 0.0) for edge, value in self.cumulative.items()}
        return Histogram(edges, self.count - earlier.count, self.total - earlier.total)

    def buckets(self) -> list[tuple[float, float, float]]:
        """(lower edge, upper edge, observations), empty ones left out. The open last bucket has no width."""
        result: list[tuple[float, float, float]] = []
        lower, below = 0.0, 0.0
        for edge in sorted(self.cumulative):
            inside = self.cumulative[edge] - below
            if inside > 0:
                result.append((lower, lower if math.isinf(edge) else edge, inside))
            lower, below = edge, max(below, self.cumulative[edge])
        return result

    def percentile(self, share: float) -> float | None:
        """The value below which `share` (0..1) of the observations lie, interpolated inside its bucket.

        Inside a bucket observations are taken as even around one relative place, the same in every bucket, chosen so
        that the whole agrees with the exact mean (the sum is exported): with 600 requests of 512 tokens in the bucket
        500..1000, plain interpolation would say 750.
        """
        buckets = self.buckets()
        inside = sum(n for _, _, n in buckets)
        if inside <= 0:
            return None
        place = self._place(buckets)
        reach, below = min(place, 1 - place), 0.0
        for lower, upper, n in buckets:
            if below + n >= share * inside - 1e-9:
                within = min(max((share * inside - below) / n, 0.0), 1.0)
                return lower + (upper - lower) * (place + reach * (2 * within - 1))
            below += n
        return buckets[-1][1]

    def _place(self, buckets: list[tuple[float, float, float]]) -> float:
        width = sum(n * (upper - lower) for lower, upper, n in buckets)
        mean = self.mean
        if width <= 0 or mean is None:
            return 0.5
        inside = sum(n for _, _, n in buckets)
        return min(max((mean * inside - sum(n * lower for lower, _, n in buckets)) / width, 0.0), 1.0)

    def standard_deviation(self) -> float | None:
        """Spread of single observations, taken as even inside each bucket.

        None under two observations, and where some lie above the last edge: how far above is not known.
        """
        buckets = self.buckets()
        inside = sum(n for _, _, n in buckets)
        if inside < 2 or any(upper <= lower for lower, upper, _ in buckets):
            return None
        middle = sum((lower + upper) / 2 * n for lower, upper, n in buckets) / inside
        squares = sum(n * (((lower + upper) / 2 - middle) ** 2 + (upper - lower) ** 2 / 12)
                      for lower, upper, n in buckets)
        return math.sqrt(squares / (inside - 1))


def lengths(histogram: Histogram) -> Lengths | None:
    """Token counts of requests; None where nothing was observed, or every request had none."""
    mean = histogram.mean
    if mean is None or mean <= 0:
        return None

    def at(share: float) -> float | None:
        value = histogram.percentile(share)
        return value if value is not None and value > 0 else None

    return Lengths(mean=mean, p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99))


def mean_ms(histogram: Histogram, note: str) -> Quantity | None:
    """Mean of a histogram of seconds, in milliseconds, with the 80 % interval of that mean."""
    mean = histogram.mean
    if mean is None:
        return None
    spread = histogram.standard_deviation()
    half = Z80 * spread / math.sqrt(histogram.count) if spread is not None else None
    return Quantity(value=mean * 1e3, low=None if half is None else max(mean - half, 0.0) * 1e3,
                    high=None if half is None else (mean + half) * 1e3, n=round(histogram.count),
                    source=Source.RECORDED, note=note)
