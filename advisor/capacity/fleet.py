"""Replicas, GPUs and money for a peak, from the highest rate of one replica."""

from __future__ import annotations

import math

from advisor.capacity.document import Fleet
from profiles.catalog.prices import HOURS_PER_MONTH, Price
from profiles.schema import Quantity

GROWTH = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


def usd_per_million(price: Price | None, gpus: float, tokens_per_s: float) -> float | None:
    """Dollars for a million output tokens of so many GPUs at a rate; None without a price or tokens."""
    if price is None or tokens_per_s <= 0:
        return None
    return price.usd_per_gpu_hour * gpus / (tokens_per_s * 3600.0) * 1e6


def fleet_for(
    growth: float,
    peak_rate_rps: float,
    usual_rate_rps: float | None,
    output_tokens: float,
    highest: Quantity,
    gpus_per_replica: int,
    price: Price | None,
) -> Fleet | None:
    """The fleet for a grown peak; None where one replica serves no rate at all within the SLOs."""
    if highest.value <= 0:
        return None
    peak = peak_rate_rps * growth

    def replicas(rate: float) -> int:
        # A hair above a whole number is that number: rates carry the noise of a simulation.
        return max(1, math.ceil(peak / rate - 1e-3))

    count = replicas(highest.value)
    low = replicas(highest.high) if highest.high else count
    high = replicas(highest.low) if highest.low else count
    gpus = count * gpus_per_replica
    usual = None if usual_rate_rps is None else usual_rate_rps * growth * output_tokens
    return Fleet(
        growth=growth,
        peak_rate_rps=peak,
        replicas=count,
        replicas_low=min(low, count),
        replicas_high=max(high, count),
        gpus=gpus,
        usd_per_month=None if price is None else price.usd_per_gpu_hour * gpus * HOURS_PER_MONTH,
        usd_per_million_output_tokens=None if usual is None else usd_per_million(price, gpus, usual),
        headroom=1.0 - peak / (count * highest.value),
    )
