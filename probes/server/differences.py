"""From scrapes of one server to `ServerEvidence`: differences of counters, means of gauges, and what to be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from probes.server.histogram import Z80, Histogram, lengths, mean_ms
from probes.server.names import Names
from probes.server.reading import MODEL_LABEL, Labels, Scrape, Series
from probes.server.speculation import Counted, speculation_counters
from profiles.errors import InputError
from profiles.evidence import ServerEvidence
from profiles.plausibility import judged_server
from profiles.schema import MAX_K, Quantity, Source
from profiles.workload import Lengths

REPLICA_LABELS = ("engine", "dp_rank", "ReplicaId", "WorkerId", "instance", "pod", "engine_type")
"""Labels that tell engines of one server apart: data-parallel ranks, replicas behind a collector."""


@dataclass
class _Window:
    """What happened between the first and the last scrape, or since the server's start where nothing did."""

    first: Scrape | None
    last: Scrape
    window_s: float
    restarted: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def earlier(self) -> Scrape | None:
        return None if self.restarted else self.first

    def counter(self, alternatives: Names) -> float | None:
        """Increase over the window, all label sets together; None where the engine does not export it."""
        return _difference(self.earlier, self.last, alternatives)

    def since_start(self, alternatives: Names) -> float | None:
        return _difference(None, self.last, alternatives)

    def histogram(self, alternatives: Names) -> tuple[Histogram, bool] | None:
        """Observations of the window; those since the start (False beside it) when the window had none."""
        whole = _histogram(self.last, alternatives)
        if whole is None:
            return None
        before = _histogram(self.earlier, alternatives) if self.earlier is not None else None
        if self.earlier is not None:
            inside = whole.minus(before) if before is not None else whole
            if inside.count > 0:
                return inside, True
        return whole, False


def server_evidence(scrapes: Sequence[Scrape], *, url: str, window_s: float, engine_version: str | None = None,
                    model: str | None = None, notes: Sequence[str] = ()) -> ServerEvidence:
    """What a server did between the first and the last of its `scrapes` (one is enough: totals since its start).

    window_s: seconds between first and last, 0 where unknown: rates are then left out. model: look at this one of
    several served models; InputError names them when it is not there. Gauges are means over all scrapes, and their
    interval is the range seen.
    """
    last = scrapes[-1]
    models = tuple(sorted({m for scrape in scrapes for m in scrape.models}))
    if model is not None and model not in models:
        raise InputError(f"--model {model!r} is not served here: expected one of {', '.join(models) or 'none at all'}")
    said = [*dict.fromkeys(note for scrape in scrapes for note in scrape.notes), *notes]
    if len(models) > 1 and model is None:
        said.append(f"{len(models)} models are served and counted together: choose one with --model")
    chosen = [scrape.only(model) for scrape in scrapes]
    restart = _restart(chosen)
    window = _Window(chosen[0] if len(chosen) > 1 else None, chosen[-1], window_s, restart is not None, said)
    if restart is not None:
        said.append(restart)
        chosen = chosen[-1:]
    elif window.first is None:
        said.append("one scrape only: counts are since the server's start, and there are no rates")

    names = last.names
    requests = window.counter(names.finished)
    generated = window.counter(names.generation_total)
    rate_s = window_s if window_s > 0 and window.earlier is not None else None
    prompt, output = _token_lengths(window)
    speculation = speculation_counters(names, window.counter, window.since_start, _per_position(window),
                                       _mean_gauge(chosen, names.acceptance_length), _drafts_by_part(chosen), said)
    ttft = _latency(window, names.ttft, "time to first token")
    engines = max(_engine_count(chosen[-1]), 1)
    return judged_server(ServerEvidence(
        url=url, engine=names.engine, engine_version=engine_version,
        models=models if model is None else (model,), engines=engines, window_s=window_s,
        running=_gauge(chosen, names.running, sum, "requests"),
        waiting=_waiting(chosen),
        kv_cache_usage=_gauge(chosen, names.kv_usage, _mean, "share of the KV cache"),
        request_rate_rps=_rate(requests, rate_s, requests),
        generation_tokens_per_s=_rate(generated, rate_s, None),
        prompt_tokens_per_s=_rate(window.counter(names.prompt_total), rate_s, None),
        prompt_tokens=prompt, output_tokens=output,
        requests_in_window=requests if window.earlier is not None else None,
        ttft_ms=ttft, tpot_ms=_tpot(window, speculating=speculation is not None),
        inter_token_ms=_latency(window, names.token_gap, "gap between two chunks of a stream"),
        e2e_ms=_latency(window, names.e2e, "time of a whole request"),
        prompt_tokens_total=window.counter(names.prompt_total), output_tokens_total=generated, requests_total=requests,
        engine_steps=window.counter(tuple(f"{name}_count" for name in names.step_tokens)),
        preemptions=window.counter(names.preemptions), prefix_cache_hit_rate=_hit_rate(window, chosen),
        speculation=speculation, notes=tuple(dict.fromkeys(said)),
    ))


