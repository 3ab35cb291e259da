"""Fits the simulation's constants to some of the loads measured on a real engine, and scores it on the others.

Used by benchmarks.capacity_on_cpu. Both sides see the very same requests: the times at which they were sent, and their
lengths. The answers' streams show the engine's steps: what comes at the same moment came of one step, and the time
since the moment before is its length. A step's time, its growth with decoding requests and with prompt tokens are
fitted to the steps of the fitted loads, what the server takes besides to their times to first token, and acceptance by
position is counted on them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.capacity.arrivals import from_trace
from advisor.capacity.simulation import EngineModel, simulate
from advisor.capacity.step_table import StepTable
from advisor.cost.fit import proportional_fit

SEQS, BUDGET = 8, 2048
"""max_num_seqs and max_num_batched_tokens of the servers."""
_LONGEST = 4096.0


@dataclass(frozen=True)
class Load:
    """One load as it was sent and answered; seconds from its first request."""

    name: str
    role: str
    """fitted, scored, or saturation (scored; all requests at once)."""
    sent_s: tuple[float, ...]
    first_s: tuple[float, ...]
    last_s: tuple[float, ...]
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    chunks_s: tuple[tuple[float, ...], ...]
    """When each piece of each answer came."""
    lone_ms: float = 0.0
    """A lone request's step, the mean of before and after this load: shows how steady the machine was."""

    @property
    def rate_rps(self) -> float:
        span = max(self.sent_s) - min(self.sent_s)
        return (len(self.sent_s) - 1) / span if span > 1.0 else math.inf


@dataclass(frozen=True)
class Seen:
    """What users saw of a load, measured or simulated."""

    ttft_ms: Any
    tpot_ms: Any
    tokens_per_s: float
    requests_per_s: float


@dataclass(frozen=True)
class Constants:
    """Milliseconds."""

    step: float
    per_request: float
    per_prompt_token: float
    server: float


def measured(load: Load) -> Seen:
    sent, first, last = (np.array(v) for v in (load.sent_s, load.first_s, load.last_s))
    return _seen(sent, first, last, np.array(load.output_tokens))


def _seen(sent: Any, first: Any, last: Any, output: Any) -> Seen:
    span = float(last.max() - sent.min())
    return Seen(1e3 * (first - sent), 1e3 * (last - first) / np.maximum(1, output - 1), float(output.sum()) / span,
                len(sent) / span)


def engine_of(constants: Constants, k: int, per_position: Sequence[float]) -> EngineModel:
    """The engine these constants describe, at one k."""
    running = np.arange(SEQS + 1)[:, None] * np.ones((1, 9))
    decode = constants.step + constants.per_request * running
    prefill = np.linspace(0.0, _LONGEST * constants.per_prompt_token, 65)
    table = StepTable((k,), decode[None], _LONGEST / 8, prefill, _LONGEST / 64, constants.step)
    return EngineModel(table, (k,) * (SEQS + 1), (tuple(per_position[:k]),), BUDGET, extra_slots=1 if k else 0)


def simulated(load: Load, constants: Constants, k: int, per_position: Sequence[float], seeds: int = 3) -> Seen:
    """The same requests through the simulation, over several draws of acceptance."""
    arrivals = from_trace(load.sent_s, load.prompt_tokens, load.output_tokens)
    model = engine_of(constants, k, per_position)
    runs = [simulate(model, arrivals, seed=seed, compiled=False) for seed in range(seeds if k else 1)]
    seen = [_seen(arrivals.arrival_s, run.first_token_s + constants.server / 1e3,
                  run.finish_s + constants.server / 1e3, arrivals.output_tokens) for run in runs]
    return Seen(
        np.mean([s.ttft_ms for s in seen], axis=0), np.mean([s.tpot_ms for s in seen], axis=0),
        float(np.mean([s.tokens_per_s for s in seen])), float(np.mean([s.requests_per_s for s in seen])),
    )


@dataclass(frozen=True)
class Step:
    """One engine step as the streams show it."""

    ms: float
    decoding: int
    """Requests that got tokens after their first."""
    prompt_tokens: int
    """Of requests that got their first."""


_TOGETHER_S = 0.012
"""Pieces of one step reach the client within this time, or within a quarter of a usual step: the server sends them one
after the other."""


def steps_of(load: Load) -> list[Step]:
    """The steps during which the engine was busy from end to end."""
    first_look = _steps_within(load, _TOGETHER_S)
    if not first_look:
        return []
    return _steps_within(load, max(_TOGETHER_S, 2.5e-4 * float(np.quantile([s.ms for s in first_look], 0.75))))


def _steps_within(load: Load, together_s: float) -> list[Step]:
    events = sorted((at, number, i == 0) for number, times in enumerate(load.chunks_s) for i, at in enumerate(times))
    groups: list[list[tuple[float, int, bool]]] = []
    for event in events:
        if groups and event[0] - groups[-1][0][0] <= together_s:
            groups[-1].append(event)
        else:
            groups.append([event])
    last = [times[-1] for times in load.chunks_s]
    found = []
    for before, group in itertools.pairwise(groups):
        # Somebody's answer went on after the step before: the engine did not wait in between.
        if not any(last[number] > before[-1][0] + together_s for _, number, _ in before):
            continue
        first = sum(load.prompt_tokens[number] for _, number, begins in group if begins)
        found.append(Step(1e3 * (group[0][0] - before[0][0]), sum(not begins for _, _, begins in group), first))
    return found


