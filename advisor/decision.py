"""The decision: on, off, or not decidable yet; which candidate and k; where it stops paying."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.compatibility import unconfirmed
from advisor.inquiry import would_settle
from advisor.intervals import Z80, log_sd_of
from advisor.prediction import Pricing
from advisor.record import Decision, Priced
from advisor.schedule import NOISE, Band, build_schedule, crossover, schedule_honoured, warned_of
from advisor.startable import deployment_errors
from profiles.deployment import NO_SPECULATION, Candidate, Goal
from profiles.schema import Quantity


@dataclass(frozen=True)
class Choice:
    """The decision with what the reasons are written from."""

    decision: Decision
    best: Priced | None
    """The best cell at the load decided for, whether or not it is worth turning on; None without candidates, and
    where the target alone does not fit."""
    schedule_note: str = ""
    busy: Priced | None = None
    """The chosen cell at the busy hour's load, where one is stated."""
    blocked: Literal["", "target", "config", "unusable", "memory", "slo"] = ""
    """What rules the best cell out whatever its speed; empty where it is judged by its speed. `target` and `config`
    rule the deployment itself out, with or without speculation."""
    passed_over: Priced | None = None
    """Another k of the same candidate with a larger speed-up that was not taken."""

    @property
    def k_loaded(self) -> int:
        """The k the engine is started with: the largest of a schedule."""
        ks = [k for _, _, k in self.decision.schedule or ()]
        return max([self.decision.k or (self.best.k if self.best is not None else 0), *ks])


def _cautious(quantity: Quantity) -> float:
    """Half-way, in logarithms, between a value and the low end of its interval: a wide guess must not beat a narrow
    measurement by luck."""
    low = quantity.low if quantity.low is not None else quantity.value
    return math.sqrt(max(0.0, quantity.value * low))


def rank_key(goal: Goal, cell: Priced, worthwhile: bool | None) -> tuple[float, ...]:
    """What better means: larger is better. Cells that fit come first, then those that keep the SLOs, then those whose
    verdict (`worthwhile`: surely, perhaps, surely not) is better. Where it is perhaps, one that was measured here comes
    before one that was only assumed or modelled: it is nearer to an answer."""
    allowed = (1.0 if cell.fits else 0.0, 1.0 if cell.meets_slo is not False else 0.0)
    verdict = {True: 2.0, None: 1.0, False: 0.0}[worthwhile]
    if worthwhile is None and cell.rests_on_trial:
        verdict = 1.5
    if goal is Goal.LATENCY:
        ttft = cell.ttft_ms.value if cell.ttft_ms is not None else 0.0
        return (*allowed, verdict, round(_cautious(cell.speedup), 4), -ttft)
    return (*allowed, verdict, round(_cautious(cell.tokens_per_s), 4), -float(cell.k))


_ALIKE = 0.05
"""Up to this difference a head whose match to the target is confirmed comes before one where it is not."""


def _worth(goal: Goal, cell: Priced) -> float:
    return _cautious(cell.speedup if goal is Goal.LATENCY else cell.tokens_per_s)


def _standing(pricing: Pricing, cell: Priced) -> tuple[float, ...]:
    """What comes before speed: whether it fits, keeps the SLOs, and how sure its gain is."""
    return rank_key(pricing.situation.deployment.objective.goal, cell, _verdict(pricing, cell))[:3]


def _plainly(goal: Goal, cell: Priced) -> float:
    return (cell.speedup if goal is Goal.LATENCY else cell.tokens_per_s).value


def _alike(pricing: Pricing, best: Priced, others: Iterable[Priced], within: float) -> list[Priced]:
    """Those of the same standing as the best one and, within a share, as good."""
    goal, standing = pricing.situation.deployment.objective.goal, _standing(pricing, best)

    def near(cell: Priced) -> bool:
        return all(of(goal, cell) >= of(goal, best) * (1.0 - within) for of in (_worth, _plainly))

    return [c for c in others if near(c) and _standing(pricing, c) == standing]


