"""How far drafts are accepted: per-position acceptance, and from it the acceptance length for every k.

One run at the largest k gives every smaller k: position i is accepted or not before anything behind it is looked at.
Per-position acceptance is unconditional, per step, and steps without a draft count as steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from advisor.assumed_acceptance import prior_curve
from advisor.intervals import Z80, log_sd_of
from advisor.recorded_acceptance import ALL_TOGETHER, curve_of, over_records
from advisor.situation import Situation
from profiles.deployment import Candidate
from profiles.evidence import RequestAcceptance, ServerEvidence, TrialEvidence
from profiles.methods import Method, method
from profiles.schema import Quantity, Source
from profiles.workload import Task

_RESAMPLES = 400
_FLOOR_LOG_SD = 0.02
"""No acceptance length is known better than this: other prompts of the same kind differ by as much."""

_UNSEEN_TASK_LOG_SD = 0.12
"""Text of a task that was not run is taken from those that were: acceptance lengths of one draft differ by about this
much between the tasks of a published table."""


Tier = Literal["trial", "scoring", "replay", "server", "published"]
"""Where an acceptance comes from: a live run, one pass of the draft over recorded outputs, drafts recomputed from
recorded text, a running server's counters, or published cases."""


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of one candidate on the workload's task mix. Tuples are indexed by position, or by k - 1."""

    per_position: tuple[Quantity, ...]
    lengths: tuple[Quantity, ...]
    drafted: tuple[float, ...]
    """Mean drafted tokens of a step when k is asked for: k, less where steps have no draft or a shorter one."""
    matched_share: float
    """Share of steps that had a draft."""
    source: Source
    note: str = ""
    tier: Tier = "published"

    def length(self, k: int) -> Quantity:
        """Mean tokens per step with k drafted (bonus included); exactly 1 for k = 0."""
        if k == 0 or not self.lengths:
            return Quantity(value=1.0, low=1.0, high=1.0, source=self.source)
        return self.lengths[min(k, len(self.lengths)) - 1]

    def drafted_tokens(self, k: int) -> float:
        return 0.0 if k == 0 or not self.drafted else self.drafted[min(k, len(self.drafted)) - 1]

    def log_sd(self, k: int) -> float:
        """Standard deviation of ln(acceptance length) at k."""
        quantity = self.length(k)
        return log_sd_of(quantity.low, quantity.high)


NO_DRAFT = Acceptance((), (), (), 0.0, Source.MEASURED, tier="trial")
"""The null candidate's: one token a step, certainly."""


def acceptance_of(situation: Situation, candidate: Candidate, prompt_tokens: float) -> Acceptance:
    """The best acceptance known for a candidate: measured by a trial, worked out over recorded outputs, counted by
    a server, else assumed.

    prompt_tokens is the mean length of the workload's prompts.
    """
    described = method(candidate.method)
    if described.drafter == "none":
        return NO_DRAFT
    most = max(candidate.k)
    trial = situation.trial
    if trial is not None:
        requests = _requests_of(trial, candidate)
        if requests and not distrusted(trial, candidate):
            return _measured(situation, described, requests, most, trial)
    recorded_outputs = _over_records(situation, candidate, most, prompt_tokens)
    if recorded_outputs is not None:
        return recorded_outputs
    server = situation.server
    if server is not None and len(situation.candidates) == 1 and server.speculation is not None:
        recorded = _recorded(described, server, most)
        if recorded is not None:
            return recorded
    return _assumed(situation, candidate, most, prompt_tokens)


# --- measured -----------------------------------------------------------------------------------------------------
_BREAKS_ACCEPTANCE = frozenset(
    {
        "later_positions_never_accepted",
        "acceptance_above_one",
        "counters_did_not_move",
        "sampled_distribution_differs",
        "acceptance_not_monotone",
    }
)


def distrusted(trial: TrialEvidence, candidate: Candidate) -> bool:
    """Whether the trial found a pattern in this candidate's counts that a correct engine cannot show."""
    return any(
        item.severity == "error" and item.arm == candidate.label and item.code in _BREAKS_ACCEPTANCE
        for item in trial.implausible
    )


