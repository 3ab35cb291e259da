"""Speculation counters of a server: acceptance by position and in length, over the window or since its start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probes.server.names import EngineNames, Names
from profiles.evidence import SpeculationCounters

Count = Callable[[Names], "float | None"]
NOTABLE_SHARE = 0.05
"""Steps without a draft, as a share of all, from which the difference is worth a sentence."""


MIN_PARTS = 4
"""Parts of a window with drafts from which their spread is taken: of fewer it would be chance."""


@dataclass(frozen=True)
class Counted:
    """Accepted tokens by position: increase over the window, and totals since the server's start."""

    in_window: dict[int, float]
    since_start: dict[int, float]


def speculation_counters(names: EngineNames, in_window: Count, since_start: Count, positions: Counted,
                         length_gauge: float | None, parts: Sequence[tuple[float, float]],
                         notes: list[str]) -> SpeculationCounters | None:
    """None where speculation is not configured (the engine then exports none of its counters).

    parts: (drafts, accepted tokens) of each part of the window, from which the spread between them is taken. Adds to
    `notes`: totals taken for an idle window, and steps without a draft. Counts that cannot be are judged where they
    stand in the evidence (`profiles.plausibility`).
    """
    if since_start(names.accepted_tokens) is None:
        return _from_gauge(length_gauge, notes)
    drafted = (in_window(names.draft_tokens) or 0.0) > 0
    count, by_position = (in_window, positions.in_window) if drafted else (since_start, positions.since_start)
    draft_tokens, accepted = count(names.draft_tokens) or 0.0, count(names.accepted_tokens) or 0.0
    if not drafted and draft_tokens > 0 and in_window(names.draft_tokens) != draft_tokens:
        notes.append("no draft in the window: speculation counts are since the server's start")
    drafts, generated = count(names.drafts), count(names.generation_total)
    if drafts is None:
        # V0: each verification emits the accepted tokens and one more, and steps are not counted.
        emitted = count(names.emitted_tokens)
        drafts = max(emitted - accepted, 0.0) if emitted is not None else 0.0
        notes.append("names of the V0 engine: verifications are emitted minus accepted tokens, and there is no "
                     "acceptance by position" if emitted is not None else
                     "this release does not count its drafts: only tokens_per_step tells how far they were accepted")
    if draft_tokens == 0:
        notes.append("speculation is configured and has drafted nothing yet")
    length = 1 + accepted / drafts if drafts > 0 else None
    per_step = generated / (generated - accepted) if generated is not None and generated > accepted >= 0 else None
    per_position = tuple(by_position.get(i, 0.0) / drafts for i in range(max(by_position) + 1)) \
        if by_position and drafts > 0 else ()
    if accepted <= draft_tokens:
        _say_what_stands_out(length, per_step, accepted, generated, drafts, by_position, notes)
    found = SpeculationCounters(enabled=True, drafts=drafts, draft_tokens=draft_tokens, accepted_tokens=accepted,
                                per_position=per_position, acceptance_length=length, tokens_per_step=per_step,
                                in_window=drafted)
    return found.model_copy(update={"dispersion": _dispersion(found, parts)}) if drafted else found


def _dispersion(found: SpeculationCounters, parts: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's dispersion of the mean accepted tokens over the parts: 1 where drafts do not depend on each other,
    more where requests differ."""
    variance = found.accepted_variance
    if len(parts) < MIN_PARTS or not variance:
        return None
    mean = sum(accepted for _, accepted in parts) / sum(drafts for drafts, _ in parts)
    return sum(drafts * (accepted / drafts - mean) ** 2 for drafts, accepted in parts) / variance / (len(parts) - 1)


def _from_gauge(length: float | None, notes: list[str]) -> SpeculationCounters | None:
    if length is None:
        return None
    notes.append("the engine exports its own recent acceptance length and no draft counters: those stand at 0")
    return SpeculationCounters(enabled=True, drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0, per_position=(),
                               acceptance_length=length)


def _say_what_stands_out(length: float | None, per_step: float | None, accepted: float, generated: float | None,
                         drafts: float, by_position: dict[int, float], notes: list[str]) -> None:
    if length is not None and per_step is not None and generated:
        # Every step gives its accepted tokens and one more, so generated - accepted are the steps of all requests.
        without = 1 - drafts / (generated - accepted)
        if without > NOTABLE_SHARE:
            notes.append(f"{without:.0%} of the steps had no draft: acceptance_length ({length:.2f}) leaves them out, "
                         f"tokens_per_step ({per_step:.2f}) counts them")
    if by_position and abs(sum(by_position.values()) - accepted) > max(1.0, 0.01 * accepted):
        notes.append("accepted tokens by position do not add up to all accepted tokens: the scrape may have caught "
                     "the counters in between")