def best_cell(pricing: Pricing, running: int, among: Sequence[Candidate] | None = None) -> Priced | None:
    """The best (candidate, k) at a load, the null candidate apart; None where there is no candidate.

    Of about equal ones, a confirmed head comes before an unconfirmed one, and the smaller k before the larger: it
    verifies less in vain, and loses less when the text or the load turns out otherwise. A k that the checklist warns of
    (`Pricing.avoided`) is taken where no other stands as well.
    """
    key = (running, None if among is None else tuple(candidate.label for candidate in among))
    if key not in pricing.decided:
        pricing.decided[key] = _best_cell(pricing, running, among)
    return pricing.decided[key]


def _best_cell(pricing: Pricing, running: int, among: Sequence[Candidate] | None) -> Priced | None:
    goal = pricing.situation.deployment.objective.goal
    cells = [pricing.at(c, k, running) for c in (pricing.candidates if among is None else among) for k in c.k]

    def key(cell: Priced) -> tuple[float, ...]:
        return rank_key(goal, cell, _verdict(pricing, cell))

    best = max(cells, key=key, default=None)
    if best is None:
        return None
    calm = [c for c in cells if not warned_of(pricing, c.label, c.k, running)]
    top = max(calm, key=key, default=None)
    if top is not None and _standing(pricing, top) == _standing(pricing, best):
        best, cells = top, calm
    best = max(_compared(pricing, best, cells), key=key, default=best)
    if unconfirmed(pricing.situation, best.candidate) is not None:
        sure = [c for c in cells if unconfirmed(pricing.situation, c.candidate) is None]
        best = max(_alike(pricing, best, sure, _ALIKE), key=key, default=best)
    return _smallest_k(pricing, best, [c for c in cells if c.label == best.label])


def _compared(pricing: Pricing, best: Priced, cells: Sequence[Priced]) -> list[Priced]:
    """The cell that was compared pair by pair at this load, and those of its candidate that are better beyond doubt,
    where it stands as well as the best one and the best one is not better beyond doubt: what was compared is known, and
    the best of several estimates is the one that most likely errs in its own favour."""
    found = next((c for c in cells if pricing.paired(c.candidate, c.k, c.running) is not None), None)
    if found is None or _standing(pricing, found) != _standing(pricing, best) or _surely_faster(best, found):
        return []
    return [c for c in cells if c is found or (c.label == found.label and _surely_faster(c, found))]


def _surely_faster(cell: Priced, compared: Priced) -> bool:
    """Whether a cell gains more than the compared one by more than it is unsure of (80 %). The comparison's own doubt
    is in all cells of its candidate alike."""
    doubt = log_sd_of(cell.speedup.low, cell.speedup.high)
    if cell.label == compared.label:
        doubt = math.sqrt(max(0.0, doubt**2 - log_sd_of(compared.speedup.low, compared.speedup.high) ** 2))
    return math.log(cell.speedup.value / compared.speedup.value) > Z80 * doubt


def _smallest_k(pricing: Pricing, best: Priced, own: Sequence[Priced]) -> Priced:
    """The smallest k that is as good as the best one of the same candidate. A k that was compared pair by pair stays:
    its neighbours are only modelled after it."""
    if pricing.paired(best.candidate, best.k, best.running) is not None:
        return best
    return min(_alike(pricing, best, (c for c in own if c.k <= best.k), NOISE), key=lambda c: c.k)


def passed_over(pricing: Pricing, chosen: Priced) -> Priced | None:
    """The k of the chosen candidate with the largest speed-up, where a reader sees that it is not the chosen one; None
    where it is. What does not fit, or misses an SLO that the chosen one keeps, is no alternative."""
    cells = [pricing.at(chosen.candidate, k, chosen.running) for k in chosen.candidate.k]
    rivals = [c for c in cells if (c.fits, c.meets_slo) == (chosen.fits, chosen.meets_slo)]
    most = max(rivals, key=lambda c: c.speedup.value)
    return most if round(most.speedup.value, 2) > round(chosen.speedup.value, 2) else None


def _verdict(pricing: Pricing, cell: Priced) -> bool | None:
    """True above the worthwhile gain with the whole interval, False below it, None across."""
    threshold = 1.0 + pricing.situation.deployment.objective.worthwhile_gain
    if not cell.fits:
        return False
    null = pricing.at(NO_SPECULATION, 0, cell.running)
    if cell.meets_slo is False and null.meets_slo is not False:
        return False
    low = cell.speedup.low if cell.speedup.low is not None else cell.speedup.value
    high = cell.speedup.high if cell.speedup.high is not None else cell.speedup.value
    if low > threshold:
        return True
    if high < threshold:
        return False
    return None


