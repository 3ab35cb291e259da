"""One self-contained page: the decision, its charts and tables, no network and no eval."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from advisor.record import Record
from advisor.report.capacity import capacity_notes, fleet_table, latency_table
from advisor.report.charts.capacity import (
    TITLES,
    fleet_chart,
    fleet_sentence,
    latency_chart,
    latency_sentence,
    left_out,
)
from advisor.report.charts.draft import draft_chart
from advisor.report.charts.load import load_chart, load_sentence
from advisor.report.charts.memory import memory_chart
from advisor.report.charts.position import position_chart, position_sentence
from advisor.report.charts.step import step_chart, step_sentence
from advisor.report.checklist import checklist_items, checklist_sentence
from advisor.report.content import alerts, env_lines, headline, sides
from advisor.report.curves import curves, nothing_beside, without_figures
from advisor.report.drafts import draft_map_sentence, draft_map_table, proposal_sentence, proposal_table
from advisor.report.evidence_rows import evidence_table
from advisor.report.html_table import html_table
from advisor.report.presentable import presentable
from advisor.report.tables import (
    Table,
    candidate_table,
    load_details,
    memory_sentence,
    memory_table,
    position_table,
    provenance_table,
    step_table,
    workload_table,
)
from advisor.report.wording import percent, plain, requests, span, times
from advisor.spoken_figures import source_said

ASSETS = Path(__file__).parents[1] / "assets"


@dataclass(frozen=True)
class Figure:
    """A chart with what stands in for it: a sentence and a table."""

    id: str
    name: str
    sentence: str
    spec: Markup | None
    table: Table


@dataclass(frozen=True)
class Strip:
    """The headline's interval on one axis; positions are percent of its width."""

    value: str
    words: str
    label: str
    one: float
    one_side: str
    gain: float
    gain_apart: bool
    want: str
    dot: float
    low: float | None
    width: float


def render(record: Record, *, width: int | None = None, color: bool = False) -> str:
    """HTML; `width` and `color` do not apply."""
    record = presentable(record)
    found = curves(record)
    provenance = record.provenance
    library, script = _asset("charts.min.js"), _asset("report.js")
    loads = []
    for index, curve in enumerate(one for one in found if not without_figures(one)):
        spec, sentence = _embed(load_chart(record, curve)), load_sentence(record, curve)
        loads.append(Figure(f"load-{index}", plain(curve.label), sentence, spec, load_details(record, curve)))
    position = None
    if record.per_position:
        position = Figure(
            "position-chart",
            "",
            position_sentence(record, found),
            _embed(position_chart(record, found)),
            position_table(record),
        )
    step = None
    if loads:
        step = Figure("step-chart", "", step_sentence(found[0]), _embed(step_chart(found[0])), step_table(found[0]))
    alone = nothing_beside(record, found)
    memory = Figure(
        "memory-chart",
        "",
        memory_sentence(record.memory, alone),
        _embed(memory_chart(record.memory, alone)),
        memory_table(record.memory, alone),
    )
    drafts = None
    map_table = draft_map_table(record)
    if record.draft_map is not None and map_table is not None:
        sentence = draft_map_sentence(record.draft_map)
        drafts = Figure("draft-chart", "", sentence, _embed(draft_chart(record)), map_table)
    capacity = _capacity(record)
    reasons = sides(record)
    sections = [("why", "Why")] if reasons else []
    sections += [("load", "Speed-up against load")] if loads else []
    sections += [("candidates", "Candidates")] if found else []
    sections += [("acceptance", "Acceptance")] if position else []
    sections += [("step", "Step time")] if step else []
    sections += [("drafts", "Drafts that would pay")] if drafts else []
    sections += [("capacity", "Capacity")] if record.capacity is not None else []
    sections += [("memory", "Memory"), ("config", "Config")]
    sections += [("checklist", "Checklist")] if record.checklist is not None else []
    sections += [("evidence", "Evidence")]
    sections += [("assumed", "Not stated")] if record.assumptions else []
    sections += [("provenance", "Decided for")]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["code"] = _code
    environment.globals["grid"] = html_table
    page = environment.from_string(_asset("report.html.j2")).render(
        head=headline(record),
        strip=_strip(record),
        alerts=alerts(record),
        sides=reasons,
        loads=loads,
        load_words=requests(record.decision.running),
        candidates=candidate_table(record, found) if found else None,
        position=position,
        step=step,
        drafts=drafts,
        proposals=proposal_table(record),
        proposal_words=proposal_sentence(record),
        memory=memory,
        memory_notes=[plain(note) for note in record.memory.notes],
        evidence=evidence_table(record, found),
        assumptions=[plain(text) for text in record.assumptions],
        yaml=plain(record.emitted.vllm_yaml, lines=True),
        env=env_lines(record),
        notes=[plain(note) for note in record.emitted.notes],
        capacity=capacity,
        capacity_notes=() if record.capacity is None else capacity_notes(record.capacity),
        checked=checklist_sentence(record),
        findings=checklist_items(record),
        workload=workload_table(record),
        provenance=provenance_table(record),
        sections=sections,
        target=plain(provenance.target.id),
        hardware=plain(f"{provenance.gpu_count} × {provenance.gpu}" if provenance.gpu_count else provenance.gpu),
        vllm=plain(provenance.vllm_version),
        created=plain(provenance.created_at),
        version=plain(provenance.tool_version),
        # Marked safe: files of this package, hashed below so that the page runs these scripts and no others.
        style=Markup(_asset("report.css")),  # noqa: S704
        library=Markup(library),  # noqa: S704
        script=Markup(script),  # noqa: S704
        script_hashes=Markup(f"{_hash(library)} {_hash(script)}"),  # noqa: S704
    )
    return page.rstrip() + "\n"


