"""From the table and the documents' totals to one `RequestsEvidence`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.requests import figures
from probes.requests.cleaning import clean
from probes.requests.load import Load, load_of
from probes.requests.models import models, only, say_pooled
from probes.requests.plan import Plan
from probes.requests.reading import Reading
from probes.requests.shapes import Format, Statistic, Total, plain
from probes.requests.sources import Source
from profiles.schema import Quantity
from profiles.schema import Source as Origin
from profiles.traffic import LogFile, RequestsEvidence
from profiles.workload import Lengths

if TYPE_CHECKING:
    from probes.requests import Options

_BLOCK_BYTES = 64 << 20
"""Files above it are not read a second time to count prompt blocks."""
COPY = "a copy of an earlier line"
MODELS_NAMED = 10


def evidence_of(reading: Reading, sources: Sequence[Source], forms: Sequence[Format], plans: Sequence[Plan | None],
                options: Options) -> RequestsEvidence:
    """All figures; where a document states totals and holds no rows, its own."""
    table = reading.table
    if options.model is not None:
        only(reading, options.model)
    copies = clean(table, len(sources), reading.note)
    skipped = dict(reading.bad)
    if copies:
        skipped[COPY] = copies
    rows = table.good()
    found = load_of(table, reading.note, _s(options.tpot_ms), _s(options.ttft_ms)) if rows else Load()
    prompt, prompts = figures.lengths(table, "p")
    output, outputs = figures.lengths(table, "o")
    ratio = outputs / prompts if prompts and outputs else None
    total = _together(reading.totals)
    ttft, tpot = figures.mean_of(table, "ttft", ("ttft",), 1000.0, "mean over requests"), figures.tpot_ms(table)
    if rows:
        _say_what_is_of_which(reading, len(sources), {
            "the arrival rate": found.rate_rps is None, "running requests": found.concurrency is None,
            "lengths": prompt is None and output is None, "times to the first token": ttft is None,
            "times per output token": tpot is None})
    if (total.requests and not rows) or (prompt is None and output is None):
        prompt = prompt or _lengths(total.prompt)
        output = output or _lengths(total.output)
        if total.lengths_note and (prompt or output):
            reading.note(total.lengths_note)
        if ratio is None and prompt is not None and output is not None:
            ratio = output.mean / prompt.mean
    if prompt is None and output is None and (rows or total.requests):
        reading.note("no token counts in it: state lengths with --prompt-len and --output-len, or in the deployment")
    ttft, tpot = ttft or _ms(total.ttft, _stated(reading)), tpot or _ms(total.tpot, _stated(reading))
    concurrency = found.concurrency or ({**total.concurrency, "basis": total.concurrency_basis}
                                        if total.concurrency else {"basis": "not in the log"})
    if found.duration_s is not None and "mean" not in concurrency and options.tpot_ms is None and table.has("a"):
        reading.note("the log holds no ends or latencies: running requests follow from a rate only with a time per "
                     "output token (--tpot, and --ttft for the prefill)")
    named = models(reading)
    say_pooled(reading, named)
    for message in _implausible(total.engine):
        reading.note(message)
    text = reading.signals.evidence()
    return RequestsEvidence(
        requests=rows or total.requests,
        skipped=skipped,
        skipped_at={reason: tuple(_bare(one) for one in places) for reason, places in reading.places.items()
                    if places and reading.bad[reason]},
        failed=reading.failed + total.failed,
        files=tuple(LogFile(name=_bare(source.shown), format=form.name, read=reading.lines.get(source.shown, (0, 0))[0],
                            skipped=reading.lines.get(source.shown, (0, 0))[1])
                    for source, form in zip(sources, forms, strict=True)),
        duration_s=found.duration_s if found.duration_s is not None else total.duration,
        arrival_rate_rps=found.rate_rps if found.rate_rps is not None else total.rate,
        arrivals=found.arrivals,
        prompt_tokens=prompt,
        output_tokens=output,
        tokens_from=tokens_from(reading, options),
        output_to_prompt_ratio=ratio,
        joint_lengths=figures.joint_lengths(table) if rows else (),
        decode_time_share=figures.decode_time_share(table) or _decode_share(total),
        ttft_ms=ttft,
        tpot_ms=tpot,
        concurrency={**dict.fromkeys(("mean", "p95", "max")), **concurrency},
        models=tuple(named)[:MODELS_NAMED],
        text=text,
        temperature=figures.temperature(table),
        cached_prompt_share=figures.cached_share(table, prompts) or _blocks_seen(reading, sources, plans),
        engine=dict(total.engine) if total.engine else None,
        notes=tuple(reading.notes),
    )


def _say_what_is_of_which(reading: Reading, files: int, missing: Mapping[str, bool]) -> None:
    """Of several files: which figures are of which, where they are not of all. missing: whether no row gives it."""
    table, rows = reading.table, reading.table.good()
    apart = [one for one in reading.totals if not reading.lines[one.file][0]]
    other = _together(apart)
    documents = ", ".join(dict.fromkeys(_bare(one.file) for one in apart))
    if other.requests:
        reading.note(f"{other.requests:,} requests stand in {documents} as totals alone and are not among the {rows:,} "
                     "counted here: give such documents to a run of their own")
    stated = {"the arrival rate": other.rate, "running requests": other.concurrency,
              "lengths": other.prompt or other.output, "times to the first token": other.ttft,
              "times per output token": other.tpot}
    taken = [words for words, lacks in missing.items() if lacks and stated[words]]
    if taken:
        reading.note(f"{', '.join(taken)}: as {documents} states them; the other figures are of the {rows:,} requests "
                     "of other files")
    for column, words in (("a", "arrival times"), ("p", "prompt tokens"), ("o", "output tokens")):
        known = table.ends(column)[2] if files > 1 and table.has(column) else 0
        if 0 < known < rows:
            reading.note(f"{words} are known of {known:,} of the {rows:,} requests: their figures are of those alone")


def _s(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0


def _ms(seconds: float | None, note: str) -> Quantity | None:
    if seconds is None or seconds < 0:
        return None
    return Quantity(value=seconds * 1000.0, source=Origin.RECORDED, note=note)


def _statistic(totals: Sequence[Total]) -> Statistic:
    known = {one.statistic for one in totals if (one.ttft, one.tpot, one.latency) != (None, None, None)}
    return "median" if known == {"median"} else "mean"


def _stated(reading: Reading) -> str:
    """What a time that documents state is over their requests."""
    statistic, several = _statistic(reading.totals), sum(one.ttft is not None for one in reading.totals) > 1
    if statistic == "mean":
        return "mean over requests, as stated"
    reading.note("latencies are medians over requests: the log states no means, and running requests follow from them")
    return "mean of several documents' medians over requests" if several else "median over requests, as stated"


def _bare(name: str) -> str:
    """A file's name without its folder: paths tell more than they should."""
    return Path(name).name