# --- counters -----------------------------------------------------------------------------------------------------
def _difference(first: Scrape | None, last: Scrape, alternatives: Names) -> float | None:
    now = last.named(alternatives)
    if not now:
        return None
    before = {s.labels: s.value for s in first.named((now[0].name,))} if first is not None else {}
    return sum(s.value - before.get(s.labels, 0.0) for s in now)


def _histogram(scrape: Scrape, alternatives: Names) -> Histogram | None:
    counts = scrape.suffixed(alternatives, "_count")
    if not counts:
        return None
    stem = (counts[0].name.removesuffix("_count"),)
    cumulative: dict[float, float] = {}
    for one in scrape.suffixed(stem, "_bucket"):
        edge = _edge(one)
        if edge is not None:
            cumulative[edge] = cumulative.get(edge, 0.0) + one.value
    return Histogram(cumulative, sum(s.value for s in counts), sum(s.value for s in scrape.suffixed(stem, "_sum")))


def _edge(bucket: Series) -> float | None:
    try:
        return float(bucket.label("le") or "")
    except ValueError:
        return None


def counters_fell(earlier: Scrape, later: Scrape) -> bool:
    """Whether something that only rises while a server lives stands lower later, or is gone."""
    now = {(s.name, s.labels): s.value for s in later.series}
    return any(_only_rises(s) and now.get((s.name, s.labels), 0.0) < s.value - 1e-6 for s in earlier.series)


def _restart(scrapes: Sequence[Scrape]) -> str | None:
    """Why the scrapes are not of one running server, if so. Counters only ever rise while a server lives."""
    for earlier, later in pairwise(scrapes):
        start, other = earlier.process_start_s, later.process_start_s
        if start is not None and other is not None and other < start - 1:
            return ("the address answers for several servers in turn (a load balancer): only the last scrape is used; "
                    "probe one engine directly")
        if counters_fell(earlier, later) or (start is not None and other is not None and other > start + 1):
            return ("the server restarted between the scrapes: only the last one is used, its counts are since that "
                    "start")
    return None


_RISING = ("prompt_tokens", "generation_tokens", "request_success", "num_requests", "num_preemptions")


def _only_rises(series: Series) -> bool:
    name = series.name
    return (name in _RISING or name.endswith(("_count", "_bucket"))
            or (name.startswith("spec_decode_num_")) or name.endswith(("_queries", "_hits")))


# --- gauges -------------------------------------------------------------------------------------------------------
def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _gauge(scrapes: Sequence[Scrape], alternatives: Names, over_engines: Callable[[Sequence[float]], float],
           unit: str) -> Quantity | None:
    seen = [over_engines([s.value for s in found]) for scrape in scrapes if (found := scrape.named(alternatives))]
    if not seen:
        return None
    several = len(seen) > 1
    return Quantity(value=_mean(seen), low=min(seen) if several else None, high=max(seen) if several else None,
                    n=len(seen), source=Source.RECORDED,
                    note=f"{unit}; lowest and highest of {len(seen)} scrapes" if several else f"{unit}; one scrape")


def _waiting(scrapes: Sequence[Scrape]) -> Quantity | None:
    names = scrapes[-1].names
    waiting = _gauge(scrapes, names.waiting, sum, "requests")
    swapped = _gauge(scrapes, names.swapped, sum, "requests") if names.swapped else None
    if waiting is None or swapped is None or swapped.value == 0:
        return waiting
    return Quantity(value=waiting.value + swapped.value, n=waiting.n, source=Source.RECORDED,
                    note=f"requests; {swapped.value:g} of them swapped out")


def _mean_gauge(scrapes: Sequence[Scrape], alternatives: Names) -> float | None:
    values = [s.value for scrape in scrapes for s in scrape.named(alternatives) if s.value > 0]
    return _mean(values) if values else None


def _engine_count(scrape: Scrape) -> int:
    def engine(labels: Labels) -> Labels:
        return frozenset((k, v) for k, v in labels if k in REPLICA_LABELS or k == MODEL_LABEL)

    return len({engine(s.labels) for s in (scrape.named(scrape.names.running) or scrape.named(scrape.names.kv_usage))})


# --- what is derived ----------------------------------------------------------------------------------------------
def _rate(count: float | None, seconds: float | None, events: float | None) -> Quantity | None:
    """count per second. `events` are independent ones (requests): their Poisson spread gives the 80 % interval."""
    if count is None or seconds is None:
        return None
    half = Z80 * math.sqrt(max(events, 1.0)) if events is not None else None
    return Quantity(value=count / seconds, low=None if half is None else max(count - half, 0.0) / seconds,
                    high=None if half is None else (count + half) / seconds,
                    n=None if events is None else round(events), source=Source.RECORDED, note=f"over {seconds:.3g} s")