def _requests_of(trial: TrialEvidence, candidate: Candidate) -> dict[int, list[RequestAcceptance]]:
    """A candidate's requests by the k they were run at.

    Where the record does not say k, drafts that are never shorter tell it; those of a lookup do only where the arm ran
    at one k throughout.
    """
    lookup = not method(candidate.method).always_drafts
    found: dict[int, list[RequestAcceptance]] = {}
    for arm in trial.arms:
        if arm.candidate.label != candidate.label:
            continue
        top = max(arm.candidate.k)
        for request in arm.requests:
            k = request.k or (top if lookup and arm.k_control == "fixed" else len(request.drafted))
            if k == 0 and lookup:
                # Not one step found a draft: that is a finding, and the arm's first block runs at the largest k.
                k = top
            if k > 0 and request.steps > 0:
                found.setdefault(k, []).append(request)
    return found


@dataclass(frozen=True)
class _Draws:
    """Bootstrap of one task: row 0 is the observed sample, the others resample requests."""

    positions: Any
    """(1 + resamples, k): accepted at this position per step."""
    drafted: Any
    """(1 + resamples, k): steps with a draft at least this long, per step."""


def _bootstrap(requests: Sequence[RequestAcceptance], k: int, described: Method, seed: int) -> _Draws:
    import numpy as np

    steps = np.array([r.steps for r in requests], dtype=float)
    drafted = np.array([(*r.drafted, *(0,) * k)[:k] for r in requests], dtype=float)
    accepted = np.array([(*r.accepted, *(0,) * k)[:k] for r in requests], dtype=float)
    n = len(requests)
    weights = np.vstack(
        [np.ones((1, n)), np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=_RESAMPLES)]
    )
    total_steps = np.maximum(weights @ steps, 1e-9)[:, None]
    total_drafted, total_accepted = weights @ drafted, weights @ accepted
    if described.always_drafts:
        # Every step has a draft of the k asked for, save the last of a request, which is cut to what is left: steps
        # whose draft was shorter say nothing about the positions behind its end.
        conditional = np.where(total_drafted > 0, total_accepted / np.maximum(total_drafted, 1e-9), 0.0)
        positions = np.minimum.accumulate(conditional, axis=1)
        return _Draws(positions, np.ones_like(positions))
    positions = np.minimum.accumulate(total_accepted / total_steps, axis=1)
    return _Draws(positions, np.minimum(1.0, total_drafted / total_steps))


def _shares(situation: Situation, have: set[Task]) -> tuple[dict[Task | None, float], float, str]:
    """Share of each measured task in the workload; None stands for all of them pooled. With it, the extra log
    standard deviation for text that was not run, and a note."""
    shares: dict[Task | None, float] = {}
    unseen = 0.0
    for task, share in situation.deployment.workload.tasks.items():
        if task in have:
            shares[task] = shares.get(task, 0.0) + share
        else:
            shares[None] = shares.get(None, 0.0) + share
            unseen += share if task is not Task.MIXED else 0.0
    note = (
        ""
        if unseen == 0
        else "some of the workload's tasks were not run: their acceptance is taken from those that were"
    )
    return shares, unseen * _UNSEEN_TASK_LOG_SD, note


@dataclass(frozen=True)
class _Mix:
    """Bootstrap draws of the workload's task mix; row 0 is the observed value. Columns are positions, or k - 1."""

    lengths: Any
    positions: Any
    drafted: Any
    matched: float


def _mix(
    requests: Sequence[RequestAcceptance], k: int, described: Method, shares: dict[Task | None, float], seed: int
) -> _Mix:
    import numpy as np

    draws = {
        task: _bootstrap([r for r in requests if task is None or r.task is task], k, described, seed + i)
        for i, task in enumerate(shares)
    }
    # Requests of equal output length need steps in inverse proportion to their acceptance length: the engine's mean
    # over all steps is the harmonic mean over tasks, and a task's weight in a mean per step follows.
    weights = {task: share / (1.0 + np.cumsum(draws[task].positions, axis=1)) for task, share in shares.items()}
    inverse = np.asarray(sum(weights.values()))
    drafted = sum(w * np.cumsum(draws[task].drafted, axis=1) for task, w in weights.items()) / inverse
    last = {task: w[:, -1:] / inverse[:, -1:] for task, w in weights.items()}
    positions = np.asarray(sum(w * draws[task].positions for task, w in last.items()))
    matched = np.asarray(sum(w * draws[task].drafted[:, :1] for task, w in last.items()))
    return _Mix(1.0 / inverse, positions, drafted, float(matched[0, 0]))


