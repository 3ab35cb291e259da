"""OpenAI-style requests and responses: chat, completions and batch files, one JSON object a line.

With token counts in the responses' `usage` the numbers are read by the table engine; without them the reader counts or
estimates them from the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probes.requests.clock import moment
from probes.requests.shapes import Bad, Found, Head, Note, Place, RecordFormat, Row, TableFormat, at, number
from probes.requests.text_columns import text_plan
from probes.requests.texts import view_of
from probes.requests.vocabulary import VOCABULARY, has_counts

_USAGE = ("usage", "response.usage", "response.body.usage", "body.usage", "output.usage", "result.usage")
_IN_REQUEST = ("", "body.", "request.", "request.body.")


def _usage(*names: str) -> tuple[Place, ...]:
    return tuple(Place(f"{path}.{name}") for path in _USAGE for name in names)


_PROMPT, _OUTPUT = _usage("prompt_tokens", "input_tokens"), _usage("completion_tokens", "output_tokens")


def _counted(head: Head) -> bool:
    return any(head.has(one.path) for one in _PROMPT) and any(head.has(one.path) for one in _OUTPUT)


def _text(head: Head) -> bool:
    if has_counts(head):
        # Counted tokens are surer than what a text's size lets assume.
        return False
    return sum(view_of(one) is not None for one in head.records) * 2 > len(head.records) > 0


def _time(record: Any, field: str) -> float | None:
    for place in VOCABULARY[field]:
        if (value := at(record, place.path)) is not None and (found := moment(value, place.unit or "time")) is not None:
            return found
    return None


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    further, conversations = 0, 0
    for line, record in records:
        view = view_of(record)
        if view is None:
            yield Bad("no prompt in it", line)
            continue
        further += view.turns - 1
        conversations += "conversations" in record or "conversation" in record
        status = number(at(record, "response.status_code"))
        models = (at(record, f"{part}model") for part in _IN_REQUEST)
        model = next((one for one in models if isinstance(one, str)), None)
        yield Row(arrival=_time(record, "arrival"), end=_time(record, "end"), prompt=view.prompt_tokens,
                  output=view.output_tokens, temperature=view.sampling.get("temperature"), model=model, view=view,
                  failed=bool((status is not None and status >= 400) or at(record, "error")))
    if conversations:
        yield Note("one request per conversation: its first question and answer" + (
            f"; {further} further answers are not counted" if further else ""))


FORMATS = (
    TableFormat(
        name="openai",
        title="OpenAI-style requests and responses",
        recognises=_counted,
        columns={
            "prompt": _PROMPT, "output": _OUTPUT,
            "cached": _usage("prompt_tokens_details.cached_tokens"),
            "arrival": (*VOCABULARY["arrival"], Place("request.timestamp"), Place("request.created"),
                        Place("response.created", "s"), Place("response.body.created", "s"),
                        Place("response.created_at", "s"), Place("created", "s")),
            "model": tuple(Place(f"{p}model") for p in (*_IN_REQUEST, "response.", "response.body.")),
            "status": (Place("response.status_code"), *VOCABULARY["status"]),
            "temperature": tuple(Place(f"{p}temperature") for p in _IN_REQUEST),
            "id": (Place("custom_id"), *VOCABULARY["id"], Place("id"), Place("response.id")),
        },
        rank=45,
    ),
    RecordFormat(name="texts", title="prompts and answers as text", recognises=_text, read=_read, rank=70,
                 as_columns=text_plan),
)
