"""The schedule: k by batch size (num_speculative_tokens_per_batch_size), where release, runner and method honour it.

k = 0 in a band is a loaded, idle speculation, not its absence: it is priced with what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from advisor.cost.step import runner_for
from advisor.prediction import Pricing
from profiles.deployment import Candidate
from profiles.evidence import ArmStatus
from profiles.methods import method

Band = tuple[int, int, int]
"""(first load, last load, k), both ends included."""

_SWITCH_GAIN = 0.02
"""A band changes k only where the other k is better by this much: smaller differences are noise."""
_QUIET_ZONE = 1.3
"""No threshold lies within this factor of the usual load: k would flip from step to step."""


def schedule_honoured(pricing: Pricing, candidate: Candidate) -> tuple[bool, str]:
    """Whether this deployment would follow a schedule for a candidate, and the sentence that says why not."""
    situation = pricing.situation
    described = method(candidate.method)
    if not situation.release.has("dynamic_schedule"):
        return False, f"vLLM {situation.release.version} has no schedule by batch size (0.24 brought it)"
    if situation.deployment.engine.data_parallel_size > 1:
        return False, "a schedule is dropped with data parallel replicas"
    runner = runner_for(candidate, situation)
    if ("v1" if runner == "cpu" else runner) not in described.dynamic_schedule:
        return False, f"{described.title} does not honour a schedule on the {runner.upper()} runner"
    if runner == "v1" and not _timed_under_schedule(pricing, candidate):
        return (
            False,
            "on the V1 runner a schedule turns full CUDA graphs into piecewise ones: a trial must time it first",
        )
    return True, ""


def _timed_under_schedule(pricing: Pricing, candidate: Candidate) -> bool:
    trial = pricing.situation.trial
    return trial is not None and any(
        arm.candidate.label == candidate.label
        and arm.status is ArmStatus.DONE
        and arm.k_control == "schedule_lookup"
        and arm.steps
        for arm in trial.arms
    )


def grid_of(last: int) -> list[int]:
    """Loads at which k is chosen: each up to 16, then in steps of about an eighth."""
    grid, load = [], 1
    while load < last:
        grid.append(load)
        load = load + 1 if load < 16 else load + max(2, load // 8)
    grid.append(last)
    return grid


def bands_from(choose: Callable[[int, int | None], int], last: int) -> list[Band]:
    """Bands over 1..last from `choose(load, current k) -> k`, merged; a band reaches up to where the next begins."""
    bands: list[Band] = []
    current: int | None = None
    for load in grid_of(last):
        k = choose(load, current)
        if bands and bands[-1][2] == k:
            bands[-1] = (bands[-1][0], load, k)
        else:
            if bands:
                bands[-1] = (bands[-1][0], load - 1, bands[-1][2])
            bands.append((load if bands else 1, load, k))
        current = k
    return bands


def clear_of(bands: Sequence[Band], usual: int, last: int) -> list[Band]:
    """The same bands with no threshold near the usual load: the band that holds it is widened over the zone."""
    low, high = math.floor(usual / _QUIET_ZONE), min(last, math.ceil(usual * _QUIET_ZONE))
    own = next(k for start, end, k in bands if start <= usual <= end)
    low = max(1, low)
    cut: list[Band] = []
    for start, end, k in bands:
        if start < low:
            cut.append((start, min(end, low - 1), k))
    cut.append((low, high, own))
    for start, end, k in bands:
        if end > high:
            cut.append((max(start, high + 1), end, k))
    merged: list[Band] = []
    for start, end, k in cut:
        if merged and merged[-1][2] == k:
            merged[-1] = (merged[-1][0], end, k)
        else:
            merged.append((start, end, k))
    return merged


def build_schedule(pricing: Pricing, candidate: Candidate, k_at_usual: int) -> tuple[Band, ...] | None:
    """The best k by load for a candidate up to max_num_seqs, or None where one k serves every load.

    `k_at_usual` is the k decided for the usual load; its band holds it. Loads are those the engine can hold at once.
    """
    last = pricing.max_running
    reach = int(min(float(last), max(pricing.limit(candidate), pricing.running)))

    def choose(load: int, current: int | None) -> int:
        if load == pricing.running:
            return k_at_usual
        gains = {k: pricing.decode_gain(candidate, k, min(load, reach)) for k in (0, *candidate.k)}
        best = max(gains, key=lambda k: gains[k])
        if current is not None and current in gains and gains[best] < gains[current] * (1.0 + _SWITCH_GAIN):
            return current
        return best

    grid = bands_from(choose, last)
    bands = clear_of(_with_usual(grid, pricing.running, k_at_usual), pricing.running, last)
    if len(bands) == 1:
        return None
    return tuple(bands)


def _with_usual(bands: Sequence[Band], usual: int, k: int) -> list[Band]:
    """Bands over 1..last in which the usual load has the decided k."""
    pieces: list[Band] = []
    for start, end, value in bands:
        if start <= usual <= end and value != k:
            if start < usual:
                pieces.append((start, usual - 1, value))
            pieces.append((usual, usual, k))
            if usual < end:
                pieces.append((usual + 1, end, value))
        else:
            pieces.append((start, end, value))
    return pieces


def k_at(schedule: Sequence[Band], load: int) -> int:
    """The k a schedule asks for at a load; beyond its end the last one holds."""
    for start, end, k in schedule:
        if start <= load <= end:
            return k
    return schedule[-1][2]
