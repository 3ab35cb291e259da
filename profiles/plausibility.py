"""Counts of drafted and accepted tokens that no engine with correct counters can show: one judge for a trial's steps, a
server's counters, a log's sums and saved evidence. What is found is said, and the acceptance behind it is used nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from profiles.evidence import (
    ArmEvidence,
    Evidence,
    Implausibility,
    RequestAcceptance,
    ServerEvidence,
    SpeculationCounters,
    TrialEvidence,
)

RARE = 1e-3
"""Chance under correct speculation below which a pattern is said."""
SLACK = 0.01
"""Share by which counters of a running engine may exceed one another: a scrape can fall between two of one step."""
SERVER = "the server"
"""The arm that findings on a server's counters name."""


def position_totals(requests: Sequence[RequestAcceptance]) -> tuple[list[int], list[int]]:
    """(drafted, accepted) by position, summed over requests."""
    width = max((max(len(r.drafted), len(r.accepted)) for r in requests), default=0)
    drafted = [sum(r.drafted[i] for r in requests if i < len(r.drafted)) for i in range(width)]
    accepted = [sum(r.accepted[i] for r in requests if i < len(r.accepted)) for i in range(width)]
    return drafted, accepted


def later_positions(arm: str, drafted: Sequence[float], accepted: Sequence[float]) -> list[Implausibility]:
    """The first position is accepted, none after it ever is.

    With a weak draft that can happen by chance: it is said only where half the first position's rate at the second
    one would have shown with all but a thousandth of certainty.
    """
    if len(drafted) < 2 or not drafted[0] or any(accepted[1:]) or not any(drafted[1:]):
        return []
    tries = round(accepted[0] * drafted[1] / drafted[0])
    expected = min(1.0, accepted[0] / drafted[0]) / 2
    if tries == 0 or tries * math.log1p(-expected) > math.log(RARE):
        return []
    return [_wrong("later_positions_never_accepted", arm,
                   f"of {drafted[0]:.10g} drafts {accepted[0]:.10g} were accepted at position 1 and none at any later "
                   "one: a correct engine does not do this with any draft")]


def rates(arm: str, drafted: Sequence[float], accepted: Sequence[float], slack: float = 0.0) -> list[Implausibility]:
    """Acceptance above 1, and a later position accepted more often than an earlier one. Counts by position; slack: the
    share by which one may exceed the other."""
    found = []
    above = [i for i, (d, a) in enumerate(zip(drafted, accepted, strict=False)) if a > (1.0 + slack) * d]
    if above:
        i = above[0]
        found.append(_wrong("acceptance_above_one", arm,
                            f"position {i + 1}: {accepted[i]:.10g} accepted of {drafted[i]:.10g} drafted"))
    rising = [i for i in range(1, len(accepted)) if accepted[i] > (1.0 + slack) * accepted[i - 1]]
    if rising:
        i = rising[0]
        found.append(_wrong("acceptance_not_monotone", arm,
                            f"position {i + 1} was accepted {accepted[i]:.10g} times, position {i} before it "
                            f"{accepted[i - 1]:.10g}: a token is only accepted when all before it are"))
    return found


def sums(arm: str, drafts: float | None, draft_tokens: float | None, accepted_tokens: float | None,
         by_position: Sequence[float] = (), slack: float = SLACK) -> list[Implausibility]:
    """What cannot be in the sums of a whole run; None where a sum is not known.

    by_position: tokens accepted at each position, of all drafts.
    """
    found: list[Implausibility] = []
    if draft_tokens is not None and accepted_tokens is not None and accepted_tokens > (1.0 + slack) * draft_tokens:
        found.append(_wrong("acceptance_above_one", arm,
                            f"{accepted_tokens:.10g} tokens accepted of {draft_tokens:.10g} drafted"))
    if drafts is not None and draft_tokens is not None and drafts > (1.0 + slack) * draft_tokens:
        found.append(_wrong("acceptance_above_one", arm,
                            f"{drafts:.10g} drafts hold {draft_tokens:.10g} tokens, and each has one at least"))
    if drafts is not None:
        said = {one.code for one in found}
        found += [one for one in rates(arm, [drafts] * len(by_position), by_position, slack) if one.code not in said]
        if draft_tokens is not None and len(by_position) > 1 and not found:
            # At least so many drafts had a second token, however the tokens are spread over them.
            second = max(0.0, draft_tokens - drafts) / (len(by_position) - 1)
            found += later_positions(arm, [drafts, second], by_position)
    return found


def _wrong(code: str, arm: str, what: str) -> Implausibility:
    return Implausibility.model_validate({
        "code": code, "arm": arm, "severity": "error",
        "message": f"{what}; the engine's counters are wrong, and this acceptance is not used"})


# --- evidence ------------------------------------------------------------------------------------------------------
def judged_server(server: ServerEvidence) -> ServerEvidence:
    """The same with what is wrong in its counters said, and without the acceptance that follows from them."""
    counters = server.speculation
    if counters is None:
        return server
    found = (*server.implausible, *_new(server.implausible, sums(
        SERVER, counters.drafts, counters.draft_tokens, counters.accepted_tokens,
        [counters.drafts * share for share in counters.per_position])))
    return server if not found else server.model_copy(
        update={"implausible": found, "speculation": _without_acceptance(counters)})


def judged(evidence: Evidence) -> Evidence:
    """Evidence from a file, judged as its probe judges it: older probes did not, and files are edited."""
    if evidence.server is not None:
        return evidence.model_copy(update={"server": judged_server(evidence.server)})
    if evidence.trial is not None:
        return evidence.model_copy(update={"trial": _judged_trial(evidence.trial)})
    return evidence


def _without_acceptance(counters: SpeculationCounters) -> SpeculationCounters:
    return counters.model_copy(update={"per_position": (), "acceptance_length": None, "tokens_per_step": None,
                                       "dispersion": None})


def _judged_trial(trial: TrialEvidence) -> TrialEvidence:
    found = [one for arm in trial.arms for one in _new(trial.implausible, _of_arm(arm))]
    return trial.model_copy(update={"implausible": (*trial.implausible, *found)}) if found else trial


def _of_arm(arm: ArmEvidence) -> list[Implausibility]:
    return rates(arm.candidate.label, *position_totals(arm.requests))


def _new(known: Sequence[Implausibility], found: Sequence[Implausibility]) -> list[Implausibility]:
    said = {(one.code, one.arm) for one in known}
    return [one for one in found if (one.code, one.arm) not in said]
