"""Samples of an engine's state over time (running and waiting requests): a load, and no requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probes.requests.shapes import Bad, Found, Head, RecordFormat, Total, number

_RUNNING = ("running", "num_running", "num_requests_running")
_WAITING = ("waiting", "num_pending", "num_waiting", "num_requests_waiting")
_GENERATED = ("generation_throughput", "gen_throughput", "avg_generation_throughput")
_TIME = ("timestamp", "t", "time")


def _recognises(head: Head) -> bool:
    return any(head.has(a, b) for a in _RUNNING for b in (*_WAITING, *_GENERATED)) and not head.has("prompt_tokens")


def _value(record: dict[str, Any], names: tuple[str, ...]) -> float | None:
    return next((v for name in names if (v := number(record.get(name))) is not None), None)


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    running: list[float] = []
    waiting, speeds, times = 0.0, [], []
    for line, record in records:
        value = _value(record, _RUNNING)
        if value is None or value < 0:
            yield Bad("no running requests", line)
            continue
        running.append(value)
        waiting = max(waiting, _value(record, _WAITING) or 0.0)
        speeds.append(_value(record, _GENERATED) or 0.0)
        times.append(_value(record, _TIME) or 0.0)
    if not running:
        return
    ranked = sorted(running)
    busy = [s for s, r in zip(speeds, running, strict=True) if r > 0]
    yield Total(
        duration=max(times) - min(times),
        concurrency={"mean": sum(running) / len(running), "p95": ranked[min(len(ranked) - 1, int(0.95 * len(ranked)))],
                     "max": ranked[-1]},
        concurrency_basis="running requests as the engine was sampled",
        engine={"samples": len(running), "running_max": ranked[-1], "waiting_max": waiting,
                "generation_tokens_per_s": {"max": max(speeds), "mean": sum(speeds) / len(speeds),
                                            "mean_where_running": sum(busy) / len(busy) if busy else 0.0}},
        notes=("samples of the engine, not requests: they give the load, and no lengths",),
    )


FORMAT = RecordFormat(name="engine_samples", title="samples of an engine's load", recognises=_recognises, read=_read,
                      rank=45)
