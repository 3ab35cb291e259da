"""Figures that several pages tell, in the same words on each: where they come from, how often a lookup finds a draft
and how far those drafts are accepted, what keeps a candidate from a gain, and where speculation stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.record import HeldBack, Priced
from profiles.evidence import TrialEvidence
from profiles.schema import Source, counted


def source_said(source: Source, from_trial: bool = False) -> str:
    """Where a figure comes from, in a word or three. What follows from a trial without having been timed itself is
    modelled, yet not from published facts."""
    return "modelled from the trial" if from_trial and source is Source.MODELLED else source.value


def ms_said(ms: float) -> str:
    """Milliseconds with three digits or all before the point: 8.87, 51.1, 5,410."""
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def resume_said(trial: TrialEvidence) -> str:
    """That a trial which its budget or Ctrl-C ended can be gone on with, and how; empty of one that came to its end,
    and of one that has nothing to go on from."""
    measured = any(arm.blocks for arm in trial.arms)
    paired_servers = trial.comparison is not None and trial.comparison.mode == "two_servers"
    if trial.stopped not in ("budget", "interrupted") or not measured or paired_servers:
        return ""
    what = "Its budget" if trial.stopped == "budget" else "An interrupt"
    budget = "" if trial.budget_s is None or trial.stopped != "budget" else f" of {trial.budget_s:g} s"
    return (f"{what}{budget} ended the trial before its end: the same command with `--resume` goes on from what it "
            "measured (`advise --trial` with the same --out, `trial` with the same --save).")


def drafts_found(matched: float, first: float) -> str:
    """`8 % of the steps find a draft, and 97 % of those accept its first token (8 % of all steps)`.

    matched: share of steps that find a draft. first: share of all steps whose first drafted token is accepted, as
    per-position acceptance counts it.
    """
    within = min(1.0, first / matched) if matched > 0 else 0.0
    return (f"{100 * matched:.0f} % of the steps find a draft, and {100 * within:.0f} % of those accept its first "
            f"token ({100 * first:.0f} % of all steps)")


_HELD_BACK: dict[HeldBack, tuple[str, str]] = {
    "acceptance": ("too few drafted tokens are accepted", "were all accepted"),
    "matching": ("too few steps find a draft", "did all find one"),
    "draft_time": ("drafting takes too long", "were it free"),
    "verify_compute": ("verifying the drafted tokens takes too long", "were it as quick as a plain step"),
    "overhead": ("the fixed cost of each step eats the gain", "were it free"),
    "prefill_share": ("most of the time goes into reading prompts", "in the answers alone"),
    "memory": ("memory is short", "were there room for as many requests"),
}
"""What a part does, and the case in which it does not."""


def held_back_said(cell: Priced) -> str:
    """Why a cell is not surely worth its while, with the figures: `drafting takes too long (1.31x were it free)`.
    Empty where nothing keeps it back, and of records that do not say."""
    part = cell.held_back_by
    if part == "uncertainty":
        return "its interval is too wide"
    if part == "together":
        return (f"no single part is to blame: a step of {cell.step_ms.value:.1f} ms gives "
                f"{cell.acceptance_length.value:.2f} tokens, a plain one takes {cell.baseline_step_ms.value:.1f} ms")
    words, case = _HELD_BACK.get(part or "nothing", ("", ""))
    return words if not words or cell.held_back_from is None else f"{words} ({cell.held_back_from:.2f}x {case})"


def crossover_said(gains: Mapping[int, bool], cross: int | None, searched_to: int | None) -> str:
    """Where speculation stops paying, and where it never did, in words without a full stop.

    gains: whether any k of a candidate gains, by the loads looked at one by one. cross: the crossover; None where none
    was found up to searched_to. searched_to: None where it was not looked for.
    """
    loads = sorted(gains)
    losing = [load for load in loads if not gains[load] and (cross is None or load < cross)]
    if cross is not None and cross <= 1:
        return "no k gains at any load"
    if cross is not None:
        return f"no k gains from {counted(cross, 'running request')} on" + (
            f", nor at {_stretches(losing, loads)}" if losing else "")
    if searched_to is None:
        return "not looked for"
    if not losing:
        return f"none found up to {counted(searched_to, 'running request')}"
    if len(losing) == len(loads):
        beyond = f"; only at {searched_to:,} one does" if searched_to > loads[-1] else ""
        return f"no k gains at any load looked at, {loads[0]:,} to {counted(loads[-1], 'running request')}{beyond}"
    words = f"no k gains at {_stretches(losing, loads)} running"
    after = next((load for load in loads if load > losing[-1] and gains[load]), None)
    return words if after is None else f"{words}; from {after:,} on one does, up to {searched_to:,}"


def _stretches(some: Sequence[int], loads: Sequence[int]) -> str:
    """`1 to 4 and 32`: neighbours among the loads looked at are told as one stretch."""
    found: list[list[int]] = []
    for load in some:
        if found and loads.index(load) == loads.index(found[-1][-1]) + 1:
            found[-1].append(load)
        else:
            found.append([load])
    return " and ".join(f"{one[0]:,} to {one[-1]:,}" if len(one) > 1 else f"{one[0]:,}" for one in found)
