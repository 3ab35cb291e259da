"""The schedule: k by batch size (num_speculative_tokens_per_batch_size), where release, runner and method honour it.

k = 0 in a band is a loaded, idle speculation, not its absence: it is priced with what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.cost.measured import MeasuredCost
from advisor.cost.step import runner_for
from advisor.prediction import Pricing
from advisor.release_rules import refused_schedule
from profiles.deployment import Candidate
from profiles.evidence import ArmStatus
from profiles.methods import method

Band = tuple[int, int, int]
"""(first load, last load, k), both ends included."""

NOISE = 0.02
"""Relative difference of two k that is no difference: a band changes k only for more, and of two that are chosen
between, the smaller one wins."""
_QUIET_ZONE = 1.3
"""No threshold lies within this factor of the usual load: k would flip from step to step."""


def schedule_honoured(pricing: Pricing, candidate: Candidate) -> tuple[bool, str]:
    """Whether this deployment would follow a schedule for a candidate, and the sentence that says why not."""
    situation = pricing.situation
    described = method(candidate.method)
    runner = runner_for(candidate, situation)
    why_not = refused_schedule(described, situation.release, runner, situation.deployment.engine.data_parallel_size)
    if why_not is not None:
        return False, why_not
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


def clear_of(bands: Sequence[Band], usual: int, last: int, until: int | None = None) -> list[Band]:
    """The same bands with no threshold near the usual load: the band that holds it is widened over the zone, but not
    to `until` (the crossover) or beyond."""
    low, high = math.floor(usual / _QUIET_ZONE), min(last, math.ceil(usual * _QUIET_ZONE))
    if until is not None:
        high = max(usual, min(high, until - 1))
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
    return _merged(cut)


def _merged(bands: Sequence[Band]) -> list[Band]:
    merged: list[Band] = []
    for start, end, k in bands:
        if merged and merged[-1][2] == k:
            merged[-1] = (merged[-1][0], end, k)
        else:
            merged.append((start, end, k))
    return merged


def crossover(pricing: Pricing, candidate: Candidate) -> int | None:
    """Smallest load from which on no k of a candidate that fits gains end to end; None where the largest load
    (max_num_seqs) still gains. Loads between those of the grid are looked at only where the last gain ends."""
    ks = fitting(pricing, candidate)

    def gains(load: int) -> bool:
        return any(pricing.speedup(candidate, k, load) > 1.0 for k in ks)

    last = pricing.max_running
    loads = sorted({pricing.running, *grid_of(last)})
    good = next((i for i in range(len(loads) - 1, -1, -1) if gains(loads[i])), None)
    if good is None:
        return 1
    if good == len(loads) - 1:
        return None
    low, high = loads[good], loads[good + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if gains(middle):
            low = middle
        else:
            high = middle
    return high


def fitting(pricing: Pricing, candidate: Candidate) -> list[int]:
    """The k of a candidate that memory and engine allow, without those to be avoided at any load where others are
    left."""
    allowed = [k for k in candidate.k if pricing.allows(candidate, k)]
    return [k for k in allowed if not warned_of(pricing, candidate.label, k, 1)] or allowed


def warned_of(pricing: Pricing, label: str, k: int, running: int) -> str:
    """Codes of the rules that warn of a candidate's k at a load (`Pricing.avoided`); empty where none does."""
    since, codes = pricing.avoided.get((label, k), (0, ""))
    return codes if running >= since else ""


def build_schedule(
    pricing: Pricing, candidate: Candidate, k_at_usual: int, cross: int | None
) -> tuple[Band, ...] | None:
    """The best k by load for a candidate up to max_num_seqs, or None where one k serves every load.

    `k_at_usual` is the k decided for the usual load; its band holds it. k is chosen by the speed-up end to end, as the
    crossover `cross` is: from there on the bands have k = 0. k falls with the load, wiggles of the cost model smoothed
    away, except where the trial timed both ks at a load and found the larger one better.
    """
    last, usual = pricing.max_running, pricing.running
    end = last if cross is None else min(last, cross - 1)
    if end < usual:
        return None
    # The engine is started with the largest k of all, which must leave the usual load its room.
    room = min(float(usual), pricing.limit(candidate, k_at_usual))
    ks = [k for k in fitting(pricing, candidate) if k <= k_at_usual or pricing.limit(candidate, k) >= room]

    def best(load: int, current: int) -> int:
        gains = {k: pricing.speedup(candidate, k, load) for k in {*ks, current}}
        found = max(gains, key=lambda k: (gains[k], -k))
        return current if gains[found] < gains[current] * (1.0 + NOISE) else found

    timed = _timed_cells(pricing, candidate)
    loads = sorted({usual, *grid_of(end)})
    at = loads.index(usual)
    chosen = {usual: k_at_usual}
    current = k_at_usual
    for load in loads[at + 1 :]:
        found = best(load, current)
        current = found if {(load, found), (load, current)} <= timed else min(current, found)
        chosen[load] = current
    current = k_at_usual
    for load in reversed(loads[:at]):
        found = best(load, current)
        current = found if {(load, found), (load, current)} <= timed else max(current, found)
        chosen[load] = current
    bands: list[Band] = []
    for i, load in enumerate(loads):
        bands.append((load, loads[i + 1] - 1 if i + 1 < len(loads) else end, chosen[load]))
    bands = clear_of(_merged(bands), usual, end, cross)
    if len(bands) > 1 and bands[-1][0] == end != usual and not any(load == end for load, _ in timed):
        # A band of the last load alone is where the grid ends, not where the best k changes.
        bands = [*bands[:-2], (bands[-2][0], end, bands[-2][2])]
    if end < last:
        bands.append((end + 1, last, 0))
    return None if len(bands) == 1 else tuple(bands)


def _timed_cells(pricing: Pricing, candidate: Candidate) -> set[tuple[int, int]]:
    """(load, k) that the trial timed, where the prices rest on its times."""
    trial = pricing.situation.trial
    if trial is None or not isinstance(pricing.cost, MeasuredCost):
        return set()
    return {
        (step.running, step.k) for arm in trial.arms if arm.candidate.label == candidate.label for step in arm.steps
    }


def k_at(schedule: Sequence[Band], load: int) -> int:
    """The k a schedule asks for at a load; beyond its end the last one holds."""
    for start, end, k in schedule:
        if start <= load <= end:
            return k
    return schedule[-1][2]
