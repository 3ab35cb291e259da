"""The report for a terminal: the decision first, readable at 80 columns, colour only where it is asked for."""

from __future__ import annotations

import io
import textwrap

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from advisor.capacity.words import AT_ITS_OWN_LOAD, rates_said
from advisor.record import Record
from advisor.report.charts.capacity import TITLES, fleet_sentence, latency_sentence
from advisor.report.checklist import checklist_items, checklist_sentence
from advisor.report.content import Headline, alerts, crossover_words, env_lines, headline, sides
from advisor.report.curves import Curve, curves, nothing_beside, without_figures
from advisor.report.drafts import draft_map_sentence, draft_map_table, proposal_sentence
from advisor.report.evidence_rows import evidence_table
from advisor.report.plot import load_plot
from advisor.report.presentable import presentable
from advisor.report.tables import (
    Table,
    candidate_table,
    found_words,
    load_table,
    memory_parts,
    memory_sentence,
    memory_table,
    provenance_table,
    star_words,
    step_table,
    workload_table,
)
from advisor.report.wording import percent, plain, requests
from profiles.schema import as_sentence

VERDICT_STYLE = {"on": "green", "off": "cyan", "abstained": "yellow"}
ALERT_STYLE = {"error": "bold red", "warn": "yellow", "info": "dim"}
SIDE_MARK = {"for": ("+", "green"), "against": ("−", "red"), "neutral": ("·", "dim")}


def render(record: Record, *, width: int | None = None, color: bool = False) -> str:
    """Text of `width` columns (80 without it, 60 at least); ANSI sequences only with `color`."""
    record = presentable(record)
    stream = io.StringIO()
    # Everything below is Text, never markup: a model named "[red]" is printed as it is.
    console = Console(
        file=stream,
        width=max(60, width or 80),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    console.print(_card(headline(record)))
    for alert in alerts(record):
        style = ALERT_STYLE[alert.severity]
        console.print(_hanging("!", f"{alert.title}. {alert.sentence}", style, style))
    for side in sides(record):
        _section(console, side.title)
        mark, style = SIDE_MARK[side.side]
        for question, sentence in side.items:
            console.print(_hanging(mark, sentence, style, lead=question))
    found = curves(record)
    if found:
        _section(console, f"Candidates at {requests(record.decision.running)}")
        told = candidate_table(record, found)
        console.print(_stacked(told, 7, console.width))
        _legend(console, told)
        if not without_figures(found[0]):
            _loads(console, record, found[0])
            _section(console, f"Where a step's time goes at {requests(found[0].decided_load)}")
            steps = step_table(found[0])
            console.print(_table(steps))
            _legend(console, steps)
    if record.proposals:
        _section(console, "Found in the catalog")
        console.print(_hanging("·", proposal_sentence(record), "dim"))
        for proposal in sorted(record.proposals, key=lambda p: not p.taken):
            mark, style = SIDE_MARK["for" if proposal.taken else "neutral"]
            console.print(_hanging(mark, plain(proposal.reason), style, lead=plain(proposal.label)))
    map_table = draft_map_table(record)
    if record.draft_map is not None and map_table is not None:
        _section(console, "What draft would pay here")
        console.print(Text(draft_map_sentence(record.draft_map)))
        console.print(_table(_speeds_only(map_table)))
    if record.per_position:
        _section(console, "Acceptance by position")
        _positions(console, record)
    if record.capacity is not None:
        _section(console, "Capacity")
        console.print(Text(fleet_sentence(record.capacity)))
        for what in TITLES:
            console.print(Text(latency_sentence(record.capacity, what)))
        for words in (rates_said(record.capacity), AT_ITS_OWN_LOAD if record.capacity.arms[1:] else ""):
            if words:
                console.print(_hanging("·", f"{as_sentence(words)}.", "dim"))
        console.print(Text("`specadvise plan` prints the whole.", style="dim"))
    _section(console, "Memory")
    _memory(console, record, nothing_beside(record, found))
    _section(console, "Evidence")
    console.print(_stacked(evidence_table(record, found), 5, console.width))
    if record.assumptions:
        _section(console, "Not stated, and what was taken instead")
        for text in record.assumptions:
            console.print(_hanging("·", plain(text), "dim"))
    _section(console, "vllm.yaml")
    # Never wrapped: it is there to be copied.
    console.print(Text(plain(record.emitted.vllm_yaml, lines=True).rstrip()), soft_wrap=True)
    if record.emitted.env:
        console.print(Text("Variables that cannot live in the file:", style="bold"))
        console.print(Text(env_lines(record)), soft_wrap=True)
    for note in record.emitted.notes:
        console.print(_hanging("·", plain(note), "dim"))
    if record.checklist is not None:
        _section(console, "Checklist")
        console.print(Text(checklist_sentence(record)))
        for item in checklist_items(record):
            style = ALERT_STYLE[item.severity]
            console.print(_hanging("!", f"{item.sentence} {item.remedy}", style, lead=item.title + "."))
    _section(console, "Decided for")
    both = (*workload_table(record).rows, *provenance_table(record).rows)
    console.print(_table(Table(("", ""), both), header=False))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))