def fitted(loads: Sequence[Load], k: int, per_position: Sequence[float]) -> Constants:
    """The constants that come nearest to the steps and first tokens of the fitted loads."""
    chosen = [load for load in loads if load.role == "fitted"]
    steps = [step for load in chosen for step in steps_of(load)]
    middle = float(np.median([step.ms for step in steps]))
    # A hiccup of the machine is no property of the engine, nor is half a step that was sent in two pieces.
    steps = [step for step in steps if step.prompt_tokens or 0.3 * middle < step.ms < 3.0 * middle]
    carried = np.array([[1.0, step.decoding, step.prompt_tokens] for step in steps])
    took = np.array([step.ms for step in steps])
    # A slow step counts in full: users see the mean.
    step_ms, per_request, per_prompt_token = map(float, proportional_fit(
        carried, took, np.ones(len(steps)), outliers=False).parts)
    bare = Constants(step_ms, per_request, per_prompt_token, 0.0)
    late = [measured(load).ttft_ms - simulated(load, bare, k, per_position).ttft_ms for load in chosen]
    return replace(bare, server=max(0.0, float(np.median(np.concatenate(late)))))


@dataclass(frozen=True)
class Row:
    """One load of one arm, both ways. Errors are relative: simulated / measured - 1."""

    arm: str
    load: str
    role: str
    rate_rps: float
    requests: int
    ttft_ms: tuple[float, float]
    """Measured and simulated means, as in the others."""
    tpot_ms: tuple[float, float]
    tokens_per_s: tuple[float, float]
    requests_per_s: tuple[float, float]
    lone_ms: float

    def error(self, name: str) -> float:
        real, model = getattr(self, name)
        return float(model / real - 1.0)


def rows_of(arm: str, loads: Sequence[Load], constants: Constants, k: int, per_position: Sequence[float]) -> list[Row]:
    found = []
    for load in loads:
        real, model = measured(load), simulated(load, constants, k, per_position)
        found.append(Row(
            arm, load.name, load.role, load.rate_rps, len(load.sent_s),
            (float(real.ttft_ms.mean()), float(model.ttft_ms.mean())),
            (float(real.tpot_ms.mean()), float(model.tpot_ms.mean())),
            (real.tokens_per_s, model.tokens_per_s), (real.requests_per_s, model.requests_per_s), load.lone_ms,
        ))
    return found


LIMITS = {"tokens_per_s": 0.10, "tpot_ms": 0.15, "ttft_ms": 0.25, "requests_per_s": 0.15}
"""Largest median error that the simulation is held to (saturation: each)."""
WORDS = {"tokens_per_s": "throughput", "tpot_ms": "TPOT", "ttft_ms": "TTFT below saturation",
         "requests_per_s": "saturation rate (larger of both arms)"}


def medians(rows: Sequence[Row]) -> dict[str, float]:
    """Median absolute errors over the scored loads; `requests_per_s` is the larger one of the saturations."""
    scored = [row for row in rows if row.role == "scored"]
    found = {name: float(np.median([abs(row.error(name)) for row in scored]))
             for name in ("tokens_per_s", "tpot_ms", "ttft_ms") if scored}
    full = [abs(row.error("requests_per_s")) for row in rows if row.role == "saturation"]
    return {**found, **({"requests_per_s": max(full)} if full else {})}


def table_of(rows: Sequence[Row]) -> str:
    """Markdown: every load, fitted ones marked, and the medians against what they are held to."""
    lines = ["| arm | load | requests/s | requests | lone step, ms | TTFT ms: measured, simulated | "
             "TPOT ms: measured, simulated | tokens/s: measured, simulated |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        rate = "all at once" if math.isinf(row.rate_rps) else f"{row.rate_rps:.2f}"
        cells = [f"{a:,.0f}, {b:,.0f} ({100 * (b / a - 1):+.0f} %)" for a, b in (row.ttft_ms, row.tpot_ms)]
        a, b = row.tokens_per_s
        cells.append(f"{a:.1f}, {b:.1f} ({100 * (b / a - 1):+.0f} %)")
        lines.append(f"| {row.arm} | {row.load}, {row.role} | {rate} | {row.requests} | {row.lone_ms:.0f} | "
                     f"{' | '.join(cells)} |")
    found = medians(rows)
    lines += ["", "| over the scored loads | median error | held to |", "|---|---|---|"]
    lines += [f"| {WORDS[name]} | {100 * value:.1f} % | {100 * LIMITS[name]:.0f} %"
              f"{'' if value < LIMITS[name] else ', not kept'} |" for name, value in found.items()]
    return "\n".join(lines)
