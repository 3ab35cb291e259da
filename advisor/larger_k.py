"""What a k beyond those looked at would do: a range of k that ends where the speed-up still rises is told as one that
ends too soon. Nothing is decided here."""

from __future__ import annotations

from dataclasses import replace

from advisor.acceptance import acceptance_of
from advisor.checks.measured import Measured
from advisor.intervals import shown_apart
from advisor.prediction import Pricing
from advisor.record import Priced, Reason
from advisor.schedule import NOISE
from advisor.spoken_figures import source_said
from advisor.startable import judged, warned_about_k
from profiles.schema import MAX_K

_FURTHER = 3
"""Larger k that are priced: further out an acceptance that nobody counted says little."""


def larger_k(pricing: Pricing, best: Priced, measured: Measured) -> Reason | None:
    """What larger k would do, in a sentence, where the k decided on is the largest looked at and the speed-up rises up
    to it or beyond; None where it does neither.

    measured: what the checklist's rules of thumb give way to.
    """
    top, known = max(best.candidate.k), best.candidate
    ks = tuple(range(top + 1, min(MAX_K, top + _FURTHER) + 1))
    if best.k != top or not ks:
        return None
    deeper = known.model_copy(update={"k": (*known.k, *ks)})
    acceptance = acceptance_of(pricing.situation, deeper, pricing.traffic.prompt_tokens)
    beyond = replace(pricing, candidates=(deeper,), acceptance={**pricing.acceptance, deeper.label: acceptance},
                     _cache={}, _plans={}, _requests={}, _spreads={}, _carried={})
    here = beyond.at(deeper, top, best.running)
    cells = [cell for k in ks if (cell := beyond.at(deeper, k, best.running)).fits and cell.meets_slo == here.meets_slo]
    most = max(cells, key=lambda cell: cell.speedup.value, default=None)
    if most is None:
        return None
    rises = [pricing.at(known, k, best.running).speedup.value for k in known.k[-2:-1]]
    figure = f"k={most.k} would give about {_said(pricing, most)}"
    if most.speedup.value <= here.speedup.value * (1.0 + NOISE):
        if not rises or round(rises[0], 2) >= round(best.speedup.value, 2):
            return None
        return Reason(question="evidence", sentence=(
            f"k={top} is the largest looked at; larger ones gain no more than noise: {figure}."))
    found = judged(pricing.situation, deeper, most.k, most.running, measured)
    against = dict.fromkeys((*(f.code for f in found.findings if f.severity == "error"), *warned_about_k(found)))
    wider = f"{min(known.k)}-{most.k}"
    further = (f", but the checklist advises against it ({', '.join(against)})." if against else
               f". To have it looked at, write `k: {wider}` for this candidate in the deployment file, or give "
               f"`--k {wider}`.")
    return Reason(question="evidence", sentence=(
        f"k={top} is the largest looked at, and the speed-up still rises there: {figure}{further}"))


def _said(pricing: Pricing, cell: Priced) -> str:
    """`1.32x (0.93 to 1.83), assumed`."""
    low, high = cell.speedup.low or cell.speedup.value, cell.speedup.high or cell.speedup.value
    least = 1.0 + pricing.situation.deployment.objective.worthwhile_gain
    return (f"{cell.speedup.value:.2f}x ({shown_apart(low, least)} to {shown_apart(high, least)}), "
            f"{source_said(cell.speedup.source, cell.from_trial)}")