def _hanging(mark: str, sentence: str, style: str, text_style: str = "", lead: str = "") -> RichTable:
    """A bullet whose further lines stand under its first word."""
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    body = Text()
    if lead:
        body.append(lead + " ", style="dim")
    body.append(sentence, style=text_style)
    grid.add_row(Text(mark, style=style), body)
    return grid


def _speeds_only(value: Table) -> Table:
    """The map without each cell's k, at every second acceptance length: a terminal has 80 columns."""
    kept = [0, 1, *range(2, len(value.columns), 2)]
    rows = tuple(tuple(row[i].split(" k")[0] if i > 1 else row[i] for i in kept) for row in value.rows)
    return Table(tuple(value.columns[i] for i in kept), rows, frozenset(range(1, len(kept))))


def _card(head: Headline) -> Panel:
    style = VERDICT_STYLE[head.verdict]
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in head.facts:
        grid.add_row(Text(name), Text(value))
    title = Text(head.title.upper(), style=f"bold {style}")
    if head.what:
        title.append(f"  {head.what}", style="bold")
    parts: list[Text | RichTable] = [title, Text(head.meaning), Text("")]
    if head.settle:
        parts[2:2] = [Text.assemble(("What would settle it: ", "bold"), head.settle)]
    return Panel(Group(*parts, grid), box=box.ROUNDED, border_style=style, padding=(0, 1))


def _stacked(value: Table, words: int, width: int) -> Text:
    """A table whose wordy column (`words`) stands on lines of its own under its row, so that numbers keep theirs."""
    numbers = [index for index in range(1, len(value.columns)) if index != words]
    widths, heads = {}, {}
    for index in numbers:
        cell = max((len(row[index]) for row in value.rows), default=0)
        heads[index] = textwrap.wrap(
            value.columns[index], max(cell, *(len(word) for word in value.columns[index].split()))
        )
        widths[index] = max(cell, *(len(line) for line in heads[index]))
    room = max(12, width - sum(size + 2 for size in widths.values()))

    def line(first: str, cells: dict[int, str]) -> str:
        return first.ljust(room) + "".join(
            "  " + (cells[i].rjust(widths[i]) if i in value.right else cells[i].ljust(widths[i])) for i in numbers
        )

    out = Text()
    depth = max((len(lines) for lines in heads.values()), default=1)
    for level in range(depth):
        cells = {i: ([""] * (depth - len(heads[i])) + heads[i])[level] for i in numbers}
        out.append(line(value.columns[0] if level == depth - 1 else "", cells) + "\n", style="dim")
    out.append("─" * min(width, room + sum(size + 2 for size in widths.values())) + "\n", style="dim")
    for index, row in enumerate(value.rows):
        style = "bold" if index in value.strong else ""
        name = textwrap.wrap(row[0], room) or [""]
        for before in name[:-1]:
            out.append(before + "\n", style=style)
        out.append(line(name[-1], {i: row[i] for i in numbers}) + "\n", style=style)
        for below in textwrap.wrap(row[words], width, initial_indent="  ", subsequent_indent="  "):
            out.append(below + "\n", style="dim")
    out.rstrip()
    return out


