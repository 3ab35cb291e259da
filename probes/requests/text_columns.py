"""Records of text without token counts as columns: where prompt and answer stand in every line of a file, and their
size as an expression of the table engine. Without a tokenizer tokens are estimated from sizes, and no text has to leave
the engine for that.

The same shapes as `texts.view_of`; a file whose first records hold any other one is read record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from probes.requests.plan import Plan, Resolved, plan_of
from probes.requests.shapes import Head, Place, TableFormat, at
from probes.requests.texts import BODIES, BYTES_PER_TOKEN, OUTPUTS, PROMPTS, RESPONSES, view_of

_MESSAGES = 'STRUCT("role" VARCHAR, "content" VARCHAR)[]'
_CHOICES = ('STRUCT("message" STRUCT("content" VARCHAR, "reasoning_content" VARCHAR, "reasoning" VARCHAR, '
            '"tool_calls" STRUCT("function" STRUCT("arguments" VARCHAR))[]), "text" VARCHAR)[]')
_TURNS = 'STRUCT("from" VARCHAR, "role" VARCHAR, "value" VARCHAR, "content" VARCHAR)[]'


def _content(text: str) -> str:
    """Bytes of a message's content: a text, or parts of which some hold a text."""
    return (f"CASE WHEN starts_with({text}, '[{{{{') AND json_valid({text}) "
            f"THEN strlen(array_to_string(json_extract_string({text}, '$[*].text'), '')) "
            f"ELSE coalesce(strlen({text}), 0) END")


def _joined(messages: str) -> str:
    """Bytes of all messages, with the blank lines between them; nothing where there are none."""
    return (f"CASE WHEN len({messages}) > 0 THEN list_sum([{_content('m.content')} FOR m IN {messages}]) "
            f"+ 2 * (len({messages}) - 1) END")


_SAID = "[t FOR t IN {0} IF coalesce(t.\"from\", t.\"role\", '') <> 'system']"
_ASKED = (f"CASE WHEN len({_SAID}) > 1 AND coalesce({_SAID}[1].\"from\", {_SAID}[1].\"role\") IN ('human', 'user') "
          f"THEN nullif(strlen(coalesce({_SAID}[1].\"value\", {_SAID}[1].\"content\")), 0) END")
_ANSWERED = (f"CASE WHEN len({_SAID}) > 1 "
             f"THEN coalesce(strlen(coalesce({_SAID}[2].\"value\", {_SAID}[2].\"content\")), 0) END")
_MESSAGE = "{0}[1].\"message\""
_SPOKEN = (f"coalesce(strlen(coalesce({_MESSAGE}.\"reasoning_content\", {_MESSAGE}.\"reasoning\")), 0) "
           f"+ {_content(_MESSAGE + '.content')} "
           f"+ coalesce(list_sum([strlen(c.\"function\".\"arguments\") FOR c IN {_MESSAGE}.\"tool_calls\"]), 0)")
_CHOICE = f"nullif(coalesce(nullif({_SPOKEN}, 0), strlen({{0}}[1].\"text\")), 0)"
_ENDS_WITH_ANSWER = "{0}[-1].\"role\" = 'assistant'"


@dataclass(frozen=True)
class _Shape:
    """One way to write a prompt or an answer."""

    path: str
    kind: str
    """The engine's type of the value there."""
    size: str
    """Bytes of its text (or tokens, where `exact`), {0} being the value."""
    fits: Callable[[Any], bool]
    exact: bool = False
    more: tuple[str, ...] = ()
    """Texts beside it that belong to it."""


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(one, dict) for one in value) and any("role" in one for one in value)


def _is_text(value: Any) -> bool:
    # A whole request as JSON inside a text is no prompt.
    return isinstance(value, str) and bool(value) and not value.startswith('{"')


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], int)


def _answered(value: Any) -> bool:
    return _is_messages(value) and len(value) > 1 and value[-1].get("role") == "assistant"