_TURNS = 40
"""Most steps toward a break-even; two or three do."""


def break_even_length(pricing: Pricing, candidate: Candidate, k: int, running: int) -> float | None:
    """Acceptance length at which this k neither gains nor loses end to end at a load, on the basis of its speed-up
    (a paired comparison included); no less than the one token that every step gives. None where no length would do
    (the baseline is faster than the prefill alone)."""
    base = pricing.request(NO_SPECULATION, 0, min(float(running), pricing.limit(NO_SPECULATION)))
    n = min(float(running), pricing.limit(candidate, k))
    own, shift = pricing.request(candidate, k, n), pricing.shift(candidate, k, running)
    even = None
    for _ in range(_TURNS):
        # total(own) = total(base) x (own running / base running), solved for the number of steps.
        gain = math.exp(own.correction + shift) * own.running / base.running
        budget = base.total_ms * gain - own.running * own.prefill_ms
        if budget <= 0:
            return None
        even = max(0.0, own.steps * own.acceptance_length) * own.step.ms / budget
        if abs(even - own.acceptance_length) < 1e-9:
            break
        # Where drafts are looked up, how many tokens a step verifies depends on how many it gives.
        own = pricing.request(candidate, k, n, length=max(1.0, even))
    return None if even is None else max(1.0, even)


def _blocked(pricing: Pricing, cell: Priced) -> Literal["", "unusable", "memory", "slo"]:
    if cell.label in pricing.unusable:
        return "unusable"
    if not cell.fits:
        return "memory"
    if cell.meets_slo is False and pricing.at(NO_SPECULATION, 0, cell.running).meets_slo is not False:
        return "slo"
    return ""


def decide(pricing: Pricing, refused: str | None = None) -> Choice:
    """The advice at the usual load. Abstains (`enable` null) where the interval straddles the worthwhile gain.

    refused: why the deployment starts no engine even without speculation, empty where it does; None asks the checklist.
    """
    running = pricing.running
    nothing = Decision.without_figures(enable=False, running=running)
    if pricing.plan(NO_SPECULATION, 0).target_fits is False:
        # Not an answer about speculation: nothing can be served here, with or without it.
        settles = "the advice again, for an engine that holds the target: the reasons say what helps"
        cannot = nothing.model_copy(update={"enable": None, "would_settle": settles})
        return Choice(cannot, None, blocked="target")
    if refused is None:
        refused = "; ".join(deployment_errors(pricing.situation))
    if refused:
        settles = "the advice again, once the deployment is mended"
        return Choice(nothing.model_copy(update={"enable": None, "would_settle": settles}), None, blocked="config")
    best = best_cell(pricing, running)
    if best is None:
        return Choice(nothing, None)
    blocked = _blocked(pricing, best)
    if blocked:
        return Choice(nothing, best, blocked=blocked)
    candidate = best.candidate
    enable = None if pricing.disturbed(candidate) else _verdict(pricing, best)
    cross = crossover(pricing, candidate)
    schedule: tuple[Band, ...] | None = None
    note = ""
    if enable:
        honoured, note = schedule_honoured(pricing, candidate)
        if honoured:
            schedule = build_schedule(pricing, candidate, best.k, cross)
    busy_load = pricing.traffic.running_p95
    busy = pricing.at(candidate, best.k, max(1, min(pricing.max_running, round(busy_load)))) if busy_load else None
    off = enable is False
    decision = Decision(
        enable=enable,
        method=None if off else candidate.method,
        draft=None if off or candidate.draft is None else candidate.draft.id,
        k=None if off else best.k,
        settings={} if off else candidate.settings,
        schedule=schedule,
        running=running,
        speedup=best.speedup.value,
        speedup_low=best.speedup.low,
        speedup_high=best.speedup.high,
        speedup_source=best.speedup.source,
        speedup_from_trial=best.from_trial,
        probability_of_gain=best.probability_of_gain,
        break_even_acceptance_length=break_even_length(pricing, candidate, best.k, running),
        crossover_load=cross,
        crossover_searched_to=pricing.max_running,
        reasons=(),
        would_settle=would_settle(pricing, best) if enable is None else None,
    )
    return Choice(decision, best, note, busy, passed_over=passed_over(pricing, best) if not off else None)
