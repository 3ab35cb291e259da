"""What a running server's counters say, with intervals: its acceptance length and its load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from advisor.intervals import Z80
from profiles.evidence import Evidence, ServerEvidence
from profiles.schema import Quantity, Source

ALIKE_DRAFTS = 10.0
"""Drafts that weigh as one independent observation where the window does not show it: drafts of one request resemble
each other."""


@dataclass(frozen=True)
class Observed:
    """Acceptance as a server counted it, per step like everything a record holds."""

    length: Quantity
    """Mean tokens per step, bonus included; n is the steps behind it."""
    positions: tuple[float, ...]
    """Unconditional, per step; empty where the engine does not count by position."""
    k: float
    """Mean tokens of a draft."""


def observed_acceptance(server: ServerEvidence, always_drafts: bool) -> Observed | None:
    """Acceptance over the window; None where nothing was drafted in it, the engine does not count its drafts, or its
    counts cannot be.

    always_drafts: False for methods whose steps may have no draft. Those steps count as one token each, as far as the
    server's generated tokens tell of them.
    """
    counters = server.speculation
    if counters is None or not counters.in_window or counters.drafts <= 0 or counters.draft_tokens <= 0:
        return None
    if server.implausible:
        return None
    variance = counters.accepted_variance
    if variance is None:
        return None
    steps = counters.drafts if always_drafts else max(counters.drafts, _decode_steps(server) or counters.drafts)
    share = counters.drafts / steps
    per_draft = counters.accepted_tokens / counters.drafts
    mean = share * per_draft
    # A step without a draft accepts nothing: the second moment is that of the drafts, shared out over all steps.
    spread = max(0.0, share * (variance + per_draft**2) - mean**2)
    alike = max(1.0, counters.dispersion if counters.dispersion is not None else ALIKE_DRAFTS)
    # One draft more, accepted half: counts of a handful that all agree are no certainty.
    k = counters.draft_tokens / counters.drafts
    unseen = (k / 2) ** 2 / max(1.0, steps)
    half = Z80 * math.sqrt((spread + unseen) * alike / steps)
    length = Quantity(
        value=1.0 + mean, low=max(1.0, 1.0 + mean - half), high=max(1.0 + mean, min(1.0 + k, 1.0 + mean + half)),
        n=round(steps), source=Source.RECORDED,
        note="steps" if counters.dispersion is not None else f"steps, {ALIKE_DRAFTS:g} counted as one observation",
    )
    return Observed(length, tuple(share * rate for rate in counters.per_position), k)


def _decode_steps(server: ServerEvidence) -> float | None:
    """Steps of all requests, those without a draft among them: every step gives its accepted tokens and one more, and
    the first token of a request comes from its prefill."""
    counters, generated = server.speculation, server.output_tokens_total
    if counters is None or generated is None:
        return None
    return generated - (server.requests_total or 0.0) - counters.accepted_tokens


def unused_evidence(evidence: Sequence[Evidence]) -> list[str]:
    """What the evidence holds and no decision rests on, said: a sentence each."""
    recorded = [one.requests for one in evidence if one.requests is not None]
    said = []
    if len(recorded) > 1:
        said.append(
            f"{len(recorded)} evidence files hold recorded requests and the last one given decides: to count them "
            "together, give their logs to one `probe requests`"
        )
    seen = (recorded[-1].engine or {}).get("speculation") if recorded else None
    length = seen.get("acceptance_length") if isinstance(seen, dict) else None
    if isinstance(length, (int, float)) and not any(one.server and one.server.speculation for one in evidence):
        said.append(
            f"the log's own speculation ({length:.2f} tokens per step) is reported and decides nothing, as a log does "
            "not say of which k and draft every step was: save `probe server` of that server"
        )
    return said


def observed_load(server: ServerEvidence) -> Quantity | None:
    """Requests running on one engine while it works; None where the engine does not say.

    Where steps are counted, the requests of a mean step: every step gives each of its requests one token and what was
    accepted. That is the load that a step's time depends on, and idle time does not thin it. Else the gauge.
    """
    generated, steps = server.output_tokens_total, server.engine_steps
    if generated is not None and steps is not None and steps >= 1 and not server.implausible:
        accepted = 0.0
        if server.speculation is not None and server.speculation.in_window:
            accepted = server.speculation.accepted_tokens
        return Quantity(value=max(0.0, generated - accepted) / steps, n=round(steps), source=Source.RECORDED,
                        note="requests of a mean step")
    return gauge_load(server)


def gauge_load(server: ServerEvidence) -> Quantity | None:
    """Mean running requests of one engine over the scrapes, idle time included, with the interval of that mean.

    One scrape gives no interval. The evidence holds the range seen: a normal sample's range tells its spread.
    """
    seen, engines = server.running, max(1, server.engines)
    if seen is None:
        return None
    value = seen.value / engines
    if seen.n is None or seen.n < 2 or seen.low is None or seen.high is None:
        return seen.model_copy(update={"value": value, "low": None, "high": None})
    half = Z80 * (seen.high - seen.low) / engines / expected_range(seen.n) / math.sqrt(seen.n)
    return seen.model_copy(update={"value": value, "low": max(0.0, value - half), "high": value + half,
                                   "note": f"requests; mean of {seen.n} scrapes"})


def expected_range(n: int) -> float:
    """Range that n >= 2 draws of a normal distribution are expected to show, in standard deviations (Blom's formula
    for the largest of n)."""
    return 2.0 * NormalDist().inv_cdf((n - 0.375) / (n + 0.25))