def _is_choices(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _prompts(path: str) -> Iterator[_Shape]:
    yield _Shape(f"{path}messages", _MESSAGES, _joined("{0}"), _is_messages)
    yield _Shape(f"{path}input", _MESSAGES, _joined("{0}"), _is_messages)
    yield _Shape(f"{path}turns", "VARCHAR[]", "strlen({0}[1])", _is_texts)
    for name in PROMPTS:
        yield _Shape(f"{path}{name}", "VARCHAR", "nullif(strlen({0}), 0)", _is_text,
                     more=tuple(f"{path}{other}" for other in ("context", "input") if other != name))


def _outputs() -> Iterator[_Shape]:
    for path in (*RESPONSES, ""):
        name = f"{path}.choices" if path else "choices"
        yield _Shape(name, _CHOICES, _CHOICE, _is_choices)
    for name in OUTPUTS:
        yield _Shape(name, "VARCHAR", "nullif(strlen({0}), 0)", _is_text)


_CONVERSATIONS = tuple((_Shape(name, _TURNS, _ASKED, lambda value: isinstance(value, list)),
                        _Shape(name, _TURNS, _ANSWERED, lambda value: isinstance(value, list)))
                       for name in ("conversations", "conversation"))
_IDS = {"prompt": _Shape("prompt_token_ids", "INTEGER[]", "nullif(len({0}), 0)", _is_ids, exact=True),
        "output": _Shape("generated_token_ids", "INTEGER[]", "nullif(len({0}), 0)", _is_ids, exact=True)}
_OTHER_IDS = replace(_IDS["output"], path="output_token_ids")
_WITH_ANSWER = (
    _Shape("messages", _MESSAGES, f"CASE WHEN len({{0}}) > 1 AND {_ENDS_WITH_ANSWER} THEN {_joined('{0}[:-2]')} "
                                  f"ELSE {_joined('{0}')} END", _is_messages),
    _Shape("messages", _MESSAGES, f"CASE WHEN len({{0}}) > 1 AND {_ENDS_WITH_ANSWER} "
                                  f"THEN nullif({_content('{0}[-1].content')}, 0) END", _answered),
)
_IN_REQUEST = ("", *(f"{path}." for path in BODIES))
_TABLE = TableFormat(
    name="texts", title="prompts and answers as text", recognises=lambda head: False,
    columns={
        "prompt": (), "output": (),
        "model": tuple(Place(f"{path}model") for path in _IN_REQUEST),
        "temperature": tuple(Place(f"{path}{inner}temperature") for path in _IN_REQUEST
                             for inner in ("", "sampling_params.")),
        "status": (Place("response.status_code"),),
    },
    needs=(),
)


def text_plan(head: Head) -> Plan | None:
    """How every line of the file is read as columns; None where its first records are not of one of the shapes."""
    records = [one for one in head.records if isinstance(one, dict)]
    if any(at(one, "error") for one in records):
        return None
    seen = [(one, view) for one in records if (view := view_of(one)) is not None]
    found = _places(seen)
    if found is None:
        return None
    base = plan_of(_TABLE, head)
    texts = {name: tuple(_resolved(one, records) for one in places) for name, places in found.items() if places}
    fields = {**base.fields, **texts}
    estimated = any(not place.exact for places in found.values() for place in places)
    return replace(base, fields=fields, needs=("prompt",), estimated=estimated)


def _places(seen: list[tuple[dict[str, Any], Any]]) -> dict[str, tuple[_Shape, ...]] | None:
    """The shapes of prompts and of answers, in the order in which they are tried; None where some record has others."""
    prompts: dict[_Shape, None] = {}
    outputs: dict[_Shape, None] = {}
    for record, view in seen:
        prompt, output = _prompt_of(record), None
        if prompt is None:
            return None
        prompts[prompt] = None
        if view.output is not None or view.output_tokens:
            output = _output_of(record, prompt)
            if output is None:
                return None
            outputs[output] = None
    if _WITH_ANSWER[0] in prompts:
        if len(outputs) > 1:
            return None
        prompts = {one: None for one in prompts if one is _WITH_ANSWER[0] or one.path != "messages"}
    return {"prompt": tuple(prompts), "output": tuple(outputs)} if prompts else None


def _prompt_of(record: Mapping[str, Any]) -> _Shape | None:
    for asked, _ in _CONVERSATIONS:
        if asked.path in record:
            return asked if asked.fits(record[asked.path]) else None
    if _IDS["prompt"].fits(record.get("prompt_token_ids")):
        return _IDS["prompt"]
    body = next((path for path in BODIES if isinstance(value := at(record, path), dict)
                 and {"messages", "prompt", "input"} & set(value)), "")
    if not body and _answered(record.get("messages")) and _output_of(record, None) is None:
        return _WITH_ANSWER[0]
    fitting = (one for one in _prompts(f"{body}." if body else "") if one.fits(at(record, one.path)))
    return next(fitting, None)


def _output_of(record: Mapping[str, Any], prompt: _Shape | None) -> _Shape | None:
    for asked, answered in _CONVERSATIONS:
        if prompt is asked:
            return answered
    if prompt is _WITH_ANSWER[0]:
        return _WITH_ANSWER[1]
    for ids in (_IDS["output"], _OTHER_IDS):
        if ids.fits(record.get(ids.path)):
            return ids
    return next((one for one in _outputs() if one.fits(at(record, one.path))), None)


def _resolved(shape: _Shape, records: list[dict[str, Any]]) -> Resolved:
    parts = tuple(shape.path.split("."))
    more = [path for path in shape.more if any(_is_text(at(one, path)) for one in records)]
    extra = [f"coalesce(nullif(strlen({{{i}}}), 0) + 2, 0)" for i in range(1, len(more) + 1)]
    size = " + ".join((shape.size, *extra))
    tokens = f"({size})::DOUBLE" if shape.exact else (
        f"CASE WHEN ({size}) > 0 THEN greatest(1.0, ({size}) / {BYTES_PER_TOKEN}) ELSE ({size}) END")
    leaves = ((parts, shape.kind), *((tuple(path.split(".")), "VARCHAR") for path in more))
    return Resolved(parts, "text", leaves, tokens)