def _capacity(record: Record) -> list[Figure]:
    """The figures of the plan, where the record has one that could be simulated."""
    plan = record.capacity
    if plan is None or not plan.arms:
        return []
    rates = latency_table(plan)
    figures = [
        Figure(f"rate-{what[:4]}", name, latency_sentence(plan, what) + left_out(plan),
               _embed(latency_chart(plan, what)), rates)
        for what, name in TITLES.items()
    ]
    if any(arm.fleets for arm in plan.arms):
        words = fleet_sentence(plan) + left_out(plan)
        fleet = Figure("fleet", "replicas", words, _embed(fleet_chart(plan)), fleet_table(plan))
        figures.append(fleet)
    return figures


def _code(text: str) -> Markup:
    """Escaped text in which `quoted` commands are set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704


@cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@cache
def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def _embed(spec: dict[str, Any] | None) -> Markup | None:
    """A specification as JSON that no text in it can end: the characters HTML looks for are written as escapes."""
    if spec is None:
        return None
    text = json.dumps(spec, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _strip(record: Record) -> Strip | None:
    decision = record.decision
    if decision.speedup is None:
        return None
    low, high = decision.speedup_low, decision.speedup_high
    gain = 1 + record.deployment.objective.worthwhile_gain
    values = [value for value in (1.0, gain, decision.speedup, low, high) if value is not None]
    room = max(0.08, 0.12 * (max(values) - min(values)))
    left, right = min(values) - room, max(values) + room

    def at(value: float) -> float:
        return round(100 * (value - left) / (right - left), 2)

    both = low is not None and high is not None
    interval = f"80 % interval {span(low, high)}×" if both else "no interval known"
    one = at(1.0)
    return Strip(
        value=times(decision.speedup),
        words=f"{interval}, {source_said(decision.speedup_source, decision.speedup_from_trial)}",
        label=f"Speed-up {times(decision.speedup)}, {interval}; break-even is 1.00, worthwhile is {gain:.2f} "
        f"(a gain of {percent(gain - 1)})",
        one=one,
        one_side=" start" if one < 30 else " end" if one > 70 else "",
        gain=at(gain),
        gain_apart=gain > 1,
        want=f"{gain:.2f}",
        dot=at(decision.speedup),
        low=at(low) if low is not None and both else None,
        width=round(at(high) - at(low), 2) if low is not None and high is not None else 0.0,
    )
