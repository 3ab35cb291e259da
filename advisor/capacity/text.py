"""The plan for a terminal: the answer first, then where it comes from."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from advisor.capacity.document import ArmPlan, CapacityPlan, Variant
from advisor.capacity.words import AT_ITS_OWN_LOAD, ShortNames, full_name, short_names, why_k
from advisor.record import whole_requests
from advisor.report.wording import count, number, percent, plain
from profiles.schema import counted

_SHOWN_GROWTH = (1.0, 2.0, 5.0, 10.0)
_LIMIT_WORDS = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "throughput": "throughput: beyond, the queue grows",
    "slo unreachable": "no rate meets the SLOs",
}


def render_plan(plan: CapacityPlan, *, width: int = 100, color: bool = False) -> str:
    """Text of `width` columns (80 at least); ANSI sequences only with `color`."""
    names = short_names(plan)
    stream = io.StringIO()
    console = Console(file=stream, width=max(80, width), force_terminal=color, no_color=not color,
                      color_system="standard" if color else None, markup=False, highlight=False, emoji=False,
                      legacy_windows=False, _environ={})
    console.print(Text(plain(_title(plan)), style="bold"))
    console.print(Text(plain(_traffic(plan)), style="dim"))
    for part in plan.abstained:
        console.print(Text(plain(f"! {part.about}: not answered, because {part.why}. What would: {part.would_settle}."),
                           style="yellow"))
    for warning in plan.warnings:
        console.print(Text(plain(f"! {warning}."), style="yellow"))
    if plan.arms:
        for sentence in _answer(plan):
            console.print(Text(plain(sentence)))
        _lines(console, names.legend)
        _section(console, "One replica")
        for block in _blocks(plan.arms, (console.width - 59) // 20):
            _part(console, _arms_table(plan, block, names), block, plan.arms)
        _section(console, "Against the arrival rate of one replica")
        console.print(_curve_table(plan, names))
        if plan.arms[1:]:
            _lines(console, (AT_ITS_OWN_LOAD,))
        _section(console, "The fleet")
        _fleets(console, plan, names)
        _section(console, "Requests at once, by context")
        for block in _blocks(plan.arms, (console.width - 29) // 13):
            _part(console, _context_table(block, names), block, plan.arms)
        hurts = [line for arm in plan.arms if arm.role != "null" for line in _hurt(arm)]
        if hurts:
            _section(console, "Which k, and where speculation starts to hurt")
            _lines(console, hurts)
    if plan.what_if:
        _section(console, "What if")
        console.print(_variants_table(plan, names))
        _lines(console, [f"{v.change}: {note}" for v in plan.what_if
                         for note in (*v.notes, *(f"{a.about}: {a.why}" for a in v.abstained))])
    _section(console, "Not stated, and what was taken instead")
    _lines(console, plan.assumptions or ("nothing",))
    _section(console, "Rests on")
    _lines(console, (f"step times: {plan.cost_source}", f"price: {plan.price}",
                     f"a simulation of continuous batching, seed {plan.seed}; the rates at the top are those of all "
                     "replicas together, which share them evenly",
                     "intervals are 80 %: what step time and acceptance may be off by"))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def _part(console: Console, table: Table, block: Sequence[ArmPlan], arms: Sequence[ArmPlan]) -> None:
    """One of several tables, an empty line between them."""
    if block[1:] != arms[1 : len(block)]:
        console.print()
    console.print(table)


def _lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Text(plain(f"· {line}"), style="dim"))


def _title(plan: CapacityPlan) -> str:
    gpus = f"{plan.gpus_per_replica} x " if plan.gpus_per_replica > 1 else ""
    return f"{plan.target} on {gpus}{plan.gpu}, vLLM {plan.vllm_version}"


def _traffic(plan: CapacityPlan) -> str:
    traffic = plan.traffic
    parts = [f"{traffic.prompt_tokens:.0f} prompt and {traffic.output_tokens:.0f} output tokens"]
    if traffic.usual_rate_rps is not None:
        parts.append(f"{_rate(traffic.usual_rate_rps)} requests/s")
    if traffic.peak_rate_rps is not None:
        parts.append(f"{_rate(traffic.peak_rate_rps)} at the peak")
    if traffic.prefix_cache_hit_rate:
        parts.append(f"{percent(traffic.prefix_cache_hit_rate)} of prompts cached")
    slos = [f"TTFT <= {number(plan.ttft_ms)} ms"] if plan.ttft_ms is not None else []
    slos += [f"TPOT <= {number(plan.tpot_ms)} ms"] if plan.tpot_ms is not None else []
    parts.append("SLOs (means): " + ", ".join(slos) if slos else "no SLO stated")
    return "; ".join(parts)


def _rate(value: float) -> str:
    return f"{value:.3g}"


def _money(value: float | None) -> str:
    if value is None:
        return "–"
    return f"${value:,.0f}" if value >= 100 else f"${value:.3g}"


def _answer(plan: CapacityPlan) -> list[str]:
    """The answer in sentences: GPUs and money at the peak, with and without."""
    null = plan.arms[0]
    chosen = next((arm for arm in plan.arms if arm.role in ("recommended", "undecided")), None)
    sentences = []
    if not plan.decided:
        sentences.append("Whether speculation pays is not decided: both answers are below.")
    elif chosen is None:
        sentences.append("Speculation is off in the advice.")
    for arm in (null, *([chosen] if chosen is not None else [])):
        if not arm.fleets:
            if arm.limited_by == "slo unreachable":
                sentences.append(f"{full_name(arm)}: no arrival rate meets the SLOs on this hardware.")
            continue
        fleet = arm.fleets[0]
        spread = "" if fleet.replicas_low == fleet.replicas_high else (
            f" ({fleet.replicas_low} to {fleet.replicas_high})")
        gpus = "" if fleet.gpus == fleet.replicas else f" ({fleet.gpus} GPUs)"
        cost = "" if fleet.usd_per_month is None else f", {_money(fleet.usd_per_month)} a month"
        word, whose = ("replica serves", "its") if fleet.replicas == 1 else ("replicas serve", "their")
        sentences.append(f"{full_name(arm)}: {fleet.replicas}{spread} {word} the peak{gpus}{cost}; "
                         f"{percent(fleet.headroom)} of {whose} highest rate is left.")
    return sentences


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, column in enumerate(columns):
        # An arm's name is never broken: it is what a row is found by.
        arm = column in ("", "with") and i > 0
        table.add_column(column, justify="left" if i == 0 or arm else "right", overflow="fold", no_wrap=arm)
    return table


def _blocks(arms: Sequence[ArmPlan], most: int) -> Iterator[tuple[ArmPlan, ...]]:
    """The arms in parts of so many columns that they can be read, no speculation beside each part."""
    null, others = arms[0], arms[1:]
    most = max(1, most)
    for begin in range(0, max(1, len(others)), most):
        yield (null, *others[begin : begin + most])


def _arms_table(plan: CapacityPlan, arms: Sequence[ArmPlan], names: ShortNames) -> Table:
    table = _table(("", *(names.of(arm) for arm in arms)))

    def row(title: str, cells: Iterable[str]) -> None:
        table.add_row(title, *cells)

    row("advice", (arm.role if arm.role != "null" else ("recommended" if plan.recommended == "none" and plan.decided
                                                        else "–") for arm in arms))
    row("highest rate, requests/s", (
        f"{_rate(arm.highest_rate_rps.value)} ({_rate(arm.highest_rate_rps.low or 0.0)} to "
        f"{_rate(arm.highest_rate_rps.high or 0.0)})" for arm in arms))
    row("limited by", (_LIMIT_WORDS[arm.limited_by] for arm in arms))
    row("saturates at, requests/s", (_rate(arm.saturation_rate_rps) for arm in arms))
    row("  by mean values alone", (_rate(arm.saturation_bound_rps) for arm in arms))
    row("tokens per step", (f"{arm.acceptance_length.value:.2f}" for arm in arms))
    row("TTFT and TPOT at the peak, ms", (
        "–" if arm.at_peak is None else f"{number(arm.at_peak.ttft_ms)} and {number(arm.at_peak.tpot_ms)}"
        for arm in arms))
    row("KV cache, tokens", (number(arm.kv_tokens) for arm in arms))
    row("KV left at the peak, all of p95 length", (percent(arm.kv_headroom_at_p95) for arm in arms))
    row("$ per million output tokens, full", (_money(arm.usd_per_million_output_tokens) for arm in arms))
    return table


def _curve_table(plan: CapacityPlan, names: ShortNames) -> Table:
    preempts = any(point.preemptions_per_request > 0 for arm in plan.arms for point in arm.curve)
    columns = ("rate/s", "", "TTFT ms", "p95", "TPOT ms", "p95", "tokens/s", "running")
    table = _table((*columns, "preempted") if preempts else columns)
    rates = sorted({point.arrival_rate_rps for arm in plan.arms for point in arm.curve})
    for rate in rates:
        shown = _rate(rate)
        for arm in plan.arms:
            point = next((p for p in arm.curve if p.arrival_rate_rps == rate), None)
            if point is None:
                continue
            cells = [_against(point.ttft_ms, plan.ttft_ms), number(point.ttft_p95_ms),
                     _against(point.tpot_ms, plan.tpot_ms), number(point.tpot_p95_ms)]
            if not point.sustained:
                cells = ["queue", "grows", "–", "–"]
            cells += [number(point.output_tokens_per_s), number(point.running)]
            table.add_row(shown, names.of(arm), *cells,
                          *([percent(point.preemptions_per_request)] if preempts else []))
            shown = ""
    return table


def _against(value: float, limit: float | None) -> str:
    return number(value) + ("!" if limit is not None and value > limit else "")


def _fleets(console: Console, plan: CapacityPlan, names: ShortNames) -> None:
    if not any(arm.fleets for arm in plan.arms):
        console.print(Text("not answered, see above", style="dim"))
        return
    table = _table(("times\nthe peak", "", "replicas", "GPUs", "a month", "$ a million\ntokens, usual", "left free"))
    for growth in _SHOWN_GROWTH:
        shown = f"{growth:g}"
        for arm in plan.arms:
            fleet = next((f for f in arm.fleets if f.growth == growth), None)
            if fleet is None:
                continue
            spread = "" if fleet.replicas_low == fleet.replicas_high else (
                f" ({fleet.replicas_low}-{fleet.replicas_high})")
            table.add_row(shown, names.of(arm), f"{fleet.replicas}{spread}", number(fleet.gpus),
                          _money(fleet.usd_per_month), _money(fleet.usd_per_million_output_tokens),
                          percent(fleet.headroom))
            shown = ""
    console.print(table)


def _context_table(arms: Sequence[ArmPlan], names: ShortNames) -> Table:
    table = _table(("context", "tokens", *(names.of(arm) for arm in arms)))
    for i, room in enumerate(arms[0].contexts):
        table.add_row(room.percentile, number(room.context_tokens), *(
            count(whole_requests(arm.contexts[i].max_concurrency)) for arm in arms))
    return table


def _hurt(arm: ArmPlan) -> list[str]:
    name = full_name(arm)
    lines = [f"{name}: {why_k(arm)}"]
    if arm.hurts_from_running is None and arm.hurts_from_rate_rps is None:
        lines.append(f"{name}: hurts at no load that was looked at")
    if arm.hurts_from_running is not None:
        lines.append(f"{name}: no k gains from {counted(arm.hurts_from_running, 'running request')} on")
    if arm.hurts_from_rate_rps is not None:
        lines.append(f"{name}: requests take longer than without it from {_rate(arm.hurts_from_rate_rps)} requests/s "
                     "of one replica on")
    return lines


def _variants_table(plan: CapacityPlan, names: ShortNames) -> Table:
    table = _table(("", "with", "highest\nrate/s", "replicas", "GPUs", "a month", "a million\ntokens"))
    here = Variant(change="as stated", recommended=plan.recommended, arms=plan.arms,
                   gpus_per_replica=plan.gpus_per_replica, price=plan.price)
    for variant in (here, *plan.what_if):
        if not variant.arms:
            table.add_row(plain(variant.change), "not answered", *("–",) * 5)
        for i, arm in enumerate(variant.arms):
            fleet = arm.fleets[0] if arm.fleets else None
            table.add_row(
                plain(variant.change) if i == 0 else "", names.of(arm), _rate(arm.highest_rate_rps.value),
                "–" if fleet is None else number(fleet.replicas), "–" if fleet is None else number(fleet.gpus),
                _money(fleet.usd_per_month if fleet is not None else None), _money(arm.usd_per_million_output_tokens),
            )
    return table
