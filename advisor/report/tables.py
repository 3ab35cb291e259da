"""The tables of a report as plain values: the same rows for the terminal, markdown and HTML."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.record import Memory, Priced, Record
from advisor.report.candidate_verdict import why
from advisor.report.curves import Curve, stated, without_figures
from advisor.report.wording import (
    SourceMarks,
    alike,
    chance_words,
    count,
    gib,
    number,
    percent,
    plain,
    span,
    spans,
    times,
    worthwhile,
)
from advisor.spoken_figures import drafts_found, source_said
from profiles.schema import Source
from profiles.workload import Lengths


@dataclass(frozen=True)
class Table:
    """A table of texts. Numbers are in the columns named by `right`, and stand right-aligned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()
    """Rows to stress."""
    caption: str = ""


@dataclass(frozen=True)
class Part:
    """One piece of a bar: its name, size, and whether it is what is left over for KV cache."""

    name: str
    gib: float


def load_table(record: Record, curve: Curve, most: int = 6) -> Table:
    """End-to-end speed-up by load (rows) and k (columns), the k chosen at each load starred, its interval last."""
    ks = curve.shown_ks(most)
    shown = [cell for load in curve.loads for k in ks if (cell := curve.at(load, k)) is not None]
    marks = SourceMarks((cell.speedup.source, cell.from_trial) for cell in shown)
    rows = []
    for load in curve.loads:
        best = curve.best(load)
        cells = []
        for k in ks:
            cell = curve.at(load, k)
            star = "*" if best is not None and cell is best else ""
            mark = "" if cell is None else marks.of(cell.speedup.source, cell.from_trial, star)
            cells.append(
                "–"
                if cell is None
                else f"{cell.speedup.value:.2f}{mark}"
                if cell.fits
                else f"({cell.speedup.value:.2f}){mark}"
            )
        last = (
            ("–", "–", "–")
            if best is None
            else (str(best.k), span(best.speedup.low, best.speedup.high), percent(best.probability_of_gain))
        )
        rows.append((count(load), *(c.rstrip() if c == "–" else c for c in cells), *last))
    strong = frozenset(i for i, load in enumerate(curve.loads) if load == curve.decided_load)
    columns = ("load", *(f"k={k}" for k in ks), "chosen k", "80 % interval", chance_words(record))
    return Table(columns, tuple(rows), frozenset(range(len(columns))), strong, marks.legend)


def star_words(curve: Curve) -> str:
    """What the star of the load table means, and why it is not always at the largest figure."""
    why = (": not always the largest figure, since the low end of the interval counts as well, and of two that are no "
           "more than noise apart the smaller k verifies less in vain" if curve.passes_over else "")
    return f"* the k that would be chosen were this the usual load{why}"


def load_details(record: Record, curve: Curve) -> Table:
    """Every (load, k) priced for a candidate: the table behind the chart."""
    rows = tuple(
        (
            count(p.running),
            str(p.k),
            times(p.speedup.value),
            span(p.speedup.low, p.speedup.high),
            times(p.decode_speedup.value),
            f"{p.acceptance_length.value:.2f}",
            f"{p.step_ms.value:.2f}",
            f"{p.tpot_ms.value:.2f}",
            count(p.tokens_per_s.value),
            percent(p.probability_of_gain),
            source_said(p.speedup.source, p.from_trial),
        )
        for _, p in sorted(curve.cells.items())
    )
    columns = (
        "load",
        "k",
        "speed-up",
        "80 % interval",
        "decode alone",
        "acceptance length",
        "step ms",
        "ms per token with waits",
        "tokens/s",
        chance_words(record),
        "source",
    )
    head = curve.headline
    strong = frozenset(i for i, (_, p) in enumerate(sorted(curve.cells.items())) if p is head)
    return Table(columns, rows, frozenset(range(10)), strong)


