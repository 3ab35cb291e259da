"""Following a server: evidence of each interval, and evidence of several intervals put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from probes.server.differences import server_evidence
from probes.server.pacing import elapsed_s, paced
from probes.server.reading import Scrape
from probes.server.scraping import Fetcher, server_address
from profiles.errors import ProbeError
from profiles.evidence import ServerEvidence, SpeculationCounters
from profiles.plausibility import judged_server
from profiles.schema import Quantity

SCRAPES_PER_INTERVAL = 4
"""For gauges: two ends say little of a load that comes and goes."""
MOST_MISSED = 5
"""Intervals in a row without an answer after which the server is given up."""


@dataclass(frozen=True)
class Tick:
    """One interval: what was seen, or why nothing was."""

    seen: ServerEvidence | None
    missed: str = ""


def watch_server(source: str, interval_s: float, fetcher: Fetcher, *, model: str | None = None,
                 sleep: Callable[[float], None] = time.sleep,
                 clock: Callable[[], float] = time.monotonic) -> Iterator[Tick]:
    """Evidence of each interval until the caller stops. After an interval without an answer the next one reaches back
    to the last scrape there was, so that no traffic is lost.

    ProbeError when the first scrape fails, or MOST_MISSED intervals in a row.
    """
    address = server_address(source)
    scrapes = [fetcher.page(address)]
    version = fetcher.version(address, scrapes[0].names.engine)
    missed = 0
    while True:
        for page in paced(fetcher, address, interval_s, SCRAPES_PER_INTERVAL, sleep, clock):
            if isinstance(page, Scrape):
                scrapes.append(page)
        if isinstance(page, ProbeError):
            missed += 1
            if missed >= MOST_MISSED:
                raise page
            yield Tick(None, str(page))
        else:
            missed = 0
            yield Tick(server_evidence(scrapes, url=address.display, engine_version=version, model=model,
                                       window_s=elapsed_s(scrapes)))
            del scrapes[:-1]


def together(one: ServerEvidence, other: ServerEvidence) -> ServerEvidence:
    """Evidence of two windows of one server, one behind the other, as of a single one.

    Counts add up; gauges and times are means weighted by what stands behind them. Lengths are those of the later
    window, since percentiles cannot be added.
    """
    window_s = one.window_s + other.window_s
    return judged_server(other.model_copy(update={
        "window_s": window_s,
        "running": _pooled(one.running, other.running), "waiting": _pooled(one.waiting, other.waiting),
        "kv_cache_usage": _pooled(one.kv_cache_usage, other.kv_cache_usage),
        "ttft_ms": _pooled_mean(one.ttft_ms, other.ttft_ms), "tpot_ms": _pooled_mean(one.tpot_ms, other.tpot_ms),
        "inter_token_ms": _pooled_mean(one.inter_token_ms, other.inter_token_ms),
        "e2e_ms": _pooled_mean(one.e2e_ms, other.e2e_ms),
        **{name: _rate(getattr(one, name), one.window_s, getattr(other, name), other.window_s)
           for name in ("request_rate_rps", "generation_tokens_per_s", "prompt_tokens_per_s")},
        **{name: _sum(getattr(one, name), getattr(other, name))
           for name in ("requests_in_window", "preemptions", "prompt_tokens_total", "output_tokens_total",
                        "requests_total", "engine_steps")},
        "speculation": _counters(one.speculation, other.speculation,
                                 _sum(one.output_tokens_total, other.output_tokens_total)),
        "implausible": tuple({(item.code, item.arm): item for item in (*one.implausible, *other.implausible)}.values()),
        "notes": tuple(dict.fromkeys((*one.notes, *other.notes))),
    }))


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def _rate(one: Quantity | None, one_s: float, other: Quantity | None, other_s: float) -> Quantity | None:
    if one is None or other is None or one_s + other_s <= 0:
        return other if one is None else one
    value = (one.value * one_s + other.value * other_s) / (one_s + other_s)
    return other.model_copy(update={"value": value, "low": None, "high": None, "n": _count(one, other),
                                    "note": f"over {one_s + other_s:.3g} s"})


def _count(one: Quantity, other: Quantity) -> int | None:
    return None if one.n is None or other.n is None else one.n + other.n


def _pooled(one: Quantity | None, other: Quantity | None) -> Quantity | None:
    """Gauges: mean of all scrapes, with the range of all."""
    if one is None or other is None:
        return other if one is None else one
    mean = _pooled_mean(one, other) or other
    lows = [q.low if q.low is not None else q.value for q in (one, other)]
    highs = [q.high if q.high is not None else q.value for q in (one, other)]
    return mean.model_copy(update={"low": min(lows), "high": max(highs)})


def _pooled_mean(one: Quantity | None, other: Quantity | None) -> Quantity | None:
    """Means of independent observations: the interval shrinks as both halves' do."""
    if one is None or other is None or not one.n or not other.n:
        return other if one is None or not one.n else one
    n = one.n + other.n
    value = (one.value * one.n + other.value * other.n) / n
    half: float | None = None
    if None not in (one.low, one.high, other.low, other.high):
        halves = [((q.high or 0.0) - (q.low or 0.0)) / 2 * (q.n or 0) for q in (one, other)]
        half = (halves[0] ** 2 + halves[1] ** 2) ** 0.5 / n
    return other.model_copy(update={"value": value, "low": None if half is None else max(0.0, value - half),
                                    "high": None if half is None else value + half, "n": n})


def _counters(one: SpeculationCounters | None, other: SpeculationCounters | None,
              generated: float | None) -> SpeculationCounters | None:
    """Only drafts of the windows count: totals since the start, which an idle window falls back to, count twice."""
    if one is None or other is None or not other.in_window:
        return other if one is None else one
    if not one.in_window:
        return other
    drafts = one.drafts + other.drafts
    accepted = one.accepted_tokens + other.accepted_tokens
    deepest = max(len(one.per_position), len(other.per_position))

    def at(found: SpeculationCounters, position: int) -> float:
        return found.drafts * found.per_position[position] if position < len(found.per_position) else 0.0

    spreads = [(c.dispersion, c.drafts) for c in (one, other) if c.dispersion is not None]
    weight = sum(n for _, n in spreads)
    return SpeculationCounters(
        enabled=True, drafts=drafts, draft_tokens=one.draft_tokens + other.draft_tokens, accepted_tokens=accepted,
        per_position=tuple((at(one, i) + at(other, i)) / drafts for i in range(deepest)) if drafts > 0 else (),
        acceptance_length=1.0 + accepted / drafts if drafts > 0 else None,
        tokens_per_step=generated / (generated - accepted) if generated is not None and generated > accepted else None,
        dispersion=sum(value * n for value, n in spreads if value is not None) / weight if weight > 0 else None,
    )
