"""What a report says before its tables: the verdict, its facts and its reasons, in plain words for every format."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from advisor.record import PAIRED, Record
from advisor.report.curves import Curve, curves
from advisor.report.wording import (
    QUESTION_WORDS,
    faster,
    gib,
    number,
    percent,
    plain,
    requests,
    source_words,
    span,
    speedup,
    times,
    worthwhile,
)
from advisor.spoken_figures import crossover_said, resume_said
from profiles.deployment import Goal, spoken
from profiles.methods import METHODS
from profiles.schema import Source, as_sentence

Verdict = Literal["on", "off", "abstained"]

GOAL_WORDS = {
    Goal.LATENCY: "latency (time per output token)",
    Goal.THROUGHPUT: "throughput (output tokens per second)",
    Goal.COST: "cost (tokens per second and GPU within the SLOs)",
}


@dataclass(frozen=True)
class Headline:
    """The answer, as someone reads it who reads nothing else."""

    verdict: Verdict
    title: str
    """`Turn speculation on`, `Leave speculation off`, `Not decided`; or what keeps the deployment from being served,
    with or without speculation."""
    what: str
    """The candidate and k it is about; empty where there is none."""
    meaning: str
    """One sentence: how much faster, how sure, from what source, at which load."""
    settle: str | None
    """When abstained: the measurement that would decide it."""
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Side:
    """Reasons that speak for or against, each under the question it answers."""

    title: str
    side: Literal["for", "against", "neutral"]
    items: tuple[tuple[str, str], ...]
    """(question, sentence)."""


@dataclass(frozen=True)
class Alert:
    """Something that must be read before the numbers are believed."""

    severity: Literal["error", "warn", "info"]
    title: str
    sentence: str


def subject(record: Record) -> str:
    """The candidate a decision is about: `draft model Llama-3.2-1B-Instruct`; empty where there is none."""
    decision = record.decision
    if decision.method in (None, "none"):
        return ""
    known = METHODS.get(decision.method or "")
    parts = [known.title if known else str(decision.method)]
    if decision.draft:
        parts.append(decision.draft.rstrip("/").split("/")[-1])
    parts += [f"{key}={number(value)}" for key, value in sorted(decision.settings.items())]
    return plain(" ".join(parts))


def schedule_words(schedule: tuple[tuple[int, int, int], ...] | None) -> str:
    """Words for a schedule, band by band: `1–8: k=3; 9–32: k=1`; where there is none, that k is fixed."""
    if not schedule:
        return "no schedule: the same k at every load"
    bands = [
        (f"{start}–{end}" if start != end else f"{start}") + (f": k={k}" if k else ": k=0, idle but loaded")
        for start, end, k in schedule
    ]
    return "; ".join(bands)


def headline(record: Record) -> Headline:
    """The verdict card of a record."""
    decision = record.decision
    verdict: Verdict = "abstained" if decision.enable is None else "on" if decision.enable else "off"
    title = unservable(record) or {
        "on": "Turn speculation on", "off": "Leave speculation off", "abstained": "Not decided"}[verdict]
    name = subject(record)
    k = f"k = {decision.k}" if decision.k else ""
    what = ", ".join(part for part in (name, k) if part)
    return Headline(
        verdict,
        title,
        what,
        _meaning(record, verdict, name),
        plain(decision.would_settle) if decision.would_settle else None,
        _facts(record, name),
    )


def unservable(record: Record) -> str:
    """What keeps a deployment from being served at all, as a title; empty where it can be."""
    decision = record.decision
    if decision.enable is not None or decision.speedup is not None:
        return ""
    if record.memory.target_fits is False:
        return "The target does not fit"
    # What would settle it is then to mend the deployment.
    return "This deployment does not start" if decision.would_settle else ""


def _room_wanted(record: Record) -> str:
    """The weights against the memory, where they alone are too much."""
    memory = record.memory
    if memory.target_fits is not False or memory.usable_gib is None or memory.target_weights_gib < memory.usable_gib:
        return ""
    each = "each GPU" if record.provenance.gpu_count > 1 else "the GPU"
    return (f": the weights of {plain(record.provenance.target.id)} take {gib(memory.target_weights_gib)}, and "
            f"{gib(memory.usable_gib)} of {each} are usable")


def _meaning(record: Record, verdict: Verdict, name: str) -> str:
    decision = record.decision
    load = requests(decision.running)
    gain = percent(record.deployment.objective.worthwhile_gain)
    blocked = unservable(record)
    if blocked:
        return f"Nothing can be served as it is stated, with or without speculation{_room_wanted(record)}."
    if decision.speedup is None:
        known = {
            "on": "It is expected to pay",
            "off": "Nothing considered here can be advised",
            "abstained": "Nothing is known of what it would do",
        }[verdict]
        return f"{known} at {load}."
    interval = span(decision.speedup_low, decision.speedup_high, apart=worthwhile(record))
    range_words = "" if interval == "–" else f" (80 % interval {interval}×)"
    source = _source(record)
    value = f"{times(decision.speedup)}{range_words}, {source}"
    if verdict == "on":
        return f"A request is {faster(decision.speedup)} end to end at {load}: {value}."
    if verdict == "off":
        best = f"the best candidate, {name}," if name else "the best candidate"
        return (
            f"At {load} {best} is {faster(decision.speedup)} end to end: {value}. Worthwhile would be {gain} or more."
        )
    return (
        f"At {load} the speed-up could be {value}: {_open(record)}, so speculation stays off until it is settled."
    )


def _open(record: Record) -> str:
    """Why an abstention's interval decides nothing."""
    decision, least = record.decision, worthwhile(record)
    low, high = decision.speedup_low, decision.speedup_high
    if low is not None and high is not None and not low <= least <= high:
        return "it rests on timings that other work disturbed"
    return f"the interval holds both a gain worth having ({percent(least - 1.0)} or more) and none"


