"""Documents of home-made load tests: lists (or mappings) of per-request objects somewhere inside, by common names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from probes.requests.shapes import SECONDS, Bad, Found, Head, Note, RecordFormat, Row, Total, at, number
from probes.requests.vocabulary import VOCABULARY

_DEPTH = 8
_SPANS = ("wall_clock_seconds", "duration_seconds", "duration_s", "duration", "total_time_s", "wall_seconds")


def _pick(record: Mapping[str, Any], field: str) -> float | None:
    for place in VOCABULARY[field]:
        value = number(at(record, place.path))
        if value is not None:
            return value * SECONDS.get(place.unit or "", 1.0)
    return None


def _is_request(record: Any) -> bool:
    if not isinstance(record, dict) or {"concurrency", "num_requests"} & set(record):
        # A run at one load, summed up, and not a request.
        return False
    lengths = _pick(record, "prompt") is not None and _pick(record, "output") is not None
    return lengths or (_pick(record, "latency") is not None and ("status" in record or "error" in record))


def _lists(value: Any, depth: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Every list of request objects; summaries in between are passed over."""
    if depth > _DEPTH:
        return
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if inner and sum(map(_is_request, inner[:50])) * 2 > min(len(inner), 50) and (
            isinstance(value, list) or len(inner) > 2):
        yield [one if isinstance(one, dict) else {} for one in inner]
        return
    for one in inner:
        yield from _lists(one, depth + 1)


def _recognises(head: Head) -> bool:
    return head.container == "json" and any(True for one in head.records for _ in _lists(one))


def _failed(record: Mapping[str, Any]) -> bool:
    status = record.get("status", record.get("status_code"))
    good = status in (None, "ok", "success", "completed", "finished", 200, "200", True)
    return not good or bool(record.get("error"))


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    for _, document in records:
        groups = list(_lists(document))
        timed, latencies = 0, 0.0
        for group in groups:
            known = any(_pick(one, "prompt") is not None for one in group)
            for one in group:
                if not _is_request(one):
                    yield Bad("no token counts" if known else "no latency")
                    continue
                latency = _pick(one, "latency")
                timed += latency is not None
                latencies += latency or 0.0
                model = next((one[p.path] for p in VOCABULARY["model"] if isinstance(one.get(p.path), str)), None)
                yield Row(arrival=_pick(one, "arrival"), end=_pick(one, "end"), prompt=_pick(one, "prompt"),
                          output=_pick(one, "output"), ttft=_pick(one, "ttft"), tpot=_pick(one, "tpot"),
                          latency=latency, model=model, failed=_failed(one))
        if len(groups) > 1:
            yield Note(f"{len(groups)} lists of requests are in this file and are taken together")
        model = document.get("model") if isinstance(document, dict) else None
        summary = document.get("summary") if isinstance(document, dict) else None
        span = next((value for name in _SPANS if (value := number((summary or {}).get(name)))), None) if isinstance(
            summary, dict) else None
        yield Total(
            duration=span, rate=timed / span if span and timed else None,
            concurrency={"mean": latencies / span} if span and latencies else {},
            concurrency_basis="Little's law: sum of latencies over the duration the summary states" if span else "",
            models=(model,) if isinstance(model, str) else (),
        )


FORMAT = RecordFormat(name="nested", title="load test document", recognises=_recognises, read=_read, rank=60)