def _lengths(marks: Mapping[str, float]) -> Lengths | None:
    if not marks.get("mean"):
        return None
    rising, least = {}, 0.0
    for name in ("p50", "p90", "p95", "p99", "max"):
        value = marks.get(name)
        if name == "max" and value is not None:
            # Where a document says otherwise one of the two is wrong, and the mean is what is worked with.
            value = max(value, marks["mean"])
        if value is not None and value > 0:
            least = max(least, value)
            rising[name] = least
    return Lengths(mean=marks["mean"], **rising)


def tokens_from(reading: Reading, options: Options) -> str:
    """Where token counts come from; a note where they are assumed."""
    if not reading.counted:
        return "the log"
    if options.tokenizer is not None:
        return f"the tokenizer {_bare(str(options.tokenizer))}"
    reading.note("token counts are assumed from characters (4 bytes of UTF-8 to a token): name the target's "
                 "tokenizer with --tokenizer for exact ones")
    return "characters"


def _decode_share(total: Total) -> Quantity | None:
    if total.ttft is None or not total.latency:
        return None
    return Quantity(value=min(1.0, max(0.0, 1 - total.ttft / total.latency)), source=Origin.RECORDED,
                    note=f"from {total.statistic} TTFT and {total.statistic} latency")


def _together(totals: Sequence[Total]) -> Total:
    """Documents taken together: counts add up, means are weighted by requests, percentiles need a single one."""
    if len(totals) <= 1:
        return totals[0] if totals else Total()
    weighted = [one for one in totals if one.requests]

    def mean(values: Sequence[tuple[float | None, float]]) -> float | None:
        known = [(value, weight) for value, weight in values if value is not None]
        weight = sum(w for _, w in known)
        return sum(v * w for v, w in known) / weight if weight else None

    # A mean of medians is neither: where any document states means, only those are taken together.
    statistic = _statistic(totals)
    timed = [one for one in totals if one.statistic == statistic]

    def lengths(name: str) -> dict[str, float]:
        if len(weighted) == 1:
            return dict(getattr(weighted[0], name))
        found = mean([(getattr(one, name).get("mean"), one.requests) for one in weighted])
        return {} if found is None else {"mean": found}

    spans = [one.duration for one in totals if one.duration]
    requests = sum(one.requests for one in totals)
    load = mean([(one.concurrency.get("mean"), one.duration or 1.0) for one in totals])
    peaks = [one.concurrency["max"] for one in totals if "max" in one.concurrency]
    engines = [one.engine for one in totals if one.engine]
    concurrency: dict[str, float] = {} if load is None else {"mean": load}
    if peaks:
        concurrency["max"] = max(peaks)
    return Total(
        requests=requests, failed=sum(one.failed for one in totals), duration=sum(spans) if spans else None,
        rate=mean([(one.rate, one.duration or 1.0) for one in totals]),
        prompt=lengths("prompt"), output=lengths("output"),
        ttft=mean([(one.ttft, one.requests) for one in timed]),
        tpot=mean([(one.tpot, one.requests) for one in timed]),
        latency=mean([(one.latency, one.requests) for one in timed]), statistic=statistic, concurrency=concurrency,
        lengths_note=next((one.lengths_note for one in totals if one.lengths_note), ""),
        concurrency_basis=next((one.concurrency_basis for one in totals if one.concurrency_basis), "")
        + (" (several documents, weighted by their durations)" if load is not None and len(spans) > 1 else ""),
        models=tuple(dict.fromkeys(name for one in totals for name in one.models)),
        engine=_engines(engines),
    )


