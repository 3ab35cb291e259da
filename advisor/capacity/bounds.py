"""What mean values alone say of an engine: no simulation, and a check on it.

With n requests decoding, n requests take n prefills and their steps, so the engine gives n / (n x prefill + steps x
step time) requests a second. Little's law joins rate, latency and load; Pollaczek and Khinchine's formula gives the
wait of an engine that serves one request at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.capacity.simulation import EngineModel


@dataclass(frozen=True)
class MeanRequest:
    """A request of mean lengths, in tokens."""

    prompt_tokens: float
    cached_tokens: float
    output_tokens: float

    @property
    def context_tokens(self) -> float:
        """Mean KV tokens while it decodes."""
        return self.prompt_tokens + 0.5 * self.output_tokens


def prefill_ms(model: EngineModel, request: MeanRequest) -> float:
    """What the prompt adds to steps, the cached part taken off."""
    return _prefill(model, request.prompt_tokens) - _prefill(model, request.cached_tokens)


def _prefill(model: EngineModel, tokens: float) -> float:
    values = model.table.prefill_ms
    at = tokens / model.table.prefill_step
    i = min(int(at), len(values) - 2)
    return float(values[i] + (at - i) * (values[i + 1] - values[i]))


def step_ms(model: EngineModel, running: float, context_tokens: float) -> float:
    """A step with so many requests decoding, between the points of the table."""
    table = model.table
    at = context_tokens / table.context_step
    i = min(int(at), table.decode_ms.shape[2] - 2)

    def whole(n: int) -> float:
        row = table.decode_ms[table.ks.index(model.k_of[n])][n]
        return float(row[i] + (at - i) * (row[i + 1] - row[i]))

    low = min(max(1, math.floor(running)), model.max_num_seqs)
    high = min(low + 1, model.max_num_seqs)
    return whole(low) + (running - low) * (whole(high) - whole(low)) if high > low and running > low else whole(low)


def most_running(model: EngineModel, request: MeanRequest) -> float:
    """Requests that memory, max_num_seqs and the token budget let run at once, each holding its mean context."""
    limits = [float(model.max_num_seqs)]
    if model.kv_tokens is not None:
        limits.append(model.kv_tokens / request.context_tokens)
    width = 1 + model.k_of[model.max_num_seqs] + model.extra_slots
    limits.append(max(1.0, model.token_budget / width))
    return max(1.0, min(limits))


def cycle_ms(model: EngineModel, request: MeanRequest, running: float) -> float:
    """Time one request is in an engine that always has so many: its share of prefills, and its own steps."""
    length = model.acceptance_length(round(running))
    steps = max(0.0, request.output_tokens - 1.0) / length
    return running * prefill_ms(model, request) + steps * step_ms(model, running, request.context_tokens)


def saturation_rps(model: EngineModel, request: MeanRequest) -> float:
    """Most requests per second of mean lengths: the best over all loads that fit."""
    most = most_running(model, request)
    loads = {most, *(float(n) for n in range(1, math.floor(most) + 1) if n < 16 or n % max(1, n // 8) == 0)}
    return max(1000.0 * n / cycle_ms(model, request, n) for n in loads)


@dataclass(frozen=True)
class MeanValues:
    """What users see at a rate, without queueing for a place."""

    running: float
    ttft_ms: float
    tpot_ms: float
    saturated: bool


def mean_values(model: EngineModel, request: MeanRequest, rate_rps: float) -> MeanValues:
    """Load by Little's law (the load n with n = rate x latency), and the latencies at that load."""
    most = most_running(model, request)
    low, high = 0.0, most
    saturated = rate_rps * cycle_ms(model, request, most) / 1000.0 > most
    for _ in range(0 if saturated else 18):
        middle = 0.5 * (low + high)
        if rate_rps * cycle_ms(model, request, max(1.0, middle)) / 1000.0 > middle:
            low = middle
        else:
            high = middle
    running = max(1.0, high)
    own = prefill_ms(model, request)
    step = step_ms(model, running, request.context_tokens)
    busy = min(1.0, high)
    # The wait for the step in progress is half a step, where there is one; the first token ends a step itself.
    ttft = own + busy * 1.5 * step + (1.0 - busy) * model.table.alone_ms
    decode_steps = max(0.0, request.output_tokens - 1.0) / model.acceptance_length(round(running))
    tpot = ((running - 1.0) * own + decode_steps * step) / max(1.0, request.output_tokens - 1.0)
    return MeanValues(high, ttft, tpot, saturated)
