"""Synthetic evidence of a running server, made to agree with a synthetic record unless told otherwise."""

from __future__ import annotations

from typing import Any

from profiles.evidence import ServerEvidence, SpeculationCounters
from profiles.schema import Quantity, Source

TARGET = "acme/Target-8B-Instruct"


def counters(positions: tuple[float, ...], drafts: float, *, dispersion: float | None = 1.0,
             in_window: bool = True) -> SpeculationCounters:
    """Speculation whose share of drafts accepted at each position is `positions`."""
    accepted = sum(positions) * drafts
    return SpeculationCounters(
        enabled=True, drafts=drafts, draft_tokens=drafts * len(positions), accepted_tokens=accepted,
        per_position=positions, acceptance_length=1 + sum(positions) if drafts else None, dispersion=dispersion,
        in_window=in_window)


def evidence(*, load: float = 4.0, speculation: SpeculationCounters | None = None, tpot_ms: float | None = 5.0,
             tpot_half: float = 0.05, steps: float = 4000.0, window_s: float = 60.0, requests: float = 60.0,
             tokens_per_s: float | None = None, **changes: Any) -> ServerEvidence:
    """A server at `load` running requests for a window of `steps` engine steps."""
    accepted = speculation.accepted_tokens if speculation is not None else 0.0
    generated = steps * load + accepted
    stated: dict[str, Any] = {
        "url": "http://h:1/metrics", "engine": "vllm", "engine_version": "0.32.0", "models": (TARGET,),
        "window_s": window_s,
        "running": Quantity(value=load, low=load, high=load, n=9, source=Source.RECORDED),
        "waiting": None, "kv_cache_usage": None, "requests_in_window": requests, "requests_total": requests,
        "output_tokens_total": generated, "engine_steps": steps, "speculation": speculation,
        "generation_tokens_per_s": Quantity(value=generated / window_s if tokens_per_s is None else tokens_per_s,
                                            source=Source.RECORDED),
        "tpot_ms": None if tpot_ms is None else Quantity(value=tpot_ms, low=tpot_ms - tpot_half,
                                                         high=tpot_ms + tpot_half, n=60, source=Source.RECORDED),
    }
    return ServerEvidence(**{**stated, **changes})
