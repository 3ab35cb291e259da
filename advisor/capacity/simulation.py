"""One engine under one stream of requests, step by step: what is asked, and what came out."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from advisor.capacity import kernel
from advisor.capacity.arrivals import Arrivals
from advisor.capacity.step_table import StepTable

STEPS_AT_ONCE = 20_000
"""Steps of the loop between two looks at what the process is told: a fraction of a second where it is compiled."""
COMPILED_FROM = 3_000_000
"""Decode steps, summed over requests, from which on loading the compiler pays for itself."""


@dataclass(frozen=True)
class EngineModel:
    """What the scheduler of one replica works with."""

    table: StepTable
    k_of: tuple[int, ...]
    """k with that many requests decoding: max_num_seqs + 1 entries, from a schedule or all the same."""
    accept: tuple[tuple[float, ...], ...]
    """For each row of the table, the chance (unconditional) that a draft is accepted up to each position."""
    token_budget: int
    """max_num_batched_tokens."""
    kv_tokens: int | None = None
    """Room of the KV cache; None is no limit."""
    extra_slots: int = 0
    """Slots beside 1 + k that each scheduled request takes from the token budget."""
    block_tokens: int = 16

    @property
    def max_num_seqs(self) -> int:
        return len(self.k_of) - 1

    def acceptance_length(self, running: int) -> float:
        """Mean tokens of a step and request with so many requests decoding."""
        k = self.k_of[min(running, self.max_num_seqs)]
        return 1.0 + sum(self.accept[self.table.ks.index(k)][:k])


@dataclass(frozen=True)
class Run:
    """What happened. Times are seconds from the start, vectors are in order of arrival (numpy)."""

    arrivals: Arrivals
    first_token_s: Any
    finish_s: Any
    preemptions: Any
    busy_s: float
    """Time with a step in progress."""
    steps: int
    mean_running: float
    """Requests admitted, averaged over busy time."""
    mean_kv_tokens: float
    peak_kv_tokens: int

    @property
    def ttft_ms(self) -> Any:
        """Time to first token of each request, queueing included."""
        return 1000.0 * (self.first_token_s - self.arrivals.arrival_s)

    @property
    def tpot_ms(self) -> Any:
        """Time per output token after the first, of each request; 0 where there is but one."""
        import numpy as np

        return 1000.0 * (self.finish_s - self.first_token_s) / np.maximum(1, self.arrivals.output_tokens - 1)

    @property
    def latency_s(self) -> Any:
        """Arrival to last token of each request."""
        return self.finish_s - self.arrivals.arrival_s


def request_steps(model: EngineModel, arrivals: Arrivals) -> float:
    """Decode steps the run will take, summed over requests: what its cost grows with."""
    return float(arrivals.output_tokens.sum()) / min(model.acceptance_length(n) for n in (1, model.max_num_seqs))


def simulate(model: EngineModel, arrivals: Arrivals, *, seed: int = 0, compiled: bool | None = None) -> Run:
    """Serve every request; the same arguments always give the same run, compiled or not.

    compiled: None takes the compiled loop where numba (the extra `plan`) is installed and the run is long enough to
    gain by it. ValueError where a request is longer than the KV cache, or the token budget has no room for one request
    (no engine would start or admit that), and where a time is not finite or arrivals are out of order. Signals count
    every STEPS_AT_ONCE steps, compiled or not.
    """
    import numpy as np

    n = len(arrivals)
    _refuse_what_never_ends(model, arrivals)
    longest = int((arrivals.prompt_tokens + arrivals.output_tokens).max()) + max(model.k_of)
    blocks = 0 if model.kv_tokens is None else model.kv_tokens // model.block_tokens
    if model.kv_tokens is not None and blocks * model.block_tokens < longest:
        raise ValueError(f"a request of {longest} tokens does not fit into a KV cache of {model.kv_tokens}")
    if model.token_budget <= model.extra_slots:
        raise ValueError(f"a token budget of {model.token_budget} has no room beside {model.extra_slots} draft slots")
    if compiled is None:
        compiled = numba_installed() and request_steps(model, arrivals) > COMPILED_FROM
    table = model.table
    positions = max(1, max(len(row) for row in model.accept))
    accept = np.array([(*row, *(0.0,) * positions)[:positions] for row in model.accept]).ravel()
    row_of = np.zeros(max(model.k_of) + 1, dtype=np.int64)
    for row, k in enumerate(table.ks):
        if k < len(row_of):
            row_of[k] = row
    first, finish = np.full(n, -1.0), np.full(n, -1.0)
    counters = [np.zeros(n, dtype=np.int64) for _ in range(5)]
    totals = np.zeros(kernel.TOTALS)
    totals[kernel.STATE] = _state_of(seed)
    vectors = [
        arrivals.arrival_s, arrivals.prompt_tokens, arrivals.cached_tokens,
        arrivals.prompt_tokens + arrivals.output_tokens - 1,
        np.array(model.k_of, dtype=np.int64), row_of, accept, table.decode_ms.ravel(), table.prefill_ms,
        first, finish, *counters, totals,
    ]
    # Python reads single numbers faster from lists than from numpy vectors; they are the same.
    given = vectors if compiled else [vector.tolist() for vector in vectors]
    (arrival_s, prompt, cached, last_token, k_of, rows, chances, decode_ms, prefill_ms, first, finish, preempted,
     tokens, goal, active, stack, totals) = given
    run_steps = _compiled() if compiled else kernel.run_steps
    # Every step brings the oldest request that runs a token further, so that there are no more steps than tokens.
    most = int(arrivals.prompt_tokens.sum() + arrivals.output_tokens.sum()) + n
    while totals[kernel.FINISHED] < n:
        if totals[kernel.STEPS] > most:
            raise ArithmeticError(f"{most:,} simulated steps have not served {n:,} requests")
        run_steps(
            arrival_s, prompt, cached, last_token, model.max_num_seqs, model.token_budget, model.extra_slots, blocks,
            model.block_tokens, k_of, rows, chances, positions, decode_ms, table.decode_ms.shape[2],
            table.context_step, prefill_ms, len(table.prefill_ms), table.prefill_step, table.alone_ms,
            STEPS_AT_ONCE, first, finish, preempted, tokens, goal, active, stack, totals,
        )
    busy = float(totals[kernel.BUSY_S])
    return Run(
        arrivals, np.asarray(first), np.asarray(finish), np.asarray(preempted), busy, int(totals[kernel.STEPS]),
        float(totals[kernel.RUNNING_S]) / busy, float(totals[kernel.KV_TOKEN_S]) / busy,
        int(totals[kernel.PEAK_KV_TOKENS]),
    )


def _refuse_what_never_ends(model: EngineModel, arrivals: Arrivals) -> None:
    """ValueError where a clock would stand still or run backwards."""
    import numpy as np

    table, times = model.table, arrivals.arrival_s
    if not np.isfinite(times).all() or (np.diff(times) < 0).any():
        raise ValueError("arrival times must be finite numbers in rising order")
    if min(arrivals.prompt_tokens.min(), arrivals.output_tokens.min()) < 1:
        raise ValueError("a request has a prompt and an output of at least one token each")
    for name, ms in (("decode", table.decode_ms), ("prefill", table.prefill_ms), ("bare", np.array(table.alone_ms))):
        if not np.isfinite(ms).all() or (ms < 0).any():
            raise ValueError(f"the {name} step times must be finite and at least 0")


def numba_installed() -> bool:
    """Whether the compiled loop can be had; nothing is imported."""
    return importlib.util.find_spec("numba") is not None


def _state_of(seed: int) -> int:
    """A start of the generator: neighbouring seeds must not give neighbouring states."""
    import numpy as np

    return int(np.random.default_rng(seed).integers(1, kernel.MODULUS))


@lru_cache(maxsize=1)
def _compiled() -> Any:
    import numba

    try:
        # Kept beside the module, or in the user's cache folder where that cannot be written.
        return numba.njit(cache=True)(kernel.run_steps)
    except RuntimeError:
        # Neither can: compiled anew by each process.
        return numba.njit(kernel.run_steps)
