"""Results of `vllm bench serve` and its relatives (SGLang's, TensorRT-LLM's, InferenceX's): totals, and every request
where --save-detailed was given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from probes.requests.shapes import (
    Bad,
    Found,
    Head,
    Note,
    RecordFormat,
    Row,
    Statistic,
    Total,
    nothing_succeeded,
    number,
)
from probes.requests.speculation import shares, speculation

_MARK = {"total_input_tokens", "total_output_tokens"}
_E2E = ("e2el", "e2e_latency")
_PERCENT = 0.01


def _recognises(head: Head) -> bool:
    return bool(head.first()) and set(head.first()) >= _MARK and bool({"duration", "completed"} & set(head.first()))


def _seconds(document: Mapping[str, Any], statistic: Statistic, *names: str) -> float | None:
    """A latency in seconds; keys without `_ms` are seconds (InferenceX)."""
    for what in names:
        if (value := number(document.get(f"{statistic}_{what}_ms"))) is not None:
            return value / 1e3
        if (value := number(document.get(f"{statistic}_{what}"))) is not None:
            return value
    return None


def _detailed(document: Mapping[str, Any]) -> Iterator[Row | Bad]:
    prompts, outputs = document.get("input_lens"), document.get("output_lens")
    if not isinstance(prompts, list) or not isinstance(outputs, list):
        return
    ttfts, itls, errors, starts = (found if isinstance(found := document.get(name), list) else []
                                   for name in ("ttfts", "itls", "errors", "start_times"))
    for i, (prompt, output) in enumerate(zip(prompts, outputs, strict=False)):
        gaps = itls[i] if i < len(itls) and isinstance(itls[i], list) else []
        ttft = number(ttfts[i]) if i < len(ttfts) else None
        spent = sum(filter(None, map(number, gaps)))
        start = number(starts[i]) if i < len(starts) else None
        if number(prompt) is None or number(output) is None:
            yield Bad("a length is not a number")
            continue
        yield Row(
            arrival=start, prompt=number(prompt), output=number(output), ttft=ttft,
            latency=None if ttft is None else ttft + spent,
            # Gaps are between chunks, which hold several tokens under speculation.
            tpot=spent / (float(output) - 1) if gaps and float(output) > 1 else None,
            failed=bool(i < len(errors) and errors[i]), model=_model(document),
        )


def _model(document: Mapping[str, Any]) -> str | None:
    return str(document["model_id"]) if document.get("model_id") else None


def _total(document: Mapping[str, Any]) -> Total:
    model = _model(document)
    models = () if model is None else (model,)
    done = int(number(document.get("completed", document.get("num_prompts"))) or 0)
    failed = int(number(document.get("failed")) or 0)
    if not done:
        return nothing_succeeded(failed, models)
    duration = number(document.get("duration"))
    sums = {name: number(document.get(f"total_{name}_tokens")) or 0.0 for name in ("input", "output")}
    output = sums["output"] / done
    # Some state medians only. A median is no mean: it keeps its name, also in what is worked out from it.
    statistic: Statistic = "mean" if _seconds(document, "mean", "ttft", "tpot", *_E2E) is not None else "median"
    ttft, tpot = _seconds(document, statistic, "ttft"), _seconds(document, statistic, "tpot")
    latency = _seconds(document, statistic, *_E2E)
    basis = f"Little's law: requests times {statistic} latency over the duration"
    if latency is None and ttft is not None and tpot is not None:
        latency = ttft + max(0.0, output - 1) * tpot
        basis = (f"Little's law: requests times ({statistic} TTFT + output tokens times {statistic} TPOT) over the "
                 "duration")
    load = done * latency / duration if done and latency and duration else None
    limit = number(document.get("max_concurrency"))
    named = {} if load is None else {"mean": min(load, limit) if limit else load}
    if named and limit:
        named["max"] = limit
    notes = [f"{name.replace('_', ' ')}: {document[name]}" for name in ("request_rate",) if document.get(name)]
    return Total(
        requests=done, failed=failed, duration=duration,
        rate=number(document.get("request_throughput")) or (done / duration if done and duration else None),
        prompt={"mean": sums["input"] / done}, output={"mean": output},
        ttft=ttft, tpot=tpot, latency=latency, statistic=statistic, concurrency=named,
        concurrency_basis=basis if named else "", models=models, notes=tuple(notes), engine=_speculation(document),
    )


def _speculation(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Rates are percent in this document, those by position fractions."""
    def value(*names: str) -> float | None:
        return next((v for name in names if (v := number(document.get(name))) is not None), None)

    rate = value("spec_decode_acceptance_rate")
    found = speculation(
        drafts=value("spec_decode_num_drafts"),
        draft_tokens=value("spec_decode_draft_tokens", "spec_decode_num_draft_tokens"),
        accepted_tokens=value("spec_decode_accepted_tokens", "spec_decode_num_accepted_tokens"),
        stated_rate=None if rate is None else rate * _PERCENT,
        stated_length=value("spec_decode_acceptance_length", "accept_length"),
        per_position=shares(document.get("spec_decode_per_position_acceptance_rates")))
    return {"speculation": found} if found else None


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    for line, document in records:
        if not set(document) >= _MARK:
            yield Bad("no benchmark result", line)
            continue
        rows = list(_detailed(document))
        total = _total(document)
        if not any(isinstance(row, Row) and not row.failed for row in rows):
            yield from (row for row in rows if isinstance(row, Bad))
            failed = max(total.failed, sum(isinstance(row, Row) for row in rows))
            yield replace(total, failed=failed)
            continue
        yield from rows
        if all(isinstance(row, Bad) or row.arrival is None for row in rows):
            yield Total(duration=total.duration, rate=total.rate, concurrency=total.concurrency,
                        concurrency_basis=total.concurrency_basis, models=total.models, engine=total.engine)
        elif total.models or total.engine:
            yield Total(models=total.models, engine=total.engine)


