"""Which measurement would settle it next, and when to stop measuring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.intervals import mean_and_error, student_quantile
from advisor.prediction import Pricing, price
from advisor.record import Priced
from advisor.situation import Situation
from profiles.deployment import Candidate
from profiles.evidence import Evidence, PairedBlock, TrialEvidence
from profiles.schema import SCHEMA_VERSION, Source, counted
from profiles.version import __version__

_NOISE_FLOOR = 0.004
"""Log standard deviation of a pair that no machine undercuts: three equal pairs are luck, not certainty."""


@dataclass(frozen=True)
class PairedStop:
    """Sequential stopping rule of the paired comparison.

    After every pair from the third on, the mean log speed-up's Student interval is compared with 1 + worthwhile_gain.
    Looking again and again would find a difference in noise sooner or later, so look number m spends
    `error / (m (m + 1))` of the allowed error: together never more than `error`, however long it runs.
    """

    worthwhile_gain: float
    error: float = 0.2
    """Chance of stopping on the wrong side, both sides together: 0.2 goes with 80 % intervals."""
    minimum_pairs: int = 3

    def interval(self, pairs: Sequence[PairedBlock]) -> tuple[float, float]:
        """Speed-up interval at this look, repeated looks allowed for. Needs `minimum_pairs` pairs."""
        logs = [math.log(pair.speedup) for pair in pairs]
        n = len(logs)
        mean, error = mean_and_error(logs)
        error = max(error, _NOISE_FLOOR / math.sqrt(n), self._between_starts(pairs))
        look = n - self.minimum_pairs + 1
        spent = self.error / (look * (look + 1))
        reach = student_quantile(1.0 - spent / 2.0, n - 1) * error
        return math.exp(mean - reach), math.exp(mean + reach)

    @staticmethod
    def _between_starts(pairs: Sequence[PairedBlock]) -> float:
        """Standard error from engine starts, where there were several: pairs of one start share its luck."""
        starts: dict[tuple[int, int], list[float]] = {}
        for pair in pairs:
            starts.setdefault((pair.baseline_start, pair.speculative_start), []).append(math.log(pair.speedup))
        if len(starts) < 2:
            return 0.0
        return mean_and_error([sum(v) / len(v) for v in starts.values()])[1]

    def __call__(self, pairs: Sequence[PairedBlock]) -> str | None:
        """Why to stop now, or None to go on."""
        usable = [
            pair
            for pair in pairs
            if min(pair.baseline_s, pair.speculative_s) > 0 and min(pair.baseline_tokens, pair.speculative_tokens) > 0
        ]
        if len(usable) < self.minimum_pairs:
            return None
        low, high = self.interval(usable)
        threshold = 1.0 + self.worthwhile_gain
        if low > threshold:
            return f"interval clear of the worthwhile gain: {low:.2f} to {high:.2f} times after {len(usable)} pairs"
        if high < threshold:
            return f"below the worthwhile gain: {low:.2f} to {high:.2f} times after {len(usable)} pairs"
        return None


def with_trial(situation: Situation, trial: TrialEvidence) -> Situation:
    """The situation with a trial's findings added (in memory: nothing is stamped or saved)."""
    evidence = Evidence(
        schema_version=SCHEMA_VERSION,
        kind="trial",
        collected_at="",
        tool_version=__version__,
        command="trial",
        trial=trial,
    )
    return replace(situation, evidence=(*situation.evidence, evidence))


def finalist(situation_without_trial: Situation, trial: TrialEvidence) -> tuple[Candidate, int] | None:
    """The (candidate, k) worth a paired comparison at the usual load; None where none can reach the worthwhile gain.

    Only candidates that the trial timed compete: the others would be compared on assumptions.
    """
    timed = {arm.candidate.label for arm in trial.arms if arm.steps and arm.requests}
    candidates = tuple(c for c in situation_without_trial.candidates if c.label in timed)
    if not candidates:
        return None
    pricing = price(with_trial(replace(situation_without_trial, candidates=candidates), trial))
    cells = [pricing.at(c, k, pricing.running) for c in candidates for k in c.k]
    fitting = [cell for cell in cells if cell.fits]
    if not fitting:
        return None
    best = max(fitting, key=lambda cell: cell.speedup.value)
    threshold = 1.0 + situation_without_trial.deployment.objective.worthwhile_gain
    if best.speedup.high is not None and best.speedup.high < threshold:
        return None
    return best.candidate, best.k


def would_settle(pricing: Pricing, best: Priced) -> str:
    """The measurement that would decide an abstention, in one sentence: that of the widest part of the interval."""
    acceptance_sd = pricing.acceptance[best.label].log_sd(best.k)
    step = pricing.cost.step(
        best.candidate,
        best.running,
        best.k,
        pricing.acceptance[best.label].drafted_tokens(best.k),
        pricing.traffic.context_tokens,
    )
    cell = f"{best.label} at k={best.k}"
    running = counted(best.running, "running request")
    if pricing.disturbed(best.candidate):
        return (
            f"the trial again on a quiet machine, with a `--budget` that reaches the paired comparison of {cell}: "
            "other work stretched this one's steps, so its timings decide nothing"
        )
    if pricing.paired(best.candidate, best.k, best.running) is not None:
        quiet = ", on a machine that does nothing else: other work stretched this one's steps, and"
        return (
            f"more paired blocks of {cell} and {running} (`specadvise trial` with a larger "
            f"`--budget`){quiet if pricing.stretched else ':'} the measured interval still holds the worthwhile gain"
        )
    guessed = (Source.ASSUMED, Source.MODELLED)
    if pricing.acceptance[best.label].source in guessed and acceptance_sd >= 0.5 * step.ratio_log_sd:
        return (
            f"a trial (`specadvise advise --trial`, or `specadvise trial`) of {cell} on your own prompts: how far "
            f"drafts are accepted is only assumed, and that alone moves the speed-up by {100 * acceptance_sd:.0f} %"
        )
    if step.source in guessed and not best.from_trial:
        return (
            f"a trial on this hardware at {running}: the step time of {best.label} is modelled, "
            f"good to {100 * step.ratio_log_sd:.0f} % only"
        )
    if acceptance_sd >= step.ratio_log_sd:
        return f"a trial of {cell} with more prompts: acceptance is known to {100 * acceptance_sd:.0f} % only"
    if pricing.stretched:
        return (
            f"a paired comparison of {cell} at {running}, on a quiet machine (`specadvise trial` anew; a larger "
            "`--budget` where it is never quiet): other work stretched this one's steps"
        )
    return (
        f"a paired comparison of {cell} at {running} (`specadvise trial` with a larger "
        "`--budget`): the step times alone leave the worthwhile gain inside the interval"
    )
