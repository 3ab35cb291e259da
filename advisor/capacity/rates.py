"""From the simulation to what is asked of it: latencies against the arrival rate, and the highest rate within SLOs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.capacity.arrivals import Arrivals, from_process, from_trace
from advisor.capacity.bounds import MeanRequest, mean_values, most_running, saturation_rps
from advisor.capacity.document import LoadPoint
from advisor.capacity.simulation import EngineModel, Run, simulate
from profiles.workload import Lengths

_WARM_UP = 0.1
"""Share of the requests, first come, that are not counted."""
_MOST_WAITING = 0.05
"""An engine keeps up with a rate if no more than this share of all requests waits when the last one arrives."""
_LEAST_REQUESTS = 200
_PER_RUNNING = 6


@dataclass(frozen=True)
class Effort:
    """How simulations are run: what they are reproducible by, and what they may take."""

    seed: int = 0
    times: float = 1.0
    """Times as many requests as by default."""
    compiled: bool | None = None
    """None leaves it to each simulation."""


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Stream:
    """The users' traffic at any rate: lengths and burstiness of a process, or a recorded trace sped up or slowed."""

    prompt: Lengths
    output: Lengths
    cached_share: float = 0.0
    burstiness: float = 1.0
    trace: Arrivals | None = None
    longest: int | None = None
    """Most tokens of one request, prompt and output: max_model_len, or what the KV cache holds."""

    @property
    def mean(self) -> MeanRequest:
        if self.trace is not None:
            return MeanRequest(float(self.trace.prompt_tokens.mean()), float(self.trace.cached_tokens.mean()),
                               float(self.trace.output_tokens.mean()))
        return MeanRequest(self.prompt.mean, self.prompt.mean * self.cached_share, self.output.mean)

    def at(self, rate_rps: float, n: int, seed: int) -> Arrivals:
        """About n requests at a rate; a trace gives its own, as often as it takes."""
        import numpy as np

        if self.trace is None:
            found = from_process(rate_rps, n, self.prompt, self.output, seed=seed, burstiness=self.burstiness,
                                 cached_share=self.cached_share)
        else:
            trace = self.trace
            times, rounds = trace.arrival_s, max(1, math.ceil(n / len(trace)))
            gap = float(times[-1]) / max(1, len(trace) - 1) or 1.0
            long = np.concatenate([times + i * (float(times[-1]) + gap) for i in range(rounds)])
            found = from_trace(
                long.tolist(), np.tile(trace.prompt_tokens, rounds).tolist(),
                np.tile(trace.output_tokens, rounds).tolist(), cached_share=self.cached_share, speed=rate_rps * gap,
            )
        return self._within(found)

    def under_way(self, n: int, seed: int) -> Arrivals:
        """n requests in the middle of being answered, all there at the start: their prompts and a part of their
        output are in the KV cache. An engine at work is found with long requests more often than with short ones, and
        with each at any point of its way."""
        import numpy as np

        generator = np.random.default_rng((seed, 1))
        drawn = self.at(1.0, max(64, 4 * n), seed + 1)
        weights = drawn.output_tokens / drawn.output_tokens.sum()
        chosen = generator.choice(len(drawn), size=n, p=weights)
        output = drawn.output_tokens[chosen]
        left = np.maximum(1, np.ceil(output * generator.random(n)).astype(np.int64))
        held = drawn.prompt_tokens[chosen] + output - left
        return Arrivals(np.zeros(n), held, held - 1, left)

    def _within(self, arrivals: Arrivals) -> Arrivals:
        """No request longer than the engine takes: the prompt is cut first, as clients do."""
        import numpy as np

        if self.longest is None:
            return arrivals
        output = np.minimum(arrivals.output_tokens, max(1, self.longest // 2))
        prompt = np.maximum(1, np.minimum(arrivals.prompt_tokens, self.longest - output))
        return replace(arrivals, prompt_tokens=prompt, output_tokens=output,
                       cached_tokens=np.minimum(arrivals.cached_tokens, prompt))


def requests_for(model: EngineModel, stream: Stream, rate_rps: float, times: float = 1.0) -> int:
    """Requests to simulate, several times those in flight. Where the queue grows, fewer do: more would only say so at
    greater length."""
    seen = mean_values(model, stream.mean, rate_rps)
    if seen.saturated:
        return round(times * (_LEAST_REQUESTS / 2 + 2.0 * most_running(model, stream.mean)))
    return round(times * (_LEAST_REQUESTS + _PER_RUNNING * seen.running))


def load_point(model: EngineModel, stream: Stream, rate_rps: float, effort: Effort, saturation: float) -> LoadPoint:
    """One simulated rate of an engine that saturates at another (a short run cannot tell rates just above it).

    The engine is found at work: an empty one would take long to fill where it is near saturation.
    """
    begun = stream.under_way(round(mean_values(model, stream.mean, rate_rps).running), effort.seed)
    fresh = stream.at(rate_rps, requests_for(model, stream, rate_rps, effort.times), effort.seed)
    run = simulate(model, joined(begun, fresh), seed=effort.seed, compiled=effort.compiled)
    point = point_of(run, model, rate_rps, begun=len(begun))
    if rate_rps <= saturation:
        return point
    # What was under way at the start has its prompts behind it: a short run gives more tokens than the engine sustains.
    most = saturation * float(fresh.output_tokens.mean())
    return point.model_copy(update={"sustained": False, "output_tokens_per_s": min(point.output_tokens_per_s, most)})


def joined(first: Arrivals, then: Arrivals) -> Arrivals:
    """Two streams, the first of which is all there at the start."""
    import numpy as np

    return Arrivals(
        np.concatenate([first.arrival_s, then.arrival_s]),
        np.concatenate([first.prompt_tokens, then.prompt_tokens]),
        np.concatenate([first.cached_tokens, then.cached_tokens]),
        np.concatenate([first.output_tokens, then.output_tokens]),
    )


def point_of(run: Run, model: EngineModel, rate_rps: float, begun: int = 0) -> LoadPoint:
    """What users saw in a run up to its last arrival, after which it empties. The first `begun` requests were under
    way already; of the others the first share is left out too."""
    import numpy as np

    arrivals = run.arrivals
    n = len(arrivals) - begun
    first = begun + min(n - 1, int(n * _WARM_UP))
    begin, end = float(arrivals.arrival_s[first]), float(arrivals.arrival_s[-1])
    waiting = int((run.first_token_s > end).sum())
    if end <= begin or float(run.first_token_s.min()) >= end:
        # All over before others arrive: what ran from beginning to end is all there is.
        begin, end = float(arrivals.arrival_s[0]), float(run.finish_s.max())

    def inside(since: Any) -> Any:
        return np.clip(np.minimum(run.finish_s, end) - np.maximum(since, begin), 0.0, None)

    # A request's tokens come evenly between its first and its last; what lies in the window counts, whole or in part.
    decoding = inside(run.first_token_s)
    made = decoding / np.maximum(run.finish_s - run.first_token_s, 1e-9) * np.maximum(0, arrivals.output_tokens - 1)
    firsts = int(((run.first_token_s > begin) & (run.first_token_s <= end)).sum())
    there = float(inside(arrivals.arrival_s).sum())
    ttft = run.ttft_ms[first:]
    return LoadPoint(
        arrival_rate_rps=rate_rps,
        requests=n,
        sustained=waiting <= max(3.0, _MOST_WAITING * n),
        running=there / (end - begin),
        ttft_ms=float(ttft.mean()),
        ttft_p95_ms=float(np.quantile(ttft, 0.95)),
        tpot_ms=1000.0 * float(decoding.sum()) / max(1e-9, float(made.sum())),
        tpot_p95_ms=float(np.quantile(run.tpot_ms[first:], 0.95)),
        latency_s=there / max(1, begun + n - first),
        output_tokens_per_s=(float(made.sum()) + firsts) / (end - begin),
        kv_usage=None if model.kv_tokens is None else min(1.0, run.mean_kv_tokens / model.kv_tokens),
        preemptions_per_request=float(run.preemptions.mean()),
    )


def saturated_rps(model: EngineModel, stream: Stream, effort: Effort) -> float:
    """Requests per second of an engine that never waits for any: all are there at once, and those count that end
    while places are full and the queue is not empty."""
    import numpy as np

    most = most_running(model, stream.mean)
    # Fewer than four rounds of places would count mostly the filling and the emptying.
    n = round(max(_LEAST_REQUESTS * effort.times, 4.0 * most * max(1.0, effort.times)))
    drawn = stream.at(1.0, n, effort.seed)
    run = simulate(model, replace(drawn, arrival_s=np.zeros(len(drawn))), seed=effort.seed, compiled=effort.compiled)
    ends = np.sort(run.finish_s)
    begin = float(ends[min(len(ends) - 2, int(most))])
    until = float(run.first_token_s.max())
    counted = int(((ends > begin) & (ends <= until)).sum())
    if counted < 5:
        return len(ends) / float(ends[-1])
    return counted / (until - begin)


def highest_rate(
    points: Sequence[LoadPoint], at: Callable[[float], LoadPoint], meets: Callable[[LoadPoint], bool],
    saturation: float, rounds: int = 3,
) -> float:
    """The highest rate whose point (`at` a rate) `meets` what is asked, begun from points already simulated; 0 where
    not even the lowest does, and never more than the saturation."""
    ordered = sorted(points, key=lambda point: point.arrival_rate_rps)
    bad = next((point.arrival_rate_rps for point in ordered if not meets(point)), saturation)
    good = max((p.arrival_rate_rps for p in ordered if p.arrival_rate_rps < bad), default=0.0)
    lowest = bad / 64.0
    for _ in range(rounds):
        middle = math.sqrt(max(good, lowest) * bad)
        if meets(at(middle)):
            good = middle
        else:
            bad = middle
    return good


def rate_ratio(model: EngineModel, stream: Stream, factor: float, meets_mean: Callable[[Any], bool]) -> float:
    """Highest rate within SLOs of an engine slower by `factor` over that of the engine as it is, by mean values."""

    def best(candidate: EngineModel) -> float:
        low, high = 0.0, saturation_rps(candidate, stream.mean)
        for _ in range(12):
            middle = 0.5 * (low + high)
            seen = mean_values(candidate, stream.mean, middle)
            if not seen.saturated and meets_mean(seen):
                low = middle
            else:
                high = middle
        return low

    here = best(model)
    return best(replace(model, table=model.table.scaled(factor))) / here if here > 0 else 1.0
