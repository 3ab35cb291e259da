"""What a source says of speculation, under one set of names and in one unit, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from probes.requests.shapes import at, number
from profiles.plausibility import SLACK, rates, sums

_ARM = "the log"


def speculation(*, drafts: float | None, draft_tokens: float | None, accepted_tokens: float | None,
                stated_rate: float | None = None, stated_length: float | None = None,
                per_position: Sequence[float] = (), **more: Any) -> dict[str, Any] | None:
    """One run's counts: drafts, draft_tokens, accepted_tokens, acceptance_rate and per_position (fractions),
    acceptance_length (tokens per draft, bonus included); `more` stands in front of them. None where nothing is known.
    Counts that cannot be give no acceptance, and `implausible` says why.

    Rate and length follow from the counts where these are known: what a tool rounds or scales for a console is used
    only without them. stated_rate: accepted over drafted tokens, a fraction.
    """
    # What follows from a rounded length is no count to be judged.
    wrong = [] if min(drafts or 0, draft_tokens or 0, accepted_tokens or 0, *per_position, 0) >= 0 else [
        "a count of drafted or accepted tokens is below 0"]
    found_wrong = sums(_ARM, drafts, draft_tokens, accepted_tokens, [(drafts or 1.0) * share for share in per_position])
    if drafts is None:
        found_wrong += rates(_ARM, [1.0] * len(per_position), per_position, SLACK)
    if draft_tokens is None and stated_rate is not None:
        found_wrong += rates(_ARM, [1.0], [stated_rate], SLACK)
    wrong += [item.message for item in found_wrong]
    if drafts is None and accepted_tokens and stated_length is not None and stated_length > 1:
        drafts = accepted_tokens / (stated_length - 1)
    rate, length = stated_rate, stated_length
    if accepted_tokens is not None and draft_tokens:
        rate = accepted_tokens / draft_tokens
    if accepted_tokens is not None and drafts:
        length = 1 + accepted_tokens / drafts
    found: dict[str, Any] = {"drafts": drafts, "draft_tokens": draft_tokens, "accepted_tokens": accepted_tokens,
                             "acceptance_rate": rate, "acceptance_length": length, "per_position": list(per_position)}
    if all(value is None or value == [] for value in found.values()):
        return None
    if wrong:
        found.update(acceptance_rate=None, acceptance_length=None, per_position=[],
                     implausible=list(dict.fromkeys(wrong)))
    return {**more, **found}


def shares(found: Any, scale: float = 1.0) -> list[float]:
    """Rates by position from a list, or from an object keyed by position, as fractions."""
    if isinstance(found, Mapping):
        places = sorted((int(key), value) for key, value in found.items() if str(key).isdecimal())
        found = [value for _, value in places]
    values = [number(one) for one in found] if isinstance(found, list) else []
    return [] if None in values else [value * scale for value in values if value is not None]


def counted_by_harness(document: Any) -> dict[str, Any] | None:
    """The counters that a load test took from the server, under the names harnesses give them."""
    if not isinstance(document, Mapping) or document.get("enabled") is False:
        return None

    def first(*names: str) -> float | None:
        return next((value for name in names if (value := number(at(document, name))) is not None), None)

    rates = next((document[name] for name in ("per_position", "acceptance_rate_per_position",
                                              "per_position_acceptance_rates") if name in document), None)
    return speculation(
        drafts=first("drafts", "num_drafts"), draft_tokens=first("draft_tokens", "num_draft_tokens"),
        accepted_tokens=first("accepted_tokens", "num_accepted_tokens"),
        stated_rate=_fraction(first("acceptance_rate", "draft_acceptance_rate")),
        stated_length=first("acceptance_length", "mean_acceptance_length"), per_position=shares(rates))


def _fraction(rate: float | None) -> float | None:
    """A rate whose unit nobody states: above 1 it can only be percent."""
    return rate if rate is None or rate <= 1 else rate / 100
