"""Small engines for the tests of the simulation: step times that can be added up by hand."""

from __future__ import annotations

import numpy as np

from advisor.capacity.arrivals import Arrivals
from advisor.capacity.simulation import EngineModel
from advisor.capacity.step_table import StepTable


def engine(
    *,
    seqs: int = 64,
    k: int = 0,
    accept: tuple[float, ...] = (),
    k_of: tuple[int, ...] | None = None,
    base_ms: float = 10.0,
    per_request_ms: float = 0.0,
    per_draft_ms: float = 0.0,
    per_context_ms: float = 0.0,
    prompt_ms: float = 0.01,
    budget: int = 8192,
    kv_tokens: int | None = None,
    extra_slots: int = 0,
) -> EngineModel:
    """A step takes base + per_request x requests + per_draft x k, plus per_context for each KV token; a prompt adds
    prompt_ms a token; a step without decoding requests costs base_ms besides."""
    k_of = k_of or (k,) * (seqs + 1)
    ks = tuple(sorted(set(k_of)))
    running = np.arange(seqs + 1)[:, None]
    contexts = np.linspace(0.0, 4000.0, 9)[None, :]
    decode = np.stack([
        base_ms + per_request_ms * running + per_draft_ms * row + per_context_ms * running * contexts for row in ks
    ])
    table = StepTable(ks, decode, 500.0, np.linspace(0.0, 4096 * prompt_ms, 65), 64.0, base_ms)
    return EngineModel(table, k_of, tuple((*accept, *(0.0,) * row)[:row] for row in ks), budget, kv_tokens,
                       extra_slots)


def requests(times: list[float], prompts: list[int], outputs: list[int], cached: list[int] | None = None) -> Arrivals:
    """Requests stated one by one."""
    n = len(times)
    return Arrivals(np.array(times, dtype=float), np.array(prompts, dtype=np.int64),
                    np.array(cached or [0] * n, dtype=np.int64), np.array(outputs, dtype=np.int64))