def _measured(
    situation: Situation,
    described: Method,
    by_depth: dict[int, list[RequestAcceptance]],
    most: int,
    trial: TrialEvidence,
) -> Acceptance:
    import numpy as np

    deepest = max(by_depth)
    requests = by_depth[deepest]
    tasks = {r.task for r in requests}
    shares, unseen_log_sd, note = _shares(situation, tasks)
    seed = situation.deployment.trial.seed
    if abs(trial.temperature - situation.deployment.workload.sampling.temperature) > 0.05:
        unseen_log_sd = math.hypot(unseen_log_sd, 0.1)
        note = (note + "; " if note else "") + (
            f"measured at temperature {trial.temperature:g}, the workload samples at "
            f"{situation.deployment.workload.sampling.temperature:g}"
        )
    mix = _mix(requests, deepest, described, shares, seed)
    lengths, drafted_rows = np.array(mix.lengths), np.array(mix.drafted)
    for depth, own in by_depth.items():
        # A run at this very k, on the same tasks, has no bias from steps that start at other places; a short one is
        # only heard in proportion.
        if depth == deepest or not all(any(r.task is t for r in own) for t in shares if t is not None):
            continue
        weight = min(1.0, sum(r.steps for r in own) * 1.25 / sum(r.steps for r in requests))
        direct = _mix(own, depth, described, shares, seed)
        lengths[:, depth - 1] = lengths[:, depth - 1] ** (1.0 - weight) * direct.lengths[:, -1] ** weight
        drafted_rows[:, depth - 1] = (1.0 - weight) * drafted_rows[:, depth - 1] + weight * direct.drafted[:, -1]
    # More drafted tokens never give fewer accepted ones: what breaks this is noise between runs.
    lengths = np.maximum.accumulate(lengths, axis=1)
    n = len(requests)
    per_position = [_from_draws(mix.positions[:, i], n, 0.0) for i in range(deepest)]
    by_k = [_from_draws(lengths[:, i], n, unseen_log_sd, floor=_FLOOR_LOG_SD, least=1.0) for i in range(deepest)]
    drafted = [float(drafted_rows[0, i]) for i in range(deepest)]
    return _extended(per_position, by_k, drafted, most, mix.matched, Source.MEASURED, note, "trial")


def _from_draws(column: Any, n: int, extra_log_sd: float, floor: float = 0.0, least: float = 0.0) -> Quantity:
    """The observed value with the bootstrap's 80 % interval, never narrower than the floor."""
    import numpy as np

    value = float(column[0])
    low, high = (float(v) for v in np.quantile(column[1:], [0.1, 0.9]))
    low, high = min(low, value), max(high, value)
    spread = Z80 * math.hypot(extra_log_sd, floor)
    if spread > 0:
        below, above = math.log(value / low) if low > 0 else 0.0, math.log(high / value) if value > 0 else 0.0
        low, high = value * math.exp(-math.hypot(below, spread)), value * math.exp(math.hypot(above, spread))
    return Quantity(value=value, low=max(least, low), high=high, n=n, source=Source.MEASURED, note="requests resampled")


