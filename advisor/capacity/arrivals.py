"""Requests as they arrive: from a process (rate, burstiness, lengths) or a recorded trace. Reproducible by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from profiles.workload import Lengths

ASSUMED_LENGTH_LOG_SD = 0.7
"""Spread (standard deviation of the logarithm) assumed where only a mean is known: p95 about 2.5 times the mean."""


@dataclass(frozen=True)
class Arrivals:
    """One vector entry a request, in order of arrival (numpy): seconds from the start, and tokens."""

    arrival_s: Any
    prompt_tokens: Any
    cached_tokens: Any
    """Prompt tokens found in the prefix cache: they cost no prefill, and hold KV like any other."""
    output_tokens: Any

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def rate_rps(self) -> float:
        """Mean arrivals per second; infinite where all arrive at once."""
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) / span if span > 0 else math.inf


def log_sd_of_lengths(lengths: Lengths) -> float | None:
    """Standard deviation of ln(length) of the log-normal with the stated mean that comes nearest to the stated
    percentiles; None where none is stated."""
    found: list[float] = []
    for q, value in ((0.5, lengths.p50), (0.9, lengths.p90), (0.95, lengths.p95), (0.99, lengths.p99)):
        if value is None:
            continue
        z = NormalDist().inv_cdf(q)
        # ln(percentile) = ln(mean) - s^2/2 + z s, solved for s.
        inside = z * z - 2.0 * math.log(value / lengths.mean)
        found.append(z - math.sqrt(inside) if z > 0 and inside > 0 else math.sqrt(inside) if inside > 0 else z)
    return min(2.0, max(0.0, sum(found) / len(found))) if found else None


def length_quantile(lengths: Lengths, q: float) -> float:
    """The q-quantile of a length in tokens: the stated one where it is stated, else of the log-normal behind them."""
    stated = {0.5: lengths.p50, 0.9: lengths.p90, 0.95: lengths.p95, 0.99: lengths.p99}.get(q)
    if stated is not None:
        return stated
    spread = log_sd_of_lengths(lengths)
    spread = ASSUMED_LENGTH_LOG_SD if spread is None else spread
    value = lengths.mean * math.exp(NormalDist().inv_cdf(q) * spread - 0.5 * spread * spread)
    return min(value, lengths.max) if lengths.max is not None else value


def draw_lengths(lengths: Lengths, n: int, generator: Any, spread: float | None = None) -> Any:
    """n whole lengths of at least 1 in random order: the distribution cut into n equal parts, so that few requests
    already have its mean. `spread` overrides the standard deviation of ln(length); 0 makes all equal."""
    import numpy as np

    if spread is None:
        known = log_sd_of_lengths(lengths)
        spread = ASSUMED_LENGTH_LOG_SD if known is None else known
    normal = NormalDist()
    parts = min(n, 4096)
    grid = np.array([normal.inv_cdf((i + 0.5) / parts) for i in range(parts)])
    middles = (np.arange(n) + 0.5) / n
    values = np.exp(spread * np.interp(middles, (np.arange(parts) + 0.5) / parts, grid))
    values *= lengths.mean / values.mean()
    longest = lengths.max if lengths.max is not None and lengths.max > lengths.mean else None
    for _ in range(20 if longest is not None else 0):
        # What is cut off the longest is given to the others, so that the mean stays.
        values = np.minimum(values, longest or 0.0)
        values *= lengths.mean / values.mean()
    return np.maximum(1, np.rint(generator.permutation(values))).astype(np.int64)


def from_process(
    rate_rps: float,
    n: int,
    prompt: Lengths,
    output: Lengths,
    *,
    seed: int = 0,
    burstiness: float = 1.0,
    cached_share: float = 0.0,
    spread: float | None = None,
) -> Arrivals:
    """n requests with gamma-distributed gaps of mean 1 / rate.

    burstiness is the shape of the gamma distribution, as `vllm bench serve --burstiness` has it: 1 is a Poisson
    process, below 1 burstier, above 1 more even. The same seed gives the same requests at every rate, only faster.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    gaps = generator.gamma(burstiness, 1.0 / burstiness, size=n)
    prompts = draw_lengths(prompt, n, generator, spread)
    outputs = draw_lengths(output, n, generator, spread)
    times = np.cumsum(gaps) - gaps[0]
    # The stated rate is met exactly: what is random is when, not how many.
    if n > 1:
        times *= (n - 1) / rate_rps / times[-1]
    return Arrivals(times, prompts, np.floor(prompts * cached_share).astype(np.int64), outputs)


def from_trace(
    arrival_s: Sequence[float],
    prompt_tokens: Sequence[int],
    output_tokens: Sequence[int],
    *,
    cached_share: float = 0.0,
    speed: float = 1.0,
) -> Arrivals:
    """Recorded requests, sorted by arrival and begun at 0; `speed` 2 lets them arrive twice as fast.

    ValueError where the three differ in length or are empty; tokens below 1 count as 1.
    """
    import numpy as np

    if not len(arrival_s) == len(prompt_tokens) == len(output_tokens) or not len(arrival_s):
        raise ValueError("a trace needs the same number of arrival times, prompt lengths and output lengths, at "
                         "least one")
    times = np.asarray(arrival_s, dtype=float)
    order = np.argsort(times, kind="stable")
    prompts = np.maximum(1, np.asarray(prompt_tokens, dtype=np.int64)[order])
    outputs = np.maximum(1, np.asarray(output_tokens, dtype=np.int64)[order])
    times = (times[order] - times[order][0]) / speed
    return Arrivals(times, prompts, np.floor(prompts * cached_share).astype(np.int64), outputs)