# --- the table on the console --------------------------------------------------------------------------------------
_LINE = re.compile(r"^\s*([A-Z][^:]*?)(?: \((?:s|ms|req/s|tok/s|%)\))?:\s+([-+0-9.eE]+)\s*$")
_NAMES = {
    "Successful requests": "completed", "Failed requests": "failed", "Benchmark duration": "duration",
    "Total input tokens": "total_input_tokens", "Total generated tokens": "total_output_tokens",
    "Maximum request concurrency": "max_concurrency", "Max request concurrency": "max_concurrency",
    "Request throughput": "request_throughput",
    "Acceptance rate": "spec_decode_acceptance_rate", "Acceptance length": "spec_decode_acceptance_length",
    "Accept length": "accept_length",
    "Drafts": "spec_decode_num_drafts", "Draft tokens": "spec_decode_draft_tokens",
    "Accepted tokens": "spec_decode_accepted_tokens",
    **{f"{word} {what}": f"{word.lower()}_{key}_ms" for word in ("Mean", "Median")
       for what, key in (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2EL", "e2el"), ("E2E Latency", "e2e_latency"))},
}
_POSITION = re.compile(r"^\s*Position (\d+):\s+(\d{1,3}(?:\.\d{1,12})?)\s*%?\s*$")
_TITLE = "Serving Benchmark Result"


def _read_console(lines: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    table: dict[str, Any] | None = None
    tables = 0
    for _, line in lines:
        if _TITLE in line:
            if table:
                yield _total(table)
            table, tables = {}, tables + 1
        elif table is not None and (found := _POSITION.match(line)):
            # Printed in percent; the same key of the JSON result holds fractions.
            table.setdefault("spec_decode_per_position_acceptance_rates", []).append(float(found[2]) * _PERCENT)
        elif table is not None and (found := _LINE.match(line)) and found[1] in _NAMES:
            table[_NAMES[found[1]]] = found[2]
    if table:
        yield _total(table)
    if tables > 1:
        yield Note(f"{tables} result tables are in this file and are taken together")


FORMATS = (
    RecordFormat(name="bench_serve", title="vllm bench serve result", recognises=_recognises, read=_read, rank=20),
    RecordFormat(name="bench_serve_console", title="vllm bench serve console output", read=_read_console, text=True,
                 recognises=lambda head: any(_TITLE in line for line in head.lines), rank=25),
)
