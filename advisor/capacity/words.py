"""How a plan speaks of its arms: their whole names, short ones that fit over a column, and why each has its k."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from advisor.capacity.document import ArmPlan, CapacityPlan
from advisor.report.wording import plain

_LONGEST = 18
"""Characters of a label that still fits over a column."""
AT_ITS_OWN_LOAD = ("at one rate fewer requests run where each leaves sooner: here every arm is at its own load, while "
                   "`advise` compares both at the load without speculation, which shows a smaller gain")
"""Why a plan's latencies and the advice's speed-up differ, without a full stop."""


def full_name(arm: ArmPlan) -> str:
    """Method, draft and k."""
    return "no speculation" if arm.role == "null" else plain(f"{arm.label}, {_k(arm)}")


def _k(arm: ArmPlan) -> str:
    return "k by load" if arm.schedule else f"k={arm.k}"


def rates_said(plan: CapacityPlan) -> str:
    """What the rates of a plan are and where they come from, without a full stop; empty where nothing was simulated."""
    most = max((arm.saturation_rate_rps for arm in plan.arms), default=0.0)
    if most <= 0:
        return ""
    usual, peak = plan.traffic.usual_rate_rps, plan.traffic.peak_rate_rps
    asked = "" if usual is None else f"; the deployment's own usual rate, all replicas together, is {usual:.3g}"
    asked += f" and its peak {peak:.3g}" if asked and peak is not None else ""
    return (f"simulated rates are those of one replica, from a tenth of the most that any arm holds ({most:.3g} "
            f"requests per second) up to that{asked}")


@dataclass(frozen=True)
class ShortNames:
    """Short names of all arms of a plan and its what-ifs: the method, where that alone would not tell them apart the
    label, and a letter where the label is too long."""

    of_label: dict[str, str]
    legend: tuple[str, ...]
    """What the letters stand for."""

    def of(self, arm: ArmPlan) -> str:
        return "none" if arm.role == "null" else f"{self.of_label[arm.label]} {_k(arm)}"


def short_names(plan: CapacityPlan) -> ShortNames:
    """The same for every table of a plan, so that a letter means one thing."""
    labels = list(dict.fromkeys(arm.label for arms in (plan.arms, *(v.arms for v in plan.what_if)) for arm in arms
                                if arm.role != "null"))
    methods = [label.split(" ", 1)[0] for label in labels]
    found: dict[str, str] = {}
    legend = []
    letters = _letters()
    for label, method in zip(labels, methods, strict=True):
        if methods.count(method) == 1:
            found[label] = plain(method)
        elif len(label) <= _LONGEST and plain(label) not in found.values():
            found[label] = plain(label)
        else:
            letter = next(letters)
            found[label] = plain(f"{method} {letter}")
            legend.append(plain(f"{letter}: {label}"))
    return ShortNames(found, tuple(legend))


def _letters() -> Iterator[str]:
    """A to Z, then with a number."""
    for number in itertools.count(1):
        yield from (f"{letter}{number if number > 1 else ''}" for letter in string.ascii_uppercase)


def why_k(arm: ArmPlan) -> str:
    """Why an arm's k follows the load or does not, and the schedule that would avoid a loss; empty for the null one."""
    if arm.role == "null":
        return ""
    if arm.schedule is not None:
        return ("k follows the load, because verifying a draft costs more the more requests share a step: "
                f"{_bands(arm.schedule)}")
    fixed = f"k={arm.k} at every load"
    if arm.avoiding_schedule is None:
        why = "it gains at no k from the usual load on" if arm.hurts_from_running is not None else (
            "no other k is better by more than 2 % at any load that was looked at")
        return f"{fixed}, because {why}"
    why = {
        "named": "that is the k asked for, or its best at the usual load",
        "undecided": "a schedule is advised only with speculation, which is not decided",
        "not recommended": "speculation is not advised",
    }.get(arm.role, "no schedule is advised")
    if arm.schedule_note:
        why = f"a schedule would not be followed here ({arm.schedule_note})"
    return f"{fixed}, because {why}; the schedule that would avoid a loss: {_bands(arm.avoiding_schedule)}"


def _bands(schedule: Iterable[tuple[int, int, int]]) -> str:
    return ", ".join(f"{start} to {end} running: k={k}" for start, end, k in schedule)
