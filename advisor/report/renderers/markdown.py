"""Markdown for tickets and pull requests: plain tables, every name escaped."""

from __future__ import annotations

import re

from advisor.capacity.words import AT_ITS_OWN_LOAD
from advisor.record import Record
from advisor.report.capacity import fleet_table
from advisor.report.charts.capacity import fleet_sentence
from advisor.report.checklist import checklist_items, checklist_sentence
from advisor.report.content import alerts, crossover_words, env_lines, headline, sides
from advisor.report.curves import curves, nothing_beside, without_figures
from advisor.report.drafts import draft_map_sentence, draft_map_table, proposal_sentence, proposal_table
from advisor.report.evidence_rows import evidence_table
from advisor.report.presentable import presentable
from advisor.report.tables import (
    Table,
    candidate_table,
    found_words,
    load_table,
    memory_sentence,
    memory_table,
    position_table,
    provenance_table,
    star_words,
    step_table,
    workload_table,
)
from advisor.report.wording import percent, plain, requests
from profiles.schema import as_sentence

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def escape(text: str) -> str:
    """Text that markdown shows as it is: pipes, emphasis, links and HTML tags lose their meaning, lines are joined."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", flat)


def table(value: Table) -> str:
    """A pipe table; stressed rows in bold."""
    lines = [
        "| " + " | ".join(escape(name) for name in value.columns) + " |",
        "|" + "|".join(" ---: " if i in value.right else " --- " for i in range(len(value.columns))) + "|",
    ]
    for index, row in enumerate(value.rows):
        cells = [escape(cell.strip()) for cell in row]
        if index in value.strong:
            cells = [f"**{cell}**" for cell in cells]
        lines.append("| " + " | ".join(cells) + " |")
    if value.caption:
        lines += ["", f"{escape(as_sentence(value.caption))}."]
    return "\n".join(lines)


def fenced(text: str, language: str) -> str:
    """A code block whose fence no line of the text can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def render(record: Record, *, width: int | None = None, color: bool = False) -> str:
    """Markdown; `width` and `color` do not apply."""
    record = presentable(record)
    head = headline(record)
    out = [f"# {head.title}" + (f": {escape(head.what)}" if head.what else ""), escape(head.meaning)]
    if head.settle:
        out.append(f"**What would settle it:** {escape(head.settle)}")
    out.append(table(Table(("", ""), head.facts)))
    flagged = alerts(record)
    if flagged:
        out += ["## Read this first", "\n".join(f"- **{escape(a.title)}.** {escape(a.sentence)}" for a in flagged)]
    for side in sides(record):
        out += [f"## {side.title}", "\n".join(f"- *{escape(q)}* {escape(s)}" for q, s in side.items)]
    found = curves(record)
    if found:
        out += ["## Candidates at " + requests(record.decision.running), table(candidate_table(record, found))]
    if found and not without_figures(found[0]):
        first = found[0]
        gain = percent(record.deployment.objective.worthwhile_gain)
        note = (
            f"End to end, against no speculation at the same load; 1.00 is break-even, worthwhile is {gain} more. "
            + f"Crossover: {crossover_words(record, first)}."
            + f" {escape(star_words(first))}."
        )
        out += [
            f"## Speed-up against load: {escape(plain(first.label))}",
            note,
            table(load_table(record, first)),
            f"## Where a step's time goes at {requests(first.decided_load)}",
            table(step_table(first)),
        ]
    proposals, drafts = proposal_table(record), draft_map_table(record)
    if proposals is not None:
        out += ["## Found in the catalog", escape(proposal_sentence(record)), table(proposals)]
    if record.draft_map is not None and drafts is not None:
        out += ["## What draft would pay here", escape(draft_map_sentence(record.draft_map)), table(drafts)]
    if record.per_position:
        told = [f"- {escape(plain(label))}: {escape(words)}" for label in record.per_position
                if (words := found_words(record, label))]
        out += ["## Acceptance by position", *(["\n".join(told)] if told else []), table(position_table(record))]
    if record.capacity is not None:
        out += ["## Capacity", escape(fleet_sentence(record.capacity)), table(fleet_table(record.capacity))]
        if record.capacity.arms[1:]:
            out.append(escape(f"{as_sentence(AT_ITS_OWN_LOAD)}."))
    alone = nothing_beside(record, found)
    out += ["## Memory", escape(memory_sentence(record.memory, alone)), table(memory_table(record.memory, alone))]
    out += ["## Evidence", table(evidence_table(record, found))]
    if record.assumptions:
        out += ["## Not stated, and what was taken instead",
                "\n".join(f"- {escape(plain(a))}" for a in record.assumptions)]
    out += ["## vllm.yaml", fenced(plain(record.emitted.vllm_yaml, lines=True), "yaml")]
    if record.emitted.env:
        out += ["These variables cannot live in the file:", fenced(env_lines(record), "sh")]
    if record.emitted.notes:
        out.append("\n".join(f"- {escape(plain(note))}" for note in record.emitted.notes))
    if record.checklist is not None:
        out += ["## Checklist", escape(checklist_sentence(record))]
        told = [f"- **{escape(i.title)}.** {escape(i.sentence)} *{escape(i.remedy)}*" for i in checklist_items(record)]
        out += ["\n".join(told)] if told else []
    out += ["## Decided for", table(workload_table(record)), table(provenance_table(record))]
    return "\n\n".join(out) + "\n"