def _token_lengths(window: _Window) -> tuple[Lengths | None, Lengths | None]:
    names = window.last.names
    found: list[Lengths | None] = []
    for histogram, total, what in ((names.prompt_histogram, names.prompt_total, "prompt"),
                                   (names.output_histogram, names.generation_total, "output")):
        read = window.histogram(histogram)
        if read is not None:
            observed, inside = read
            if observed.count > 0 and not inside and window.earlier is not None:
                window.notes.append("no request finished in the window: prompt and output lengths are since the "
                                    "server's start")
            if observed.cumulative.get(math.inf, 0) > max(
                    (v for e, v in observed.cumulative.items() if not math.isinf(e)), default=0):
                window.notes.append(f"some {what} lengths lie above the last bucket: high percentiles are its edge")
            found.append(lengths(observed))
            continue
        # No histogram of lengths (older SGLang): the totals over finished requests still give the mean.
        finished = _finished_since_start(window)
        tokens = window.since_start(total)
        if finished and tokens:
            window.notes.append(f"{what} lengths: only the mean since the server's start is exported")
            found.append(Lengths(mean=tokens / finished))
        else:
            found.append(None)
    return found[0], found[1]


def _finished_since_start(window: _Window) -> float | None:
    names = window.last.names
    for alternatives in (names.e2e, names.ttft):
        histogram = _histogram(window.last, alternatives)
        if histogram is not None and histogram.count > 0:
            return histogram.count
    return window.since_start(names.finished)


def _latency(window: _Window, alternatives: Names, what: str) -> Quantity | None:
    read = window.histogram(alternatives)
    if read is None or read[0].count <= 0:
        return None
    observed, inside = read
    return mean_ms(observed, f"mean {what}" + ("" if inside else ", since the server's start"))


def _tpot(window: _Window, *, speculating: bool) -> Quantity | None:
    """Time per output token but the first, by request where exported, else from the gaps of the stream."""
    names = window.last.names
    by_request = _latency(window, names.tpot, "time per output token, by request")
    if by_request is not None:
        return by_request
    gaps = window.histogram(names.token_gap)
    if gaps is None or gaps[0].count <= 0:
        return None
    observed, inside = gaps
    if not speculating:
        return mean_ms(observed, "mean gap between tokens" + ("" if inside else ", since the server's start"))
    # With speculation one gap is one chunk of several tokens: spread the same time over the tokens themselves.
    count = window.counter if inside else window.since_start
    generated, first = count(names.generation_total), count(tuple(f"{name}_count" for name in names.ttft))
    if generated is None or first is None or generated - first <= 0:
        return None
    value, spread = observed.total / (generated - first), observed.standard_deviation()
    half = Z80 * spread * math.sqrt(observed.count) / (generated - first) if spread is not None else None
    return Quantity(value=value * 1e3, low=None if half is None else max(value - half, 0.0) * 1e3,
                    high=None if half is None else (value + half) * 1e3, n=round(observed.count),
                    source=Source.RECORDED,
                    note="sum of gaps over tokens but the first of each request (a gap holds several tokens)"
                         + ("" if inside else ", since the server's start"))


def _hit_rate(window: _Window, scrapes: Sequence[Scrape]) -> float | None:
    names = window.last.names
    for count in (window.counter, window.since_start):
        queries, hits = count(names.prefix_queries), count(names.prefix_hits)
        if queries and hits is not None:
            return min(max(hits / queries, 0.0), 1.0)
    values = [s.value for scrape in scrapes for s in scrape.named(names.prefix_hit_rate) if s.value >= 0]
    return _mean(values) if values else None


def _drafts_by_part(scrapes: Sequence[Scrape]) -> list[tuple[float, float]]:
    """(drafts, accepted tokens) between each scrape and the next, parts without a draft left out."""
    parts: list[tuple[float, float]] = []
    for earlier, later in pairwise(scrapes):
        drafts = _difference(earlier, later, later.names.drafts)
        accepted = _difference(earlier, later, later.names.accepted_tokens)
        if drafts and accepted is not None and drafts > 0:
            parts.append((drafts, accepted))
    return parts


def _per_position(window: _Window) -> Counted:
    """Accepted tokens by draft position, over the window and since the start."""

    def counts(first: Scrape | None) -> dict[int, float]:
        result: dict[int, float] = {}
        now = window.last.named(window.last.names.accepted_per_position)
        before = {s.labels: s.value for s in first.named((now[0].name,))} if first is not None and now else {}
        for one in now:
            position = one.label("position") or ""
            # Longer ones are no position of a draft: a list of that length would be built for them.
            if position.isdecimal() and int(position) < MAX_K:
                value = one.value - before.get(one.labels, 0.0)
                result[int(position)] = result.get(int(position), 0.0) + value
        return result

    return Counted(counts(window.earlier), counts(None))