def candidate_table(record: Record, found: tuple[Curve, ...]) -> Table:
    """Each candidate at the decided load with the k chosen for it, and why it is not the one advised. A candidate that
    cannot run, or fits at no k, has no figures."""
    advised = next((curve.headline for curve in found if curve.chosen), None) if record.decision.enable else None
    told = [(curve, cell, spoken) for curve in found
            if (cell := curve.headline) is not None and (spoken := stated(record, curve)) is not None]
    shown = [(curve, cell, spoken) for curve, cell, spoken in told if not without_figures(curve)]
    null = [p for p in record.candidates if p.candidate.method == "none" or p.k == 0]
    near = min(null, key=lambda p: abs(p.running - record.decision.running), default=None)
    intervals = iter(spans([(spoken.low, spoken.high) for _, _, spoken in shown], worthwhile(record)))
    marks = SourceMarks((cell.speedup.source, cell.from_trial) for _, cell, _ in shown)
    rates = iter(alike([cell.tokens_per_s.value for _, cell, _ in shown]
                       + ([] if near is None else [near.tokens_per_s.value])))
    rows: list[tuple[str, ...]] = []
    strong = set()
    for curve, cell, spoken in told:
        reason = why(record, curve, cell, spoken.value, advised)
        if without_figures(curve):
            rows.append((plain(curve.label), *["–"] * 6, reason))
            continue
        if curve.chosen and record.decision.enable:
            strong.add(len(rows))
        speed = times(spoken.value) + marks.of(cell.speedup.source, cell.from_trial)
        rows.append((plain(curve.label), str(cell.k), speed, next(intervals), percent(spoken.chance),
                     f"{cell.acceptance_length.value:.2f}", next(rates), reason + _basis(found, cell)))
    if not record.decision.enable:
        strong.add(len(rows))
    verdict: dict[bool | None, str] = {
        False: "advised", None: "kept until settled", True: "what the others are measured against"}
    one = "1.00×".ljust(5 + len(marks.of(Source.MEASURED)))
    rows.append(("no speculation", "–", one, "–", "–", "1.00", next(rates, "–"), verdict[record.decision.enable]))
    columns = ("candidate", "k", "speed-up", "80 % interval", chance_words(record), "tokens per step", "tokens/s",
               "verdict")
    return Table(columns, tuple(rows), frozenset({1, 2, 3, 4, 5, 6}), frozenset(strong), marks.legend)


def _basis(found: tuple[Curve, ...], cell: Priced) -> str:
    """That a candidate's figures rest on steps timed one by one, where those beside it rest on a paired comparison."""
    if cell.unpaired_speedup is not None or not cell.rests_on_trial:
        return ""
    compared = any(other is not None and other.unpaired_speedup is not None
                   for curve in found if (other := curve.headline) is not cell)
    return "; by its steps alone, not compared in pairs" if compared else ""


def position_table(record: Record) -> Table:
    """Per-position acceptance (unconditional) of each candidate, with its interval; of lookups the share of those steps
    that find a draft beside it."""
    rows: list[tuple[str, ...]] = []
    apart = any(label in record.matched_shares for label in record.per_position)
    for label, positions in record.per_position.items():
        matched = record.matched_shares.get(label, 1.0)
        for index, q in enumerate(positions):
            within = (percent(min(1.0, q.value / matched)) if matched > 0 else "–",) if apart else ()
            n = count(q.n) if q.n is not None else "–"
            rows.append((plain(label), str(index + 1), percent(q.value), _share_span(q.low, q.high), *within, n,
                         q.source.value))
    columns = ("candidate", "position", "accepted, of all steps" if apart else "accepted", "80 % interval",
               *(("of steps with a draft",) if apart else ()), "n", "source")
    return Table(columns, tuple(rows), frozenset(range(1, len(columns) - 1)) if rows else frozenset())


def found_words(record: Record, label: str) -> str:
    """How often a lookup finds a draft, and how far those drafts are accepted; empty of what always drafts."""
    positions = record.per_position.get(label)
    if label not in record.matched_shares or not positions:
        return ""
    return drafts_found(record.matched_shares[label], positions[0].value)


