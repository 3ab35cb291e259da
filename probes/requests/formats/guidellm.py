"""GuideLLM benchmark files: a document with `benchmarks`, each with its requests where they were kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from probes.requests.shapes import Bad, Found, Head, Note, RecordFormat, Row, Total, at, nothing_succeeded, number


def _recognises(head: Head) -> bool:
    first = (head.first().get("benchmarks") or [None])
    return isinstance(first, list) and isinstance(first[0], dict) and ("metrics" in first[0] or "requests" in first[0])


def _any(record: Mapping[str, Any], *paths: str) -> float | None:
    return next((value for path in paths if (value := number(at(record, path))) is not None), None)


def _row(one: Mapping[str, Any]) -> Row | Bad:
    prompt = _any(one, "prompt_tokens", "request_metrics.input_tokens", "input_metrics.text_tokens",
                  "input_metrics.total_tokens")
    output = _any(one, "output_tokens", "output_metrics.text_tokens", "output_metrics.total_tokens",
                  "response_metrics.output_tokens")
    if prompt is None or output is None:
        return Bad("no prompt tokens" if prompt is None else "no output tokens")
    ttft, tpot = _any(one, "time_to_first_token_ms"), _any(one, "time_per_output_token_ms", "inter_token_latency_ms")
    start = _any(one, "start_time", "request_start_time", "info.timings.request_start",
                 "scheduler_info.request_timings.request_start")
    end = _any(one, "end_time", "request_end_time", "info.timings.request_end",
               "scheduler_info.request_timings.request_end")
    latency = _any(one, "request_latency")
    if end is None and start is not None and latency is not None:
        end = start + latency
    return Row(arrival=start, end=end, prompt=prompt, output=output, latency=latency,
               ttft=None if ttft is None else ttft / 1e3, tpot=None if tpot is None else tpot / 1e3)


def _total(benchmark: Mapping[str, Any]) -> Total:
    metrics = benchmark.get("metrics") or {}

    def stat(name: str, what: str = "mean") -> float | None:
        return _any(metrics, f"{name}.successful.{what}", f"{name}.successful.percentiles.{what}")

    def lengths(*names: str) -> dict[str, float]:
        name = next((one for one in names if stat(one) is not None), names[0])
        marks = {"mean": stat(name), "max": stat(name, "max"), "p50": stat(name, "median") or stat(name, "p50"),
                 **{mark: stat(name, mark) for mark in ("p90", "p95", "p99")}}
        return {mark: value for mark, value in marks.items() if value is not None}

    start = _any(benchmark, "start_time", "run_stats.start_time")
    end = _any(benchmark, "end_time", "run_stats.end_time")
    ttft, tpot = stat("time_to_first_token_ms"), stat("time_per_output_token_ms") or stat("inter_token_latency_ms")
    running = stat("request_concurrency")
    done = int(_any(metrics, "request_totals.successful", "request_latency.successful.count",
                    "requests_per_second.successful.count") or 0)
    failed = int(_any(metrics, "request_totals.errored") or 0)
    if failed and not done:
        return nothing_succeeded(failed)
    return Total(
        requests=done, failed=failed,
        duration=_any(benchmark, "duration") or (end - start if start is not None and end is not None else None),
        rate=stat("requests_per_second"),
        prompt=lengths("prompt_token_count", "prompt_tokens"), output=lengths("output_token_count", "output_tokens"),
        ttft=None if ttft is None else ttft / 1e3, tpot=None if tpot is None else tpot / 1e3,
        latency=stat("request_latency"),
        concurrency={} if running is None else {"mean": running},
        concurrency_basis="" if running is None else "request_concurrency as GuideLLM measured it",
    )


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    for line, document in records:
        if not isinstance(document.get("benchmarks"), list):
            yield Bad("no benchmark result", line)
            continue
        benchmarks = [one for one in document["benchmarks"] if isinstance(one, dict)]
        if len(benchmarks) > 1:
            yield Note(f"{len(benchmarks)} benchmarks at different loads are in this file and are taken together")
        for benchmark in benchmarks:
            kept = benchmark.get("requests")
            groups = kept if isinstance(kept, dict) else {"successful": kept or []}
            done, errored = (found if isinstance(found := groups.get(name), list) else []
                             for name in ("successful", "errored"))
            rows = [one for one in done if isinstance(one, dict)]
            for one in rows:
                yield _row(one)
            for _ in range(len(errored) if rows else 0):
                yield Row(failed=True)
            if not rows:
                yield _total(benchmark)


FORMAT = RecordFormat(name="guidellm", title="GuideLLM benchmarks", recognises=_recognises, read=_read, rank=20)
