"""Which of the stated limits on latency hold at the setting that is written, with the figures."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.record import Priced, Reason
from advisor.spoken_figures import ms_said, source_said
from profiles.deployment import Objective
from profiles.schema import Quantity


def slos_kept(objective: Objective, written: Priced) -> Reason | None:
    """The limits that are stated and what the cell that is written keeps of them; None where none is stated.

    written: the advised cell, or the null candidate's where the config has no speculation.
    """
    said = list(_each(objective, written))
    if not said:
        return None
    what = "without speculation" if written.k == 0 else f"with k={written.k}"
    kept = all(holds for holds, _ in said)
    sentence = f"{'Limits on latency' if len(said) > 1 else 'Limit on latency'} {what} at {written.running} running: "
    return Reason(question="other", for_or_against="neutral" if kept else "against",
                  sentence=f"{sentence}{'; '.join(words for _, words in said)}.")


def _each(objective: Objective, cell: Priced) -> Iterator[tuple[bool, str]]:
    """Whether each limit holds, and the words for it. It is held against the middle of the figure's interval."""
    limits: tuple[tuple[str, float | None, Quantity | None], ...] = (
        ("ttft", objective.ttft_ms, cell.ttft_ms), ("tpot", objective.tpot_ms, cell.tpot_ms))
    for name, limit, found in limits:
        if limit is None or found is None:
            continue
        holds = found.value <= limit
        source = source_said(found.source, cell.from_trial)
        between = "" if found.low is None or found.high is None else f", {ms_said(found.low)} to {ms_said(found.high)}"
        yield holds, (f"objective.{name}_ms {limit:g} is {'kept' if holds else 'missed'} with a mean of "
                      f"{ms_said(found.value)} ms ({source}{between})")