def _facts(record: Record, name: str) -> tuple[tuple[str, str], ...]:
    decision = record.decision
    facts: list[tuple[str, str]] = []
    if name:
        facts.append(("Method", METHODS[decision.method].title if decision.method in METHODS else str(decision.method)))
        facts.append(("Draft", plain(decision.draft) if decision.draft else "none needed"))
        facts.append(("k", _k_words(record)))
        if decision.enable or decision.schedule:
            facts.append(("k by running requests", schedule_words(decision.schedule)))
    full = record.saturation
    facts.append(("Decided for", requests(decision.running) + (", a full replica" if full is not None else "")))
    if full is not None:
        beside = "" if full.replicas_with is None else f", {full.replicas_with:,} with it"
        facts.append((f"Replicas for {number(full.arrival_rate_rps)} requests/s",
                      f"{full.replicas_without:,} without speculation{beside}, before any limit on latency"))
    if decision.speedup is not None:
        low, high = decision.speedup_low, decision.speedup_high
        facts.append(("Speed-up, end to end", speedup(decision.speedup, low, high, apart=worthwhile(record))))
        compared = compared_words(record)
        facts += [("Paired comparison", plain(compared))] if compared else []
        facts.append(("Source", _source(record)))
    gain = percent(record.deployment.objective.worthwhile_gain)
    if decision.probability_of_gain is not None:
        facts.append((f"Chance of a gain above {gain}", percent(decision.probability_of_gain)))
    if decision.break_even_acceptance_length is not None:
        facts.append(
            (
                "Break-even acceptance length",
                f"{decision.break_even_acceptance_length:.2f} tokens per step" + _reached(record),
            )
        )
    facts.append(("Crossover load", crossover_words(record)))
    facts.append(("Goal", GOAL_WORDS[record.deployment.objective.goal]))
    return tuple(facts)


def _k_words(record: Record) -> str:
    """The k decided on; where the schedule has the engine started with another, or ask for another at the load that
    runs with the candidate, those too."""
    decision, rate = record.decision, record.at_rate
    if not decision.k or not decision.schedule:
        return str(decision.k) if decision.k else "–"
    words, loaded = str(decision.k), max(k for _, _, k in decision.schedule)
    if loaded != decision.k:
        words += f" at {requests(decision.running)}; the engine is started with {loaded}, the schedule's largest"
    if rate is not None:
        beside = max(1, round(rate.running_with))
        there = next((k for start, end, k in decision.schedule if start <= beside <= end), decision.k)
        if there != decision.k:
            words += (f"; at {number(rate.arrival_rate_rps)} requests/s about {number(rate.running_with)} run with it, "
                      f"where the schedule asks for {there}")
    return words


def compared_words(record: Record) -> str:
    """What the paired blocks behind the decision's speed-up gave, where that is another figure: the lengths they ran at
    and those that it was carried over to. Empty where they gave the speed-up itself, or where there were none."""
    decision = record.decision
    notes = (note for cell in record.candidates if cell.running == decision.running
             and cell.speedup.value == decision.speedup for note in cell.notes)
    return next((note for note in notes if note.startswith(PAIRED) and "carried over" in note), "")


def _source(record: Record) -> str:
    """What the source of the decision's speed-up means; a measured one that ran at other lengths is told as that."""
    decision = record.decision
    words = source_words(decision.speedup_source, decision.speedup_from_trial)
    carried = decision.speedup_source is Source.MEASURED and compared_words(record)
    return f"{words} at other lengths, and carried over to yours" if carried else words


