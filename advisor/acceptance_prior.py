"""Acceptance assumed from published data where nothing was measured: wide intervals, source `assumed`."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from advisor.intervals import Z80
from advisor.situation import Situation
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate
from profiles.methods import method
from profiles.workload import Task

_UNSTATED_TEMPERATURE = 0.5
"""Requests that nobody described sample greedily or at the engine's default of 1: the middle, and `_unstated_sd`."""


@lru_cache(maxsize=1)
def prior_table() -> dict[str, Any]:
    """advisor/acceptance_prior.json: levels by method and task, with n and the publications they come from."""
    loaded: dict[str, Any] = json.loads(files("advisor").joinpath("acceptance_prior.json").read_text(encoding="utf-8"))
    return loaded


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _logit(p: float) -> float:
    return math.log(p / (1.0 - p))


def _shift(situation: Situation, candidate: Candidate, context_tokens: float) -> float:
    """Logit shift of what is known beside method and task: temperature, size ratio, long context."""
    table = prior_table()
    described = method(candidate.method)
    heat, workload = table["temperature"], situation.deployment.workload
    stated = workload.sampling.temperature if workload.temperature_stated else _UNSTATED_TEMPERATURE
    shift = heat["logit_per_unit"] * min(stated, heat["cap"])
    draft: ModelShape | None = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    if described.drafter == "model" and draft is not None and situation.target.params > 0:
        size = table["size_ratio"]
        shift += size["logit_per_decade"] * math.log10(
            max(1e-4, draft.params / situation.target.params) / size["reference"]
        )
    long_context = table["long_context"]
    if described.drafter == "head" and context_tokens > long_context["from_tokens"]:
        doublings = math.log2(context_tokens / long_context["from_tokens"])
        shift += max(long_context["cap"], long_context["logit_per_doubling"] * doublings)
    return float(shift)


def _unstated_sd(situation: Situation, levels: Iterable[float]) -> float:
    """Logit standard deviation of what nobody said: the temperature (between 0 and 1), and the text, which may then be
    of any task; `levels` are the tasks' own."""
    workload = situation.deployment.workload
    heat = 0.0 if workload.temperature_stated else prior_table()["temperature"]["logit_per_unit"] / math.sqrt(12.0)
    text = 0.0 if workload.tasks_stated else statistics.pstdev(levels)
    return math.hypot(heat, text)


def prior_positions(
    situation: Situation, candidate: Candidate, task: Task, k: int, context_tokens: float
) -> tuple[list[tuple[float, float, float]], float]:
    """Unconditional acceptance by position as (low, value, high) over an 80 % interval, and the matched share.

    k is the number of positions wanted. Long contexts widen the interval of heads: they were trained on short ones.
    """
    table = prior_table()
    described = method(candidate.method)
    shift = _shift(situation, candidate, context_tokens)
    positions: list[tuple[float, float, float]] = []
    if described.drafter == "lookup":
        lookup = table["lookup"]
        by_task = lookup["suffix" if described.package else "ngram"]
        matched, accept = by_task.get(task.value, by_task["mixed"])
        found_sd = math.hypot(0.75 * lookup["matched_logit_sd"],
                              _unstated_sd(situation, (_logit(m) for m, _ in by_task.values())))
        accept_sd = math.hypot(0.75 * lookup["accept_logit_sd"],
                               _unstated_sd(situation, (_logit(a) for _, a in by_task.values())))
        triple = []
        for z in (-Z80, 0.0, Z80):
            # Both vary together: text that repeats itself is found more often and accepted further.
            share = _logistic(_logit(matched) + z * found_sd)
            conditional = _logistic(_logit(accept) + shift + z * accept_sd)
            triple.append((share, conditional))
        for i in range(k):
            low, value, high = (share * conditional ** (i + 1) for share, conditional in triple)
            positions.append((low, value, high))
        return positions, triple[1][0]
    level = table["method"].get(candidate.method, table["method"]["other"])
    task_shift = table["task"].get(task.value, table["task"]["mixed"])["logit"]
    spread = level["logit_sd"] * (1.5 if described.drafter == "head" and context_tokens > 4096 else 1.0)
    levels = [row["logit"] for row in table["task"].values() if isinstance(row, dict)]
    spread = math.hypot(spread, _unstated_sd(situation, levels))
    middle = level["logit"] + task_shift + shift
    alphas = [_logistic(middle + z * spread) for z in (-Z80, 0.0, Z80)]
    for i in range(k):
        low, value, high = (alpha ** (i + 1) for alpha in alphas)
        positions.append((low, value, high))
    return positions, 1.0
