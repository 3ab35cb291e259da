"""Which candidates a live trial is for, once the cheap tiers (replay, scoring) have spoken. Leaving one out saves an
engine start and its share of the budget; a candidate whose acceptance is only assumed is never left out."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.prediction import price
from advisor.record import Priced
from advisor.situation import Situation
from profiles.deployment import Candidate

_CHEAP = ("replay", "scoring")


def finalists(situation: Situation, ordered: Sequence[Candidate]) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates worth an engine start, in the given order, and why each other one is not, by label.

    Left out are candidates of known acceptance that differ from a better one by settings only, and those whose speed-up
    at the usual load cannot reach the lower end of the best one's. The first one always stays.
    """
    pricing = price(situation)
    best: dict[str, Priced] = {}
    for cell in pricing.table:
        if cell.running == pricing.running and cell.k and cell.candidate.method != "none":
            held = best.get(cell.label)
            if held is None or cell.speedup.value > held.speedup.value:
                best[cell.label] = cell
    kept: list[Candidate] = []
    left: dict[str, str] = {}
    for candidate in ordered:
        acceptance, own = pricing.acceptance[candidate.label], best.get(candidate.label)
        known = acceptance.tier in _CHEAP and own is not None
        kin = next((c for c in kept if (c.method, c.draft) == (candidate.method, candidate.draft)
                    and pricing.acceptance[c.label].tier in _CHEAP), None)
        if known and kin is not None:
            left[candidate.label] = f"{acceptance.tier} puts {kin.label} above it, which differs by settings only"
            continue
        above = _clearly_above(own, [best[c.label] for c in kept if c.label in best]) if known and own else None
        if above is not None and own is not None:
            left[candidate.label] = (
                f"by {acceptance.tier} it gains at most {own.speedup.high or own.speedup.value:.2f} times, and "
                f"{above.label} at least {above.speedup.low or above.speedup.value:.2f}"
            )
            continue
        kept.append(candidate)
    return kept, left


def _clearly_above(own: Priced, others: Sequence[Priced]) -> Priced | None:
    high = own.speedup.high or own.speedup.value
    return next((other for other in others if (other.speedup.low or other.speedup.value) > high), None)
