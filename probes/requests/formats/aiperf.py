"""AIPerf (and GenAI-Perf): per-request records (JSONL) and the summary document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from probes.requests.shapes import (
    SECONDS,
    Found,
    Head,
    Note,
    Place,
    RecordFormat,
    TableFormat,
    Total,
    at,
    nothing_succeeded,
    number,
)

_MARKS = ("p50", "p90", "p95", "p99", "max")


def _records(head: Head) -> bool:
    return head.has("metadata.request_start_ns") and any(key.startswith("metrics.") for key in head.keys)


def _summary(head: Head) -> bool:
    return isinstance(at(head.first(), "request_latency"), dict) and isinstance(
        at(head.first(), "request_throughput"), dict)


def _stat(document: Mapping[str, Any], name: str) -> float | None:
    return number(at(document, f"{name}.avg"))


def _seconds(document: Mapping[str, Any], name: str) -> float | None:
    value, unit = _stat(document, name), str(at(document, f"{name}.unit") or "ms")
    return None if value is None else value * SECONDS.get({"sec": "s"}.get(unit, unit), 1e-3)


def _lengths(document: Mapping[str, Any], name: str) -> dict[str, float]:
    marks = {"mean": "avg", **{mark: mark for mark in _MARKS}}
    found = {mark: number(at(document, f"{name}.{key}")) for mark, key in marks.items()}
    return {mark: value for mark, value in found.items() if value is not None}


def _read_summary(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    for _, document in records:
        requests = _stat(document, "request_count") or number(at(document, "request_latency.count")) or 0
        duration, latency = _seconds(document, "benchmark_duration"), _seconds(document, "request_latency")
        rate = _stat(document, "request_throughput")
        failed = int(_stat(document, "error_request_count") or 0)
        names = at(document, "input_config.endpoint.model_names") or at(document, "input_config.models.items")
        models = tuple(str(one.get("name")) if isinstance(one, dict) else str(one)
                       for one in (names if isinstance(names, list) else []))
        if not requests and not latency:
            yield nothing_succeeded(failed, models)
            continue
        if not requests:
            yield Note("the document does not count its requests: lengths and latencies are its own")
        mean = rate * latency if rate is not None and latency is not None else None
        yield Total(
            requests=int(requests),
            failed=failed,
            duration=duration,
            rate=rate,
            prompt=_lengths(document, "input_sequence_length"),
            output=_lengths(document, "output_sequence_length"),
            ttft=_seconds(document, "time_to_first_token"),
            tpot=_seconds(document, "inter_token_latency"),
            latency=latency,
            concurrency={} if mean is None else {"mean": mean},
            concurrency_basis="" if mean is None else "Little's law: request throughput times mean request latency",
            models=models,
        )


FORMATS = (
    TableFormat(
        name="aiperf_records",
        title="AIPerf per-request records",
        recognises=_records,
        columns={
            "arrival": (Place("metadata.request_start_ns", "ns"),),
            "end": (Place("metadata.request_end_ns", "ns"),),
            "prompt": (Place("metrics.input_sequence_length.value"), Place("metrics.input_sequence_length")),
            "output": (Place("metrics.output_sequence_length.value"), Place("metrics.output_sequence_length"),
                       Place("metrics.output_token_count.value")),
            "ttft": (Place("metrics.time_to_first_token.value", "ms"), Place("metrics.time_to_first_token", "ms")),
            "tpot": (Place("metrics.inter_token_latency.value", "ms"), Place("metrics.inter_token_latency", "ms")),
            "id": (Place("metadata.x_request_id"),),
        },
        vocabulary=False,
        rank=20,
    ),
    RecordFormat(name="aiperf", title="AIPerf summary", recognises=_summary, read=_read_summary, rank=20),
)
