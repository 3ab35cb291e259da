"""OpenTelemetry GenAI spans: OTLP JSON as the collector's file exporter writes it, and spans printed by an SDK.

Names follow the GenAI semantic conventions; `prompt_tokens`/`completion_tokens` are the older ones, which vLLM's own
traces use together with `gen_ai.latency.*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from probes.requests.shapes import Bad, Found, Head, Note, RecordFormat, Row, number

_PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
           "llm.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
           "llm.usage.completion_tokens")
_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "llm.request.model")
_MODEL_CALLS = ("gen_ai.", "llm.")
"""What the attributes of a model call begin with: the conventions' own names, and those of the instrumentations from
before them (OpenInference, OpenLLMetry)."""


def _recognises(head: Head) -> bool:
    first = head.first()
    return "resourceSpans" in first or "resource_spans" in first or (
        isinstance(first.get("attributes"), (dict, list)) and bool({"start_time", "startTimeUnixNano"} & set(first)))


def _attributes(span: Mapping[str, Any]) -> Mapping[str, Any]:
    found = span.get("attributes")
    if isinstance(found, dict):
        return found
    values: dict[str, Any] = {}
    for one in found if isinstance(found, list) else []:
        if isinstance(one, dict) and isinstance(one.get("value"), dict):
            values[str(one.get("key"))] = next(iter(one["value"].values()), None)
    return values


def _spans(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, list):
        for one in document:
            yield from _spans(one)
        return
    if not isinstance(document, dict):
        return
    resources = document.get("resourceSpans", document.get("resource_spans"))
    if resources is None:
        yield document
        return
    for resource in resources if isinstance(resources, list) else []:
        scopes = resource.get("scopeSpans", resource.get("scope_spans", resource.get(
            "instrumentationLibrarySpans", []))) if isinstance(resource, dict) else []
        for scope in scopes if isinstance(scopes, list) else []:
            for span in (scope.get("spans") or []) if isinstance(scope, dict) else []:
                if isinstance(span, dict):
                    yield span


def _time(span: Mapping[str, Any], which: str) -> float | None:
    nanoseconds = number(span.get(f"{which}TimeUnixNano", span.get(f"{which}_time_unix_nano")))
    if nanoseconds is not None:
        return nanoseconds / 1e9
    text = span.get(f"{which}_time")
    if isinstance(text, str):
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    value = number(text)
    return value / 1e9 if value is not None and value > 1e17 else value


def _row(span: Mapping[str, Any], found: Mapping[str, Any]) -> Row:
    def value(*names: str) -> float | None:
        return next((v for name in names if (v := number(found.get(name))) is not None), None)

    model = next((found[name] for name in _MODEL if found.get(name) is not None), None)
    status = span.get("status") if isinstance(span.get("status"), dict) else {}
    code = str((status or {}).get("code", (status or {}).get("status_code", "")))
    return Row(
        arrival=_time(span, "start"), end=_time(span, "end"), prompt=value(*_PROMPT), output=value(*_OUTPUT),
        ttft=value("gen_ai.latency.time_to_first_token", "gen_ai.server.time_to_first_token"),
        latency=value("gen_ai.latency.e2e"), temperature=value("gen_ai.request.temperature"),
        cached=value("gen_ai.usage.cache_read.input_tokens"), model=None if model is None else str(model),
        failed=code in ("2", "STATUS_CODE_ERROR", "ERROR") or "error.type" in found,
    )


def _read(records: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    others = 0
    for line, document in records:
        for span in _spans(document):
            found = _attributes(span)
            if not any(name.startswith(_MODEL_CALLS) for name in found):
                others += 1
                continue
            row = _row(span, found)
            if row.failed or (row.prompt is not None and row.output is not None):
                yield row
            elif row.prompt is None and row.output is None:
                others += 1
            else:
                yield Bad("no prompt tokens" if row.prompt is None else "no output tokens", line)
    if others:
        yield Note(f"{others} spans are no model calls with token counts and were passed over")


FORMAT = RecordFormat(name="otel", title="OpenTelemetry GenAI spans", recognises=_recognises, read=_read, rank=20)
