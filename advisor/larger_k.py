"""What a k beyond those looked at would do: a range of k that ends where the speed-up still rises is told as one that
ends too soon. Nothing is decided here."""

from __future__ import annotations

from dataclasses import replace

from advisor.acceptance import acceptance_of
from advisor.checks.emitted import errors_of
from advisor.checks.measured import Measured
from advisor.intervals import shown_apart
from advisor.prediction import Pricing
from advisor.record import Priced, Reason
from advisor.schedule import NOISE
from advisor.spoken_figures import source_said
from advisor.startable import judged
from profiles.schema import MAX_K

_FURTHER = 3
"""Larger k that are priced: further out an acceptance that nobody counted says little."""


def larger_k(pricing: Pricing, best: Priced, measured: Measured) -> Reason | None:
    """A sentence where the k decided on is the largest looked at and a larger one would be faster by more than noise;
    None where it would not, or would not start or pass the checklist.

    measured: what the checklist's rules of thumb give way to.
    """
    top, known = max(best.candidate.k), best.candidate
    if best.k != top:
        return None
    ks = tuple(range(top + 1, min(MAX_K, top + _FURTHER) + 1))
    if not ks:
        return None
    deeper = known.model_copy(update={"k": (*known.k, *ks)})
    acceptance = acceptance_of(pricing.situation, deeper, pricing.traffic.prompt_tokens)
    beyond = replace(pricing, candidates=(deeper,), acceptance={**pricing.acceptance, deeper.label: acceptance},
                     _cache={}, _plans={}, _requests={}, _spreads={}, _carried={})
    here = beyond.at(deeper, top, best.running)
    cells = [cell for k in ks if (cell := beyond.at(deeper, k, best.running)).fits and cell.meets_slo == here.meets_slo]
    most = max(cells, key=lambda cell: cell.speedup.value, default=None)
    if most is None or most.speedup.value <= here.speedup.value * (1.0 + NOISE):
        return None
    found = judged(pricing.situation, deeper, most.k, most.running, measured)
    before = {finding.code for finding in judged(pricing.situation, known, top, best.running, measured).findings}
    if errors_of(found) or any(f.code not in before and f.severity != "info" for f in found.findings):
        return None
    low, high = most.speedup.low or most.speedup.value, most.speedup.high or most.speedup.value
    least = 1.0 + pricing.situation.deployment.objective.worthwhile_gain
    wider = f"{min(known.k)}-{most.k}"
    return Reason(question="evidence", sentence=(
        f"k={top} is the largest looked at, and the speed-up still rises there: k={most.k} would give about "
        f"{most.speedup.value:.2f}x ({shown_apart(low, least)} to {shown_apart(high, least)}), "
        f"{source_said(most.speedup.source, most.from_trial)}. To have it looked at, write `k: {wider}` for this "
        f"candidate in the deployment file, or give `--k {wider}`."))
