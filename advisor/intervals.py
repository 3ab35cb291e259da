"""Intervals without scipy: normal and Student quantiles, and the log-normal interval of a speed-up.

All intervals this tool prints are 80 % unless a note says otherwise: z is the number of standard deviations that
an 80 % interval reaches to each side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

from profiles.evidence import PairedComparison
from profiles.schema import Quantity, Source

Z80 = NormalDist().inv_cdf(0.9)
"""Half-width of an 80 % normal interval, in standard deviations."""


def normal_cdf(x: float) -> float:
    """P(Z <= x) of a standard normal."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def probability_above(value: float, log_sd: float, threshold: float) -> float:
    """Chance that a log-normal quantity with median `value` exceeds `threshold` (both > 0)."""
    if value <= 0:
        return 0.0
    if log_sd <= 0:
        return 1.0 if value > threshold else 0.0
    return normal_cdf((math.log(value) - math.log(threshold)) / log_sd)


def log_sd_of(low: float | None, high: float | None) -> float:
    """Standard deviation of ln(quantity) behind an 80 % interval; 0 where there is no interval."""
    if low is None or high is None or low <= 0 or high <= low:
        return 0.0
    return (math.log(high) - math.log(low)) / (2 * Z80)


def quantity(value: float, log_sd: float, source: Source, n: int | None = None) -> Quantity:
    """A value with its 80 % log-normal interval."""
    reach = math.exp(Z80 * log_sd)
    return Quantity(value=value, low=value / reach, high=value * reach, n=n, source=source)


def speedup_between(value: float, below: float, above: float, k: int, source: Source) -> Quantity:
    """A speed-up with an interval that reaches `below` and `above` in logarithms, never past k + 1."""
    value = min(k + 1.0, value)
    low, high = value * math.exp(-below), min(k + 1.0, value * math.exp(above))
    return Quantity(value=value, low=low, high=high, source=source)


def scaled(found: Quantity, factor: float) -> Quantity:
    """So many times the quantity, its interval as wide in logarithms."""
    ends = {name: None if end is None else end * factor for name, end in (("low", found.low), ("high", found.high))}
    return found.model_copy(update={"value": found.value * factor, **ends})


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta by the continued fraction (Lentz); 0 <= x <= 1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    f, c, d = 1.0, 1.0, 0.0
    for i in range(400):
        m = i // 2
        if i == 0:
            numerator = 1.0
        elif i % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / max(1.0 + numerator * d, tiny) if 1.0 + numerator * d >= 0 else 1.0 / min(1.0 + numerator * d, -tiny)
        c = 1.0 + numerator / c
        if abs(c) < tiny:
            c = tiny
        f *= c * d
        if abs(1.0 - c * d) < 1e-13:
            break
    return front * (f - 1.0)


def student_cdf(t: float, df: float) -> float:
    """P(T <= t) of Student's distribution."""
    tail = 0.5 * _incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
    return 1.0 - tail if t >= 0 else tail


@lru_cache(maxsize=512)
def student_quantile(p: float, df: float) -> float:
    """The p-quantile (0 < p < 1) of Student's distribution, by bisection; a sequential rule asks for the same again."""
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -student_quantile(1.0 - p, df)
    low, high = 0.0, 1.0
    while student_cdf(high, df) < p and high < 1e9:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        if student_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (0 for fewer than two values)."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, 0.0
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)


_STARTS_LOG_SD, _STARTS_FREEDOM = 0.04, 12
"""How far a comparison is from another one of the same arms in other engine starts, beyond what its own pairs show, and
the comparisons behind that: twelve against the exhaustive sweep (`benchmarks.regret`; vLLM 0.32.0, CPU, 2 threads,
2026-11-30; Paule and Mandel's estimate, the sweep itself taken to be good to 3 %)."""


def between_starts(comparison: PairedComparison) -> float:
    """Relative standard deviation between engine starts. What a comparison sees of it, mostly one cell of a few steps
    timed in two starts, is the steps' own noise for the most part: it counts by its degrees of freedom beside what many
    starts have shown."""
    seen = comparison.between_run_spread
    if seen is None:
        return _STARTS_LOG_SD
    freedom = max(1, _starts(comparison) - 1)
    squares = _STARTS_FREEDOM * _STARTS_LOG_SD**2 + freedom * seen**2
    return math.sqrt(squares / (_STARTS_FREEDOM + freedom))


def _starts(comparison: PairedComparison) -> int:
    return len({(pair.baseline_start, pair.speculative_start) for pair in comparison.pairs})


def paired_ratio(comparison: PairedComparison) -> tuple[float, float]:
    """Geometric mean of the pairs' speed-ups and its log standard deviation, from Student's interval, with the
    spread between engine starts added."""
    logs = [math.log(pair.speedup) for pair in comparison.pairs if pair.baseline_tokens and pair.speculative_tokens]
    n = len(logs)
    mean = sum(logs) / n
    if n > 1:
        error = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1) / n)
        spread = error * student_quantile(0.9, n - 1) / Z80
    else:
        spread = 0.05
    return math.exp(mean), math.hypot(spread, between_starts(comparison) / math.sqrt(max(1, _starts(comparison))))


def shown_apart(bound: float, threshold: float) -> str:
    """A bound with two decimals, and with as many more as keep it from reading as the threshold it is held against:
    1.04998 beside 1.05."""
    decimals = 2
    while decimals < 6 and bound != threshold and f"{bound:.{decimals}f}" == f"{threshold:.{decimals}f}":
        decimals += 1
    return f"{bound:.{decimals}f}"