def _engines(engines: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if len(engines) <= 1:
        return engines[0] if engines else None
    return {"several": [dict(one) for one in engines]}


def _implausible(engine: Mapping[str, Any] | None) -> list[str]:
    """What is wrong with the counts of speculation, of each document."""
    each = (engine or {}).get("several", [engine or {}])
    return [message for one in each for message in ((one.get("speculation") or {}).get("implausible") or ())]


def _blocks_seen(reading: Reading, sources: Sequence[Source], plans: Sequence[Plan | None]) -> Quantity | None:
    """Share of prompt blocks that an earlier request had too, where a trace names its blocks."""
    from probes.requests.database import named, quoted
    from probes.requests.formats.mooncake import BLOCKS

    parts = [(source, plan) for source, plan in zip(sources, plans, strict=True)
             if plan is not None and plan.head.has(BLOCKS) and plan.head.container == "jsonl"]
    if not parts:
        return None
    if sum(source.size for source, _ in parts) > _BLOCK_BYTES:
        reading.note("prompt blocks seen before are counted for traces up to 64 MiB only: this one is larger")
        return None
    one = reading.table.database
    names = [plan.head.keys[plain(BLOCKS)][0] for _, plan in parts]
    readers = " UNION ALL ".join(
        f"SELECT {i} AS f, unnest({named(name)}) AS b FROM read_ndjson({quoted(str(source.path))}, ignore_errors=true, "
        f"columns={{{quoted(name)}: 'BIGINT[]'}}"
        + ("" if source.compression == "none" else f", compression={quoted(source.compression)}") + ")"
        for i, ((source, _), name) in enumerate(zip(parts, names, strict=True)))
    total, distinct = one.one(f"SELECT count(b), count(DISTINCT (f, b)) FROM ({readers}) WHERE b IS NOT NULL")
    if not total:
        return None
    return Quantity(value=1 - distinct / total, n=total, source=Origin.RECORDED,
                    note="prompt blocks that an earlier request had too: what an unbounded prefix cache would hold")