def _share_span(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{100 * low:.0f}–{100 * high:.0f} %"


def step_table(curve: Curve) -> Table:
    """Where the time of one engine step goes at the decided load, for each k, beside a step without speculation."""
    rows: list[tuple[str, ...]] = []
    cells = [c for k in curve.shown_ks(8) if (c := curve.at(curve.decided_load, k)) is not None]
    marks = SourceMarks((of.source, c.from_trial) for c in cells for of in (c.baseline_step_ms, c.step_ms))
    if cells:
        base = cells[0].baseline_step_ms
        mark = marks.of(base.source, cells[0].from_trial)
        rows.append(("without", "–", f"{base.value:.2f}", "–", f"{base.value:.2f}{mark}", "1.00", f"{base.value:.2f}"))
    for cell in cells:
        per_token = (
            cell.step_ms.value / cell.acceptance_length.value if cell.acceptance_length.value > 0 else float("inf")
        )
        rows.append(
            (
                f"k={cell.k}",
                f"{cell.draft_ms:.2f}",
                f"{cell.verify_ms:.2f}",
                f"{cell.overhead_ms:.2f}",
                f"{cell.step_ms.value:.2f}{marks.of(cell.step_ms.source, cell.from_trial)}",
                f"{cell.acceptance_length.value:.2f}",
                f"{per_token:.2f}",
            )
        )
    head = curve.headline
    strong = frozenset(i + 1 for i, cell in enumerate(cells) if cell is head)
    columns = ("step", "draft ms", "verify ms", "overhead ms", "step ms", "tokens per step", "step ms per token")
    return Table(columns, tuple(rows), frozenset(range(1, 7)), strong, marks.legend)


def _loaded(memory: Memory) -> float | None:
    """Overhead with speculation; the plain one where no other is known."""
    return memory.overhead_with_gib if memory.overhead_with_gib is not None else memory.overhead_gib


def memory_parts(memory: Memory, alone: bool = False) -> tuple[tuple[str, tuple[Part, ...]], ...]:
    """The memory bar of one GPU without and with the draft, in GiB; empty where too little is known for one. `alone`:
    no candidate can run, so there is no bar with one."""
    bars = []
    for name, draft, overhead, tokens, per_token, kv_gib in (
        ("without", 0.0, memory.overhead_gib or 0.0, memory.kv_tokens_without, memory.kv_bytes_per_token_target,
         memory.kv_gib_without),
        (
            "with",
            memory.draft_weights_gib,
            _loaded(memory) or 0.0,
            memory.kv_tokens_with,
            memory.kv_bytes_per_token_target + memory.kv_bytes_per_token_draft,
            memory.kv_gib_with,
        ),
    ):
        used = memory.target_weights_gib + draft + overhead
        if kv_gib is not None:
            room = kv_gib
        elif memory.usable_gib is not None:
            # A record written before it was kept.
            room = max(0.0, memory.usable_gib - used)
        elif tokens is not None:
            room = tokens * per_token / 2**30
        else:
            return ()
        parts = [Part("target weights", memory.target_weights_gib)]
        if memory.draft_weights_gib:
            parts.append(Part("draft weights", draft))
        parts += [Part("overhead", overhead), Part("KV cache", room)]
        if memory.gpu_memory_gib is not None and memory.usable_gib is not None:
            # The rest stays free where the KV cache is stated smaller than what is left.
            parts.append(Part("not usable" if not memory.kv_stated_by else "not used",
                              max(0.0, memory.gpu_memory_gib - used - room)))
        bars.append((name, tuple(parts)))
    return tuple(bars[:1] if alone else bars)


def memory_table(memory: Memory, alone: bool = False) -> Table:
    """Memory of one GPU without and with the draft; `alone`: no candidate can run, so there is no column with one."""
    parts = {name: {p.name: p.gib for p in bar} for name, bar in memory_parts(memory)}
    without, with_ = parts.get("without", {}), parts.get("with", {})
    per = memory.kv_bytes_per_token_target / 1024
    per_both = per + memory.kv_bytes_per_token_draft / 1024
    rows: tuple[tuple[str, ...], ...] = (
        ("target weights", gib(memory.target_weights_gib), gib(memory.target_weights_gib)),
        ("draft weights", "–", gib(memory.draft_weights_gib) if memory.draft_weights_gib else "none"),
        ("overhead (activations, graphs, runtime)", gib(memory.overhead_gib), gib(_loaded(memory))),
        ("room for KV cache", gib(without.get("KV cache")), gib(with_.get("KV cache"))),
        ("KV cache per token", f"{number(per)} KiB", f"{number(per_both)} KiB"),
        ("KV cache in tokens", count(memory.kv_tokens_without), count(memory.kv_tokens_with)),
        (
            "requests of mean length at once",
            count(memory.requests_without),
            count(memory.requests_with),
        ),
    )
    if memory.window is not None:
        rows += (("longest request that fits alone", count(memory.max_model_len_without),
                  count(memory.max_model_len_with)),)
        if memory.write_max_model_len_with or memory.write_max_model_len_without:
            rows += (("max-model-len that a config has to state", count(memory.write_max_model_len_without),
                      count(memory.write_max_model_len_with)),)
    if alone:
        return Table(("per GPU", "without speculation"), tuple(row[:2] for row in rows if row[0] != "draft weights"),
                     frozenset({1}))
    return Table(("per GPU", "without", "with speculation"), rows, frozenset({1, 2}))


def memory_sentence(memory: Memory, alone: bool = False) -> str:
    """Whether it fits and what it costs, in one sentence; `alone`: no candidate can run."""
    if alone:
        fits = {None: "Whether the target fits is not known", True: "The target fits", False: "The target does not fit"}
        beside = "" if memory.target_fits is False else "; no candidate can run beside it"
        return f"{fits[memory.target_fits]}{beside} ({memory.source.value})."
    verdict = {None: "Whether it fits is not known", True: "It fits", False: "It does not fit"}[memory.fits]
    if memory.kv_tokens_without and memory.kv_tokens_with is not None:
        lost = 1 - memory.kv_tokens_with / memory.kv_tokens_without
        tokens = f"{count(memory.kv_tokens_without)} to {count(memory.kv_tokens_with)} tokens"
        verdict += f": room for KV cache goes from {tokens} ({'−' if lost >= 0 else '+'}{percent(abs(lost))})"
    return f"{verdict} ({memory.source.value})."


def provenance_table(record: Record) -> Table:
    """What was decided for, so that drift can be noticed."""
    p = record.provenance
    target = record.deployment
    rows = [
        ("target", _model_words(p.target.id, p.target.revision, p.target.config_hash, p.target.origin)),
        *(("draft", _model_words(d.id, d.revision, d.config_hash, d.origin)) for d in p.drafts),
        ("engine", f"vLLM {p.vllm_version}, runner {p.runner}, tensor parallel {target.engine.tensor_parallel_size}"),
        ("hardware", f"{p.gpu_count} × {p.gpu}" if p.gpu_count else p.gpu),
        ("step times", p.cost_source),
        ("written", f"{p.created_at} by specadvise {p.tool_version}, record schema {record.schema_version}"),
    ]
    return Table(("what", "value"), tuple((name, plain(value)) for name, value in rows))


def _model_words(id: str, revision: str | None, config_hash: str | None, origin: str) -> str:
    parts = [id + (f" @ {revision}" if revision else "")]
    if config_hash:
        parts.append(f"config sha256 {config_hash[:12]}")
    if origin:
        parts.append(f"shape from {origin}")
    return "; ".join(parts)


_UNSTATED_HEAT = {"assumed": "between 0 and 1", "as in the trial": "0"}
_UNSTATED_TEXT = {"assumed": "anything between creative writing and code", "as in the trial": "the trial's"}
"""What is priced where nobody stated it, by where it comes from."""


def workload_table(record: Record) -> Table:
    """The traffic the advice is for, each figure with where it comes from."""
    w, sources = record.workload or record.deployment.workload, record.workload_sources

    def told(words: str, field: str) -> str:
        return f"{words} ({plain(sources[field])})" if field in sources else words

    if w.concurrency is not None:
        load = told(f"{number(w.concurrency)} running request{'' if w.concurrency == 1 else 's'}", "concurrency")
        if w.concurrency_p95:
            load += ", " + told(f"{number(w.concurrency_p95)} in the busy hour", "concurrency_p95")
    else:
        load = (told(f"{number(w.arrival_rate_rps)} requests per second over all replicas", "arrival_rate_rps")
                if w.arrival_rate_rps is not None else "not stated")
    tasks = ", ".join(
        f"{task.value.replace('_', ' ')} {percent(share)}"
        for task, share in sorted(w.tasks.items(), key=lambda item: -item[1])
    )
    heat = _UNSTATED_HEAT.get(sources.get("sampling", "")) or (
        number(w.sampling.temperature) if w.temperature_stated else "not stated")
    text = _UNSTATED_TEXT.get(sources.get("tasks", "")) or (tasks if w.tasks_stated else "not stated")

    def tokens(lengths: Lengths | None, field: str) -> str:
        return told(f"{number(lengths.mean)} tokens on average", field) if lengths else "not stated"

    rows = [
        ("load", load),
        ("prompt", tokens(w.prompt_tokens, "prompt_tokens")),
        ("output", tokens(w.output_tokens, "output_tokens")),
        ("tasks", told(text, "tasks")),
        ("sampling", f"{told(f'temperature {heat}', 'sampling')}, top_p {number(w.sampling.top_p)}"),
    ]
    if w.structured_output_share:
        rows.append(("structured output", told(percent(w.structured_output_share), "structured_output_share")))
    if w.prefix_cache_hit_rate:
        rows.append(("prompt tokens found in the prefix cache",
                     told(percent(w.prefix_cache_hit_rate), "prefix_cache_hit_rate")))
    return Table(("workload", "decided for"), tuple(rows))
