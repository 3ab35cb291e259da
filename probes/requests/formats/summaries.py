"""Summaries of harnesses that count tokens and requests of one run in one document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probes.requests.shapes import Found, Head, RecordFormat, Total, at, nothing_succeeded, number
from probes.requests.speculation import counted_by_harness


def _recognises(head: Head) -> bool:
    first = head.first()
    return number(at(first, "requests.successful")) is not None and number(at(first, "tokens.prompt")) is not None


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    for _, document in records:
        done = int(number(at(document, "requests.successful")) or 0)
        failed = int(number(at(document, "requests.failed")) or 0)
        if not done:
            yield nothing_succeeded(failed)
            continue
        sums = {name: number(at(document, f"tokens.{name}")) or 0.0 for name in ("prompt", "completion")}
        latency, span = number(at(document, "latency_ms.e2e.mean")), number(document.get("wall_seconds"))
        ttft, tpot = number(at(document, "latency_ms.ttft.mean")), number(at(document, "latency_ms.tpot.mean"))
        load = done * latency / 1e3 / span if latency and span else None
        speculation = counted_by_harness(document.get("speculative_decoding"))
        yield Total(
            requests=done, failed=failed, duration=span, rate=number(at(document, "requests.requests_per_second")),
            prompt={"mean": sums["prompt"] / done}, output={"mean": sums["completion"] / done},
            ttft=None if ttft is None else ttft / 1e3, tpot=None if tpot is None else tpot / 1e3,
            latency=None if latency is None else latency / 1e3,
            concurrency={} if load is None else {"mean": load},
            concurrency_basis="" if load is None else "Little's law: requests times mean latency over the duration",
            engine={"speculation": speculation} if speculation else None,
        )


FORMAT = RecordFormat(name="summary", title="load test summary", recognises=_recognises, read=_read, rank=25)