def _extended(
    per_position: list[Quantity],
    by_k: list[Quantity],
    drafted: list[float],
    most: int,
    matched: float,
    source: Source,
    note: str,
    tier: Tier,
) -> Acceptance:
    """Positions beyond the measured ones continue with the last conditional acceptance, with a wider interval."""
    measured_k = len(per_position)
    for _ in range(measured_k, most):
        last, before = per_position[-1].value, per_position[-2].value if len(per_position) > 1 else 1.0
        conditional = min(1.0, last / before) if before > 0 else 0.0
        value = last * conditional
        per_position.append(
            Quantity(value=value, low=0.0, high=last, source=Source.MODELLED, note="beyond the measured positions")
        )
        length = by_k[-1]
        grown = length.value + value
        spread = math.hypot(log_sd_of(length.low, length.high), 0.5 * value / grown)
        by_k.append(
            Quantity(
                value=grown,
                low=max(1.0, grown * math.exp(-Z80 * spread)),
                high=grown * math.exp(Z80 * spread),
                n=length.n,
                source=Source.MODELLED,
                note=f"positions beyond {measured_k} extrapolated",
            )
        )
        share = drafted[-1] - drafted[-2] if len(drafted) > 1 else drafted[-1]
        drafted.append(drafted[-1] + max(0.0, share))
    return Acceptance(tuple(per_position), tuple(by_k), tuple(drafted), matched, source, note, tier)


# --- over recorded outputs ---------------------------------------------------------------------------------------
def _over_records(situation: Situation, candidate: Candidate, most: int, prompt_tokens: float) -> Acceptance | None:
    """Acceptance from `probe replay` or `probe scoring`; None where they did not look at this candidate."""
    found = curve_of(situation, candidate)
    if found is None:
        return None
    record, curve = found
    # Records that tell no task are the user's own mix.
    mix_of = _shares(situation, set(curve.by_task)) if curve.by_task else (ALL_TOGETHER, 0.0, "")
    bound = _assumed(situation, candidate, len(curve.by_k), prompt_tokens).lengths if record.lower_bound else ()
    mix = over_records(situation, record, curve, *mix_of, bound)
    return _extended(mix.positions, mix.lengths, mix.drafted, most, mix.matched, Source.RECORDED, mix.note, record.tier)


# --- recorded -----------------------------------------------------------------------------------------------------
def _recorded(described: Method, server: ServerEvidence, most: int) -> Acceptance | None:
    """Acceptance from a running server's counters; None where they did not move."""
    counters = server.speculation
    drafts = (counters.drafts or 0.0) if counters is not None and counters.enabled else 0.0
    if counters is None or drafts < 1 or not counters.per_position:
        return None
    # Counters skip steps without a draft. Tokens per step, which counts them, gives the share of steps that had one.
    matched = 1.0
    accepted_per_draft = sum(counters.per_position)
    if not described.always_drafts and counters.tokens_per_step is not None and accepted_per_draft > 0:
        matched = min(1.0, max(0.0, (counters.tokens_per_step - 1.0) / accepted_per_draft))
    # Steps of one request resemble each other: ten of them weigh as one independent observation.
    effective = max(2.0, drafts / 10.0)
    per_position: list[Quantity] = []
    by_k: list[Quantity] = []
    total, variance = 1.0, 0.0
    for rate in counters.per_position:
        share = min(1.0, max(0.0, rate)) * matched
        error = math.sqrt(share * (1.0 - share) / effective)
        per_position.append(
            Quantity(
                value=share,
                low=max(0.0, share - Z80 * error),
                high=min(1.0, share + Z80 * error),
                n=int(drafts),
                source=Source.RECORDED,
                note="server counters",
            )
        )
        total += share
        variance += error
        spread = math.hypot(variance / total, _FLOOR_LOG_SD)
        by_k.append(
            Quantity(
                value=total,
                low=max(1.0, total * math.exp(-Z80 * spread)),
                high=total * math.exp(Z80 * spread),
                n=int(drafts),
                source=Source.RECORDED,
                note="server counters",
            )
        )
    drafted = [matched * (i + 1) for i in range(len(by_k))]
    note = "from the running server's counters"
    return _extended(per_position, by_k, drafted, most, matched, Source.RECORDED, note, "server")


# --- assumed ------------------------------------------------------------------------------------------------------
def _assumed(situation: Situation, candidate: Candidate, most: int, prompt_tokens: float) -> Acceptance:
    curve = prior_curve(situation, candidate, most, prompt_tokens)
    return Acceptance(tuple(curve.positions), tuple(curve.lengths), tuple(curve.drafted), curve.matched, Source.ASSUMED,
                      curve.note)
