"""An arrival rate, and what runs at it: with a candidate fewer requests where it gains; where the deployment's replicas
cannot keep up, what they hold, and how many it takes.

A rate is that of the whole deployment. A replica is one engine, the GPUs of its tensor and pipeline parallel sizes;
`data_parallel_size` says how many share the rate.
"""

from __future__ import annotations

import math

from advisor.prediction import Pricing
from advisor.record import AtRate, Priced, Saturation
from advisor.workload_load import little
from profiles.deployment import NO_SPECULATION
from profiles.schema import counted

_ALIKE = 0.05
"""Relative difference of two loads that no reader needs to be told."""


def at_rate(pricing: Pricing, best: Priced | None) -> AtRate | None:
    """What runs on a replica at the rate with and without the best cell's candidate; None where no rate is known, or
    the replicas do not hold it, and where there is nothing that could run beside it."""
    rate = pricing.traffic.arrival_rate_rps
    if rate is None or pricing.saturated or best is None or not best.fits:
        return None
    candidate, k, share = best.candidate, best.k, rate / pricing.situation.deployment.engine.data_parallel_size

    def plain_ms(running: float) -> float:
        return pricing.request(NO_SPECULATION, 0, running).total_ms

    def own_ms(running: float) -> float:
        own = pricing.request(candidate, k, running)
        return own.total_ms * math.exp(-own.correction)

    there = float(best.running)
    room = pricing.limit(candidate, k)
    if there > room:
        # Whom memory has no place for waits: no load of the engine itself.
        return None
    # What a trial's comparison says of the cell overrules the model at the neighbouring loads too.
    measured = best.speedup.value * own_ms(there) / plain_ms(there)
    without, _ = little(share, plain_ms, pricing.limit(NO_SPECULATION))
    beside, full = little(share, lambda n: own_ms(n) / measured, room)
    if full:
        return None
    return AtRate(arrival_rate_rps=rate, running_without=without, running_with=beside,
                  speedup=plain_ms(without) / own_ms(beside) * measured)


def at_rate_sentence(pricing: Pricing, best: Priced) -> str | None:
    """Why the load falls where a candidate gains, or rises where it loses, with the figures, a sentence without a full
    stop; None where that makes no difference to a reader."""
    found = at_rate(pricing, best)
    if found is None or abs(found.running_with / found.running_without - 1.0) < _ALIKE:
        return None
    how, other = ("sooner", "smaller gain") if found.running_with < found.running_without else ("later", "smaller loss")
    each = " on each replica" if pricing.situation.deployment.engine.data_parallel_size > 1 else ""
    return (f"At {counted(found.arrival_rate_rps, 'request')} per second about {found.running_without:.3g} run{each} "
            f"without speculation and {found.running_with:.3g} with it, because each leaves {how}: with each side at "
            f"its own load, as `specadvise plan` has it, a request is {found.speedup:.2f}x as fast; the speed-ups here "
            f"compare both at the same load, which shows the {other}")


def saturation_of(pricing: Pricing, best: Priced | None) -> Saturation | None:
    """What full replicas hold of the stated rate, without speculation and with the best candidate at the load decided
    for; None where they keep up, or no rate is stated."""
    rate = pricing.traffic.arrival_rate_rps
    if not pricing.saturated or rate is None:
        return None
    room = pricing.limit(NO_SPECULATION)
    full = pricing.request(NO_SPECULATION, 0, room)
    alone = 1000.0 * full.running / full.total_ms
    beside = alone * best.speedup.value if best is not None and best.fits else None
    needed = math.ceil(rate / alone)
    shared, _ = little(rate / needed, lambda n: pricing.request(NO_SPECULATION, 0, n).total_ms, room)
    return Saturation(
        arrival_rate_rps=rate,
        replicas=pricing.situation.deployment.engine.data_parallel_size,
        held_rps_without=alone,
        held_rps_with=beside,
        replicas_without=needed,
        replicas_with=None if beside is None else math.ceil(rate / beside),
        shared_running=max(1, round(shared)),
    )


def full_replica_sentence(pricing: Pricing) -> str | None:
    """What is decided for instead of such a rate, a sentence without a full stop; None where the replicas keep up."""
    found = saturation_of(pricing, None)
    return None if found is None else (
        f"{_more_than_held(found)}: whether speculation pays is decided for a full one, "
        f"{counted(pricing.running, 'running request')}")


def _more_than_held(found: Saturation) -> str:
    held = "one replica holds" if found.replicas == 1 else f"the {found.replicas} replicas stated hold"
    return f"{counted(found.arrival_rate_rps, 'request')} per second are more than {held}"


def saturation_sentence(pricing: Pricing, best: Priced | None) -> str | None:
    """The same with the figures: what a replica holds with and without the best candidate, and how many it takes."""
    found = saturation_of(pricing, best)
    if found is None:
        return None
    text = f"{_more_than_held(found)}: about {found.held_rps_without:.3g} a second each without speculation"
    if found.held_rps_with is not None and best is not None:
        text += f", {found.held_rps_with:.3g} with {best.label} at k={best.k}"
    text += f"; that takes {counted(found.replicas_without, 'replica')} without it"
    if found.replicas_with is not None:
        text += f", {found.replicas_with:,} with it"
    text += (", before any limit on latency (`specadvise plan` counts that too); decided for a full one, "
             f"{counted(pricing.running, 'running request')}")
    if best is None or not best.fits or found.shared_running == pricing.running:
        return text
    there = pricing.at(best.candidate, best.k, found.shared_running).speedup
    return (f"{text}; shared by {found.replicas_without:,}, about {found.shared_running:,} run on each, where it gives "
            f"{there.value:.2f}x ({there.low or there.value:.2f} to {there.high or there.value:.2f}): state that as "
            "concurrency to be advised for it")