def _reached(record: Record) -> str:
    first = next(iter(curves(record)), None)
    cell = first.headline if first is not None and first.chosen else None
    return "" if cell is None else f", reached {cell.acceptance_length.value:.2f}"


def crossover_words(record: Record, curve: Curve | None = None) -> str:
    """Where speculation stops paying, as words: of the candidate decided about, or of one curve. A report has no other
    wording for it."""
    decision = record.decision
    if not decision.enable and decision.speedup is None:
        return "not looked for"
    about = curve or next((one for one in curves(record) if _decided_about(record, one)), None)
    gains = {} if about is None else about.gains
    if curve is None or _decided_about(record, curve):
        return crossover_said(gains, decision.crossover_load, decision.crossover_searched_to)
    return crossover_said(gains, curve.crossover, curve.loads[-1])


def crossover_of(record: Record, curve: Curve) -> int | None:
    """The crossover of one candidate: the decision's own word for its candidate, read off the curve for the others."""
    return record.decision.crossover_load if _decided_about(record, curve) else curve.crossover


def _decided_about(record: Record, curve: Curve) -> bool:
    """Whether the decision's figures are this candidate's: an OFF names no method, its speed-up tells whose it is."""
    decision = record.decision
    if curve.chosen or decision.enable is not False or decision.speedup is None:
        return curve.chosen
    at_load = (cell for (load, _), cell in curve.cells.items() if load == decision.running)
    return any(cell.speedup.value == decision.speedup for cell in at_load)


def sides(record: Record) -> tuple[Side, ...]:
    """Reasons by side: for, against, then what merely informs; sides without a reason are left out."""
    titles: tuple[tuple[Literal["for", "against", "neutral"], str], ...] = (
        ("for", "What speaks for it"),
        ("against", "What speaks against it"),
        ("neutral", "Good to know"),
    )
    given = [(r.for_or_against, QUESTION_WORDS[r.question], plain(r.sentence)) for r in record.reasons]
    if not given:
        given = [("neutral", QUESTION_WORDS["other"], plain(sentence)) for sentence in record.decision.reasons]
    found = [Side(title, side, tuple((q, s) for which, q, s in given if which == side)) for side, title in titles]
    return tuple(side for side in found if side.items)


def alerts(record: Record) -> tuple[Alert, ...]:
    """Implausible patterns, failed arms, repairs and warnings, worst first."""
    found: list[Alert] = []
    for evidence in record.evidence:
        for pattern in evidence.implausible:
            words = pattern.code.replace("_", " ")
            message = plain(f"{spoken(pattern.arm)}: {pattern.message}")
            found.append(Alert(pattern.severity, f"Implausible: {words}", message))
        trial = evidence.trial
        if trial is None:
            continue
        for arm in trial.arms:
            if arm.status.value not in ("done", "skipped"):
                found.append(
                    Alert(
                        "warn",
                        plain(f"{_arm(arm.candidate.label)} {_STATUS_WORDS[arm.status.value]}"),
                        plain(arm.error or "The budget or an interrupt ended it."),
                    )
                )
        if resume := resume_said(trial):
            found.append(Alert("info", "The trial can be gone on with", resume))
        if trial.repairs:
            found.append(Alert("info", "The engine under trial was repaired", plain(", ".join(trial.repairs))))
    # The record's warnings name the patterns above once more, for scripts.
    patterns = [p for e in record.evidence for p in e.implausible]
    said = {f"{name}: {p.message}" for p in patterns for name in (p.arm, spoken(p.arm))}
    found += [Alert("warn", "Warning", _whole(plain(text))) for text in record.warnings if text not in said]
    order = {"error": 0, "warn": 1, "info": 2}
    return tuple(sorted(found, key=lambda alert: order[alert.severity]))


def _arm(label: str) -> str:
    return "The trial without speculation" if spoken(label) != label else f"The trial's arm {label}"


def _whole(text: str) -> str:
    """A warning as a sentence with its stop."""
    return as_sentence(text if text.endswith((".", "!", "?")) else f"{text}.")


_STATUS_WORDS = {
    "refused": "would not start",
    "crashed": "crashed",
    "out_of_memory": "ran out of memory",
    "hung": "hung",
    "interrupted": "was cut short; what it measured is kept",
}


_SECRET = re.compile(r"key|token|secret|passw", re.IGNORECASE)


def env_lines(record: Record) -> str:
    """The engine's environment variables as shell lines; what looks like a secret is named, its value is not."""

    def value(key: str, text: str) -> str:
        return "..." if _SECRET.search(key) else shlex.quote(plain(text))

    return "\n".join(f"export {plain(key)}={value(key, text)}" for key, text in sorted(record.emitted.env.items()))