def _table(value: Table, header: bool = True) -> RichTable:
    """Numbers keep their line; the first column, and the last where it holds words, wrap."""
    table = _frame(header)
    for index, name in enumerate(value.columns):
        right = index in value.right
        words = index == 0 or (not header and not right)
        table.add_column(
            Text(name),
            justify="right" if right else "left",
            no_wrap=False,
            overflow="fold",
            min_width=None if words else max((len(row[index]) for row in value.rows), default=1),
        )
    for index, row in enumerate(value.rows):
        style = "bold" if index in value.strong else ""
        table.add_row(*(Text(cell, style=style) for cell in row))
    return table


def _legend(console: Console, value: Table) -> None:
    """Where a table's figures come from."""
    if value.caption:
        console.print(Text(value.caption, style="dim"))


def _frame(header: bool = True) -> RichTable:
    return RichTable(
        box=box.SIMPLE_HEAD if header else None,
        show_header=header,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0, 0, 1),
        header_style="dim",
    )


def bar(share: float, width: int) -> str:
    """A bar of eighths: `share` of `width` cells, 0..1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")


def _loads(console: Console, record: Record, curve: Curve) -> None:
    """A plot of the chosen k at each load, and every k as a table."""
    gain = percent(record.deployment.objective.worthwhile_gain)
    _section(console, "Speed-up against load")
    console.print(Text(f"{plain(curve.label)}, end to end; 1.00 is break-even, worthwhile is {gain} more", style="dim"))
    for line in load_plot(curve, min(64, console.width)):
        console.print(Text(line))
    console.print(Text("● the chosen k of each load, │ its 80 % interval, ┄ break-even\n", style="dim"))
    value = load_table(record, curve, most=5)
    console.print(_table(value))
    bold = f"; bold is the load decided for, {curve.decided_load}" if value.strong else ""
    console.print(Text(f"{star_words(curve)}; (in brackets) does not fit{bold}", style="dim"))
    _legend(console, value)
    console.print(Text.assemble("Crossover: ", crossover_words(record, curve)))


def _positions(console: Console, record: Record) -> None:
    for label, positions in record.per_position.items():
        console.print(Text(plain(label), style="bold"))
        found = found_words(record, label)
        if found:
            console.print(_hanging("·", f"{found}; by position, of all steps:", "dim", "dim"))
        for index, q in enumerate(positions):
            interval = "" if q.low is None or q.high is None else f"{100 * q.low:.0f}–{100 * q.high:.0f} %"
            n = "" if q.n is None else f"n {q.n:,}"
            drawn = f"{index + 1:>4}  {bar(q.value, 24):<24}  {percent(q.value):>5}  {interval:>9}"
            console.print(Text(f"{drawn}  {n:>9}  {q.source.value}"))


def _memory(console: Console, record: Record, alone: bool) -> None:
    console.print(Text(memory_sentence(record.memory, alone)))
    bars = memory_parts(record.memory, alone)
    if bars:
        whole = max(sum(p.gib for p in parts) for _, parts in bars) or 1.0
        width = 48
        glyph = {"target weights": "█", "draft weights": "▓", "overhead": "▒", "KV cache": "░", "not usable": "·",
                 "not used": "·"}
        for name, parts in bars:
            line = "".join(glyph[p.name] * round(width * p.gib / whole) for p in parts)
            console.print(Text(f"{name:>8} {line}"))
        console.print(Text("         " + "  ".join(f"{glyph[p.name]} {p.name}" for p in bars[-1][1]), style="dim"))
    console.print(_table(memory_table(record.memory, alone)))
    for note in record.memory.notes:
        console.print(_hanging("·", plain(note), "dim"))
