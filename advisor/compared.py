"""What a trial's paired comparison says of a cell, and of the other cells of the same candidate.

Pairs time whole requests, steps timed one by one and the acceptance of other prompts only parts of them. Where both are
known the pairs decide, and every figure of the candidate follows them: a step is as long as the pairs show.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from advisor.cost.measured import MeasuredCost
from advisor.intervals import paired_ratio, quantity
from advisor.record import PAIRED
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.schema import Quantity, Source

if TYPE_CHECKING:
    from advisor.prediction import Pricing

ALIKE = 0.02
"""Smaller differences of two logarithms need no word."""


def paired(pricing: Pricing, candidate: Candidate, k: int, running: int) -> tuple[Quantity, float, str] | None:
    """The trial's own comparison of this cell, carried over to the workload's lengths where those differ: speed-up, its
    log standard deviation, and how it came about. None where the trial did not compare this cell."""
    trial = pricing.situation.trial
    comparison = trial.comparison if trial is not None else None
    if trial is None or comparison is None or not comparison.pairs or not isinstance(pricing.cost, MeasuredCost):
        return None
    if (comparison.candidate.label, comparison.k, comparison.running) != (candidate.label, k, running):
        return None
    ratio, log_sd = paired_ratio(comparison)
    note = f"{PAIRED} {len(comparison.pairs)} paired blocks"
    traffic = pricing.traffic
    prompt, output = trial.prompts.mean_prompt_tokens or traffic.prompt_tokens, float(trial.max_tokens)
    plain, own = pricing.request(NO_SPECULATION, 0, running), pricing.request(candidate, k, running)
    there = (pricing.request(NO_SPECULATION, 0, running, prompt, output),
             pricing.request(candidate, k, running, prompt, output))
    carried = math.log(plain.total_ms / own.total_ms * there[1].total_ms / there[0].total_ms)
    if abs(carried) > ALIKE:
        log_sd = math.hypot(log_sd, 0.3 * carried)
        note += (
            f" at {prompt:.0f} prompt and {output:.0f} output tokens ({ratio:.2f} times there), carried over to "
            f"{traffic.prompt_tokens:.0f} and {traffic.output_tokens:.0f} ({ratio * math.exp(carried):.2f} times), "
            f"where {'more' if plain.decode_share > there[0].decode_share else 'less'} of a request is decode"
        )
        ratio *= math.exp(carried)
    same = pricing.cost.same_step(running, running * (k + 1.0), traffic.context_tokens, prompt + 0.5 * output)
    source = Source.MEASURED if same else Source.MODELLED
    return quantity(ratio, log_sd, source, n=len(comparison.pairs)), log_sd, note


def carried_over(pricing: Pricing, candidate: Candidate) -> tuple[float, float] | None:
    """What the trial's comparison of one cell says of the candidate's other cells: the log of measured over modelled
    speed-up there, and its standard deviation.

    Without it, a k beside the compared one would keep the very optimism that the comparison refuted, and win.
    """
    trial = pricing.situation.trial
    comparison = trial.comparison if trial is not None else None
    if comparison is None or comparison.candidate.label != candidate.label:
        return None
    measured = paired(pricing, candidate, comparison.k, comparison.running)
    if measured is None:
        return None
    plain = pricing.request(NO_SPECULATION, 0, comparison.running)
    own = pricing.request(candidate, comparison.k, comparison.running)
    return math.log(measured[0].value * own.total_ms / plain.total_ms), measured[1]


def apart(alone: Quantity, decided: Quantity) -> bool:
    """Whether two intervals do not even touch; False where one has none."""
    if alone.low is None or alone.high is None or decided.low is None or decided.high is None:
        return False
    return alone.high < decided.low or alone.low > decided.high
