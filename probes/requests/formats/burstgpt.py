"""BurstGPT: the trace (CSV), and the per-request record of its replay client (a JSON object keyed by event)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probes.requests.shapes import Bad, Found, Head, Note, Place, RecordFormat, Row, TableFormat, number


def _client_records(head: Head) -> bool:
    first = head.first()
    inner = next(iter(first.values()), None) if first else None
    return isinstance(inner, dict) and {"in_len", "out_len", "record_time"} <= set(inner)


def _read_client(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    characters: list[float] = []
    for _, document in records:
        for one in document.values():
            prompt = number(one.get("in_len")) if isinstance(one, dict) else None
            if prompt is None:
                yield Bad("no prompt tokens")
                continue
            if (length := number(one.get("out_len"))) is not None:
                characters.append(length)
            # out_len is the length of the TEXT (prompt and output, in characters): no output tokens are known.
            yield Row(end=number(one.get("record_time")), prompt=prompt, ttft=number(one.get("first_chunk_time")))
    mean = f" (mean {sum(characters) / len(characters):,.2f})" if characters else ""
    yield Note(f"out_len is the length of prompt and output as text, in characters{mean}: output tokens are not known")
    yield Note("the only time of a request is its end: the rate is that of ends")


FORMATS = (
    TableFormat(
        name="burstgpt",
        title="BurstGPT trace",
        recognises=lambda head: head.has("Timestamp", "Request tokens", "Response tokens"),
        columns={"arrival": (Place("Timestamp", "s"),)},
        failed="output = 0",
        notes=("rows without response tokens are failed requests, as the trace's authors say",),
    ),
    RecordFormat(
        name="burstgpt_client",
        title="BurstGPT replay client record",
        recognises=_client_records,
        read=_read_client,
    ),
)
