"""Did what a record promised hold on the running server, and what is there to do? Judged from the record and one
server's evidence alone.

A promise is broken where the whole 80 % interval of what was found lies on the wrong side of the promise's own
interval, held where it lies on the right side, and undecided in between: then longer watching tells. A shortfall
smaller than the gain that the user called worthwhile breaks nothing, and at a load that the record does not speak of
nothing is held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.identity import identity
from advisor.load_promise import load_promise, shown, shown_range
from advisor.observed import Observed, gauge_load, observed_acceptance, observed_load
from advisor.promise import (
    Promised,
    break_even_at,
    decided_candidate,
    k_asked,
    k_loaded,
    ks_priced,
    last_priced,
    promised_at,
)
from advisor.record import Record
from advisor.verdict import (
    Action,
    Judged,
    Promise,
    Verdict,
    Verification,
    YieldOfK,
    against,
    at_least,
    at_most,
    ceiling_of,
    ends,
    floor_of,
    watch_needed,
)
from profiles.evidence import ServerEvidence
from profiles.methods import method
from profiles.schema import Quantity

IDLE = 0.5
"""Load below which a server is taken to have been idle: most steps or scrapes found nothing."""
OTHER_LENGTHS = 1.5
"""Factor between lengths decided for and lengths seen from which it is worth a sentence."""


def verify(record: Record, server: ServerEvidence, named: str | None = None) -> Verification:
    """Judge every promise of the record against the server.

    named: the served model that the user pointed to as the recorded one, where the server calls it otherwise.
    """
    found = identity(record, server, named)
    same = not any(one.verdict == "broken" and one.code in ("engine", "model") for one in found)
    speculates = server.speculation is not None and server.speculation.enabled
    as_asked = speculates == (record.decision.enable is True)
    seen = _Seen(record, server)
    gain = _gain(seen) if same and as_asked and speculates else None
    found.append(load_promise(record, seen.load, seen.idle, gain))
    found += _lengths(seen)
    if same and as_asked:
        found += [_acceptance(seen), gain] if gain is not None else []
        found += _speed(seen)
    else:
        found.append(Promise(code="speed", verdict="noted",
                             sentence="Acceptance and speed are not held against the record: it is of another "
                                      "configuration than the one that runs."))
    verdict: Judged = ("broken" if any(one.verdict == "broken" for one in found)
                       else "undecided" if any(one.verdict == "undecided" for one in found) else "held")
    yields = _yields(seen) if same and as_asked and speculates else ()
    watch_s = _watch_s(found, server)
    action, k, advice = _advice(seen, found, verdict, yields, watch_s)
    return Verification(verdict=verdict, action=action, k=k, advice=advice, promises=tuple(found), running=seen.load,
                        window_s=server.window_s, watch_s=watch_s if verdict == "undecided" else None, yields=yields)


@dataclass(frozen=True)
class _Seen:
    """A record, the server, and what follows from both at once."""

    record: Record
    server: ServerEvidence

    @property
    def engines(self) -> int:
        return max(1, self.server.engines)

    @property
    def load(self) -> Quantity | None:
        """Running requests of one engine: what a record is decided for."""
        return observed_load(self.server)

    @property
    def idle(self) -> bool:
        return self.load is None or self.load.value < IDLE

    @property
    def at(self) -> float:
        """The load that promises are read at: the one seen, the one decided for where none was seen."""
        return float(self.record.decision.running) if self.load is None or self.idle else max(1.0, self.load.value)

    @property
    def busiest(self) -> float:
        """The largest load of any scrape, per engine: speed is not called broken for what that load explains."""
        high = self.server.running.high if self.server.running is not None else None
        return max(self.at, (high or 0.0) / self.engines)

    @property
    def promised_busiest(self) -> Promised | None:
        """What was promised at the busiest moment, or at the largest load priced where that is less."""
        top = last_priced(self.record, self.k)
        return None if top is None else promised_at(self.record, self.k, min(self.busiest, float(top)))

    @property
    def observed(self) -> Observed | None:
        name = self.record.decision.method or "none"
        return observed_acceptance(self.server, method(name).always_drafts)

    @property
    def k(self) -> int:
        """The k that runs, as far as the counters tell; else the one asked for at this load."""
        asked = k_asked(self.record, self.at)
        counted = len(self.server.speculation.per_position) if self.server.speculation is not None else 0
        return counted if counted and counted != k_loaded(self.record) else asked

    def beyond(self, running: float) -> float:
        """How many times the largest load priced for this k a load is; 1 where it is within. A step takes at most so
        many times as long."""
        return max(1.0, running / (last_priced(self.record, self.k) or running))

    @property
    def read(self) -> str:
        """The load that promises are read at, as a sentence has it."""
        if self.beyond(self.at) == 1.0:
            return f"{shown(self.at)} running"
        return f"{last_priced(self.record, self.k)} running, the largest load priced"

    @property
    def past(self) -> str:
        """The same behind a promise, where it is of another load than the one seen."""
        return f" (of {self.read})" if self.beyond(self.at) > 1.0 else ""

    @property
    def slack(self) -> float:
        return self.record.deployment.objective.worthwhile_gain


# --- lengths ---------------------------------------------------------------------------------------------------------
def _lengths(seen: _Seen) -> list[Promise]:
    workload = seen.record.deployment.workload
    found: list[Promise] = []
    for what, stated, now in (("Prompts", workload.prompt_tokens, seen.server.prompt_tokens),
                              ("Outputs", workload.output_tokens, seen.server.output_tokens)):
        if stated is not None and now is not None and not 1 / OTHER_LENGTHS < now.mean / stated.mean < OTHER_LENGTHS:
            found.append(Promise(code="lengths", verdict="noted", unit="tokens",
                                 sentence=f"{what} have {shown(now.mean)} tokens on average, decided for "
                                          f"{shown(stated.mean)}: times are those of other requests."))
    return found


# --- acceptance ----------------------------------------------------------------------------------------------------
def _acceptance(seen: _Seen) -> Promise:
    observed, k = seen.observed, seen.k
    promised = promised_at(seen.record, k, seen.at)
    wanted = promised.acceptance_length if promised is not None else None
    unit = "tokens per step"
    if observed is None:
        return Promise(code="acceptance", verdict="undecided", promised=wanted, unit=unit, sentence=_no_draft(seen))
    length = observed.length
    if wanted is None:
        return Promise(code="acceptance", verdict="noted", found=length, unit=unit,
                       sentence=f"{_pm(length)} tokens per step; the record priced no k = {k} at this load.")
    edge = floor_of(wanted, seen.slack)
    return Promise(code="acceptance", verdict=at_least(length, edge), promised=wanted, found=length, edge=edge,
                   unit=unit,
                   sentence=f"{_pm(length)} tokens per step with k = {k} over {length.n:,} steps, promised "
                            f"{_pm(wanted)}{seen.past}.")


def _no_draft(seen: _Seen) -> str:
    if seen.server.implausible:
        return f"The server's counters cannot be right: {seen.server.implausible[0].message}."
    counters = seen.server.speculation
    if counters is not None and counters.acceptance_length is not None and counters.drafts == 0:
        return "The engine exports no draft counters, only its own recent mean: nothing to take an interval from."
    if seen.idle:
        return "Nothing was drafted in the window: send traffic, or watch while there is some."
    if k_asked(seen.record, seen.at) == 0:
        return "Nothing was drafted in the window: the schedule asks for no draft at this load."
    return "Nothing was drafted in the window, although requests ran."


def _gain(seen: _Seen) -> Promise:
    """Whether speculation still pays: acceptance against what it must be at this load."""
    observed, k = seen.observed, seen.k
    needed = break_even_at(seen.record, k, seen.at)
    if observed is None or needed is None:
        return Promise(code="gain", verdict="noted", promised=needed, unit="tokens per step",
                       sentence="Break-even cannot be told at this load." if needed is None else
                       f"Break-even is {needed.value:.2f} tokens per step at {seen.read}.")
    length = observed.length
    place = against(length, needed)
    verdict: Verdict = "held" if place == "above" else "broken" if place == "below" else "undecided"
    words = f"{_pm(length)} tokens per step are {place} break-even, {_pm(needed)} at {seen.read} with k = {k}"
    if verdict == "held" and seen.beyond(seen.at) > 1.0:
        # More requests make verifying dearer: break-even there is known to be no smaller, not how large.
        verdict = "noted"
    if verdict == "undecided" and _width(needed) > _width(length):
        # Longer watching narrows the acceptance, not what the record knows of step times.
        verdict, words = "noted", f"{words}: step times as the record knows them leave it open, a trial would tell"
    return Promise(code="gain", verdict=verdict, promised=needed, found=length, edge=needed.value,
                   unit="tokens per step", sentence=f"{words}.")


def _yields(seen: _Seen) -> tuple[YieldOfK, ...]:
    """What each k would give at this load with the acceptance seen; empty without counts by position."""
    observed = seen.observed
    if observed is None or not observed.positions or seen.record.decision.schedule or seen.past:
        # Under a schedule k varies from step to step, so that later positions count fewer drafts than all; and past the
        # loads that were priced nobody knows what a k would give.
        return ()
    found: list[YieldOfK] = []
    for k in sorted({*ks_priced(seen.record), seen.k}):
        needed = break_even_at(seen.record, k, seen.at)
        if needed is not None and k > 0 and needed.value > 0:
            length = length_at(observed.positions, k)
            found.append(YieldOfK(k=k, acceptance_length=length, break_even=needed.value, gain=length / needed.value))
    return tuple(found)


def length_at(positions: Sequence[float], k: int) -> float:
    """Acceptance length of another k: shorter ones are known, longer ones go on with the last conditional rate."""
    rates = list(positions[:k])
    if 0 < len(rates) < k:
        last, before = rates[-1], rates[-2] if len(rates) > 1 else 1.0
        going_on = min(1.0, last / before) if before > 0 else 0.0
        rates += [last * going_on ** (i + 1) for i in range(k - len(rates))]
    return 1.0 + sum(rates)


# --- speed ---------------------------------------------------------------------------------------------------------
def _speed(seen: _Seen) -> list[Promise]:
    tpot = _tpot(seen)
    tokens = _tokens_per_request(seen)
    if tokens.verdict == "undecided" and tpot.verdict in ("held", "broken"):
        # Rates are over gauges that were looked at a few times; where the times themselves decide, they need not.
        tokens = tokens.model_copy(update={"verdict": "noted"})
    return [tpot, tokens]


def _tpot(seen: _Seen) -> Promise:
    now, k, unit = seen.server.tpot_ms, seen.k, "ms per token"
    promised, busiest = promised_at(seen.record, k, seen.at), seen.promised_busiest
    wanted = promised.tpot_ms if promised is not None else None
    if seen.server.requests_in_window == 0 or (now is None and not seen.server.requests_total):
        return Promise(code="tpot", verdict="undecided", promised=wanted, unit=unit,
                       sentence="No request finished in the window: there is no time per output token to judge.")
    if now is None:
        return Promise(code="tpot", verdict="noted", promised=wanted, unit=unit,
                       sentence="The server exports no time per output token.")
    if wanted is None:
        return Promise(code="tpot", verdict="noted", found=now, unit=unit,
                       sentence=f"{_pm(now)} ms per output token; the record priced no such load.")
    if now.low is None or now.high is None:
        return Promise(code="tpot", verdict="undecided", promised=wanted, found=now, unit=unit,
                       sentence=f"{shown(now.value)} ms per output token of {now.n or 0} requests: too few for an "
                                f"interval; promised {_pm(wanted)} ms.")
    edge = ceiling_of(wanted, seen.slack)
    verdict = at_most(now, edge)
    if verdict == "broken" and busiest is not None:
        edge = ceiling_of(busiest.tpot_ms, seen.slack) * seen.beyond(seen.busiest)
        verdict = "broken" if at_most(now, edge) == "broken" else "undecided"
    return Promise(code="tpot", verdict=verdict, promised=wanted, found=now, edge=edge, unit=unit,
                   sentence=f"{_pm(now)} ms per output token ({now.n:,} seen), promised {_pm(wanted)} at "
                            f"{seen.read}.")


def _tokens_per_request(seen: _Seen) -> Promise:
    rate, load, unit = seen.server.generation_tokens_per_s, gauge_load(seen.server), "tokens/s per request"
    promised, busiest = promised_at(seen.record, seen.k, seen.at), seen.promised_busiest
    if rate is None or load is None or promised is None or load.value < IDLE or not load.low or load.high is None:
        return Promise(code="tokens_per_request", verdict="undecided", unit=unit,
                       sentence="Tokens per second of a request cannot be told: too little ran in the window.")
    each = rate.value / seen.engines
    now = Quantity(value=each / load.value, low=each / load.high, high=each / load.low, n=load.n, source=rate.source,
                   note="generated tokens over running requests")

    def per_request(whole: Quantity, running: float) -> Quantity:
        return whole.model_copy(update={"value": whole.value / running, "low": _over(whole.low, running),
                                        "high": _over(whole.high, running), "n": None})

    wanted = per_request(promised.tokens_per_s, promised.running)
    edge = floor_of(wanted, seen.slack)
    verdict = at_least(now, edge)
    if verdict == "broken" and busiest is not None:
        edge = floor_of(per_request(busiest.tokens_per_s, busiest.running), seen.slack) / seen.beyond(seen.busiest)
        verdict = "broken" if at_least(now, edge) == "broken" else "undecided"
    return Promise(code="tokens_per_request", verdict=verdict, promised=wanted, found=now, edge=edge, unit=unit,
                   sentence=f"{_pm(now)} tokens/s of each request, promised {_pm(wanted)}{seen.past}.")


# --- what to do ----------------------------------------------------------------------------------------------------
def _watch_s(found: Sequence[Promise], server: ServerEvidence) -> float | None:
    """Seconds of such traffic that would decide all that is undecided; None where no window tells."""
    if server.window_s <= 0:
        return None
    needed = [watch_needed(one.found, one.edge) for one in found
              if one.verdict == "undecided" and one.found is not None and one.edge is not None]
    return server.window_s * max(factor for factor in needed if factor is not None) \
        if needed and None not in needed else None


def _advice(seen: _Seen, found: Sequence[Promise], verdict: Verdict, yields: Sequence[YieldOfK],
            watch_s: float | None) -> tuple[Action, int | None, str]:
    broken = {one.code for one in found if one.verdict == "broken"}
    if broken & {"engine", "model", "speculation", "k"}:
        return "redeploy", None, ("Start the server with the config that belongs to this record, or run `specadvise "
                                  "advise` for the one that runs.")
    best = max(yields, key=lambda one: one.gain, default=None)
    now = next((one for one in yields if one.k == seen.k), None)
    if broken & {"gain", "load"}:
        if best is not None and best.gain > 1.0 + seen.slack and "load" not in broken and best.k != seen.k:
            return "change_k", best.k, (f"Set num_speculative_tokens to {best.k}: with the acceptance seen it is worth "
                                        f"{best.gain:.2f} times no speculation at this load.")
        return "roll_back", 0, ("Roll back: take speculative-config out and restart, or, if this load will pass, wait; "
                                "with this acceptance and load no k pays.")
    if best is not None and now is not None and best.k != now.k and best.gain > max(1.0, now.gain) * (1.0 + seen.slack):
        return "change_k", best.k, (f"k = {best.k} would do better than {now.k} at this load ({best.gain:.2f} against "
                                    f"{now.gain:.2f} times no speculation): set it at the next restart.")
    if broken and best is not None and best.gain <= 1.0:
        return "roll_back", 0, ("Roll back until `specadvise advise` with this evidence says otherwise: by the "
                                "record's step times no k pays with the acceptance seen.")
    if broken:
        return "advise_again", None, ("Run `specadvise advise` again with this evidence (`specadvise probe server URL "
                                      "--save evidence.json`): the record no longer describes this server.")
    if verdict == "undecided" and seen.load is not None and not seen.idle and any(
            one.code == "load" and one.verdict == "undecided" for one in found):
        return "advise_again", None, (
            f"Run `specadvise advise` again for {shown(seen.at)} running request{'s' * (seen.at != 1)}, with this "
            "evidence (`specadvise probe server URL --save evidence.json`): the record was decided for another load, "
            "and what it promises does not reach this one.")
    if verdict == "undecided":
        if watch_s:
            return "watch_longer", None, (f"Watch for about {_time(watch_s)} of such traffic: `--window "
                                          f"{math.ceil(watch_s)}s`.")
        near = seen.server.window_s > 0 and any(one.edge is not None for one in found if one.verdict == "undecided")
        return "watch_longer", None, (
            "What was found lies so near its bound that no sensible window would tell it apart." if near else
            "The window cannot tell: verify again while requests run and finish.")
    return "keep", None, ("Keep it as it is." if decided_candidate(seen.record).method != "none" else
                          "Keep it as it is: without speculation, as recorded.")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "a while"
    if seconds < 120:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


def _width(found: Quantity) -> float:
    low, high = ends(found)
    return high - low


def _over(value: float | None, running: float) -> float | None:
    return None if value is None else value / running


def _pm(found: Quantity) -> str:
    return f"{found.value:.2f}{_fixed(found)}" if found.value < 100 else f"{shown(found.value)}{shown_range(found)}"


def _fixed(found: Quantity) -> str:
    low, high = ends(found)
    return f" ({low:.2f} to {high:.2f})" if low < high else ""
