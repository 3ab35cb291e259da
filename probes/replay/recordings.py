"""Recorded prompts and outputs, read line by line. Text lives in memory only; what leaves are token counts.

Known shapes: {"prompt", "output"} in its many spellings, token ids, chat messages whose last one is the assistant's,
OpenAI requests with their responses (batch files too), ShareGPT conversations (every answer is a request of its own).
A file is JSONL, one JSON array, or one JSON document; gzip is recognised.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.chat import content_text
from probes.requests.clock import BEYOND_S, moment
from probes.requests.vocabulary import VOCABULARY
from profiles.errors import InputError
from profiles.reading import read_whole
from profiles.schema import MAX_TEMPERATURE
from profiles.workload import Task, parse_task

Text = str | tuple[int, ...]
"""A text, or its token ids."""
Messages = tuple[Mapping[str, str], ...]

_LINES_NAMED = 5
MAX_BYTES = 2**30
_ZSTD = b"\x28\xb5\x2f\xfd"
_PROMPTS = ("prompt_token_ids", "prompt_ids", "input_ids", "prompt", "input", "question", "instruction")
_OUTPUTS = ("output_token_ids", "generated_token_ids", "output_ids", "token_ids", "output", "completion",
            "generated_text", "generated", "response", "answer", "text")
_TASKS = ("task", "task_family", "category")
_USERS = frozenset({"human", "user", "prompter"})
_ANSWERS = frozenset({"gpt", "assistant", "chatgpt", "bard", "model", "bot"})


@dataclass(frozen=True)
class Recording:
    """One request as it was recorded."""

    prompt: Text | Messages
    output: Text
    task: Task | None = None
    model: str | None = None
    temperature: float | None = None
    """None also where what is recorded can be none."""
    odd_temperature: bool = False
    """Whether one is recorded that cannot be."""
    arrival: float | None = None
    where: str = ""
    """`file:line`"""


@dataclass
class Recordings:
    """What was read: requests in arrival order where all tell it, else as they stand; what was not, with reasons."""

    requests: list[Recording] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, reason: str, where: str) -> None:
        self.skipped[reason] += 1
        places = self.lines.setdefault(reason, [])
        if len(places) < _LINES_NAMED:
            places.append(where)


class _Bad(ValueError):
    """Why a line is no recording; never repeats it."""


def read_recordings(paths: Sequence[Path], lenient: bool = False) -> Recordings:
    """All files, one after the other.

    Raises InputError: a file that cannot be read, no usable record at all, or more bad ones than good ones unless
    `lenient`.
    """
    found = Recordings()
    for path in paths:
        before, bad = len(found.requests), sum(found.skipped.values())
        for number, item in _items(_bytes(path)):
            where = f"{path.name}:{number}"
            if isinstance(item, _Bad):
                found.skip(str(item), where)
                continue
            try:
                found.requests += _recordings(item, where)
            except _Bad as error:
                found.skip(str(error), where)
        good, bad = len(found.requests) - before, sum(found.skipped.values()) - bad
        if bad > good and (not lenient or not good):
            reason, places = next(iter(found.lines.items()))
            raise InputError(
                f"{path}: {bad} of {good + bad} records cannot be used (first: {places[0]}, {reason}); expected "
                'prompts with outputs such as {"prompt": ..., "output": ...}, chat messages or request/response pairs, '
                "one a line: correct the file" + ("" if not good else ", or go on with the good ones by --lenient"))
        if not good:
            raise InputError(f"{path} holds no record: expected prompts with outputs, one JSON object a line; name a "
                             "file that has some")
    if all(r.arrival is not None for r in found.requests):
        found.requests.sort(key=lambda r: r.arrival or 0.0)
    return found


def _bytes(path: Path) -> bytes:
    data = read_whole(path, "a file of recorded requests that memory holds (a part of them tells as much)", MAX_BYTES,
                      packed=True)
    if data.startswith(_ZSTD):
        raise InputError(f"{path} is compressed with zstd: unpack it first (zstd -d), or pack it with gzip")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data


def _items(data: bytes) -> Iterator[tuple[int, Any]]:
    """(line number, document or _Bad)."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip()[:1] == b"[" and (array := _array(data)) is not None:
        yield from array
        return
    # Only \n ends a line: U+2028 and its kind are ordinary characters inside a text.
    lines = [(number, raw) for number, raw in enumerate(data.split(b"\n"), 1) if raw.strip()]
    parsed = [(number, _json(raw)) for number, raw in lines]
    if len(parsed) > 1 and all(isinstance(item, _Bad) for _, item in parsed[:2]):
        whole = _json(data)
        if not isinstance(whole, _Bad):
            parsed = [(lines[0][0], whole)]
    if len(parsed) > 1 and isinstance(parsed[-1][1], _Bad) and not data.endswith(b"\n"):
        parsed[-1] = (parsed[-1][0], _Bad("cut off in the middle"))
    yield from parsed


def _array(data: bytes) -> list[tuple[int, Any]] | None:
    """Elements of one JSON array; what follows a damaged place is lost, what stands before it is not. None: a JSONL
    file whose lines are arrays."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    decoder, at, found = json.JSONDecoder(), text.index("[") + 1, list[tuple[int, Any]]()
    line, counted = 1, 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at < len(text) and text[at] == "]":
            return found if not text[at + 1 :].strip() else None
        line, counted = line + text.count("\n", counted, at), at
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found.append((line, _Bad("cut off in the middle" if text.rstrip()[-1:] != "]" else "not JSON")))
            return found
        found.append((line, _Bad("not UTF-8") if "\ufffd" in str(item) and b"\xef\xbf\xbd" not in data else item))


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return _Bad("not UTF-8")
    except RecursionError:
        return _Bad("nested too deeply")
    except ValueError:
        return _Bad("not JSON")


# --- shapes --------------------------------------------------------------------------------------------------------
def _recordings(item: Any, where: str) -> list[Recording]:
    if not isinstance(item, dict):
        raise _Bad("not a JSON object")
    turns = item.get("conversations", item.get("conversation"))
    if isinstance(turns, list):
        return _conversation(item, turns, where)
    request = next((item[key] for key in ("request", "body") if isinstance(item.get(key), dict)), item)
    request = request["body"] if isinstance(request.get("body"), dict) else request
    response = item.get("response")
    if isinstance(response, dict):
        response = response["body"] if isinstance(response.get("body"), dict) else response
        if item.get("error") is not None or response.get("error") is not None:
            raise _Bad("the request failed")
    elif isinstance(item.get("choices"), list):
        response = item
    prompt, output = _prompt(request), _answer(response if isinstance(response, dict) else item)
    if prompt is None:
        raise _Bad("no prompt")
    if output is None and _is_messages(prompt) and prompt[-1]["role"] in _ANSWERS:
        # One document holds the answer as the last message.
        prompt, output = prompt[:-1], prompt[-1]["content"]
    if output is None:
        raise _Bad("no output")
    if not prompt or not output:
        raise _Bad("the output is empty" if prompt else "the prompt is empty")
    return [_recording(item, request, response, prompt, output, where)]


def _recording(item: Mapping[str, Any], request: Mapping[str, Any], response: Any, prompt: Text | Messages,
               output: Text, where: str) -> Recording:
    sources = [item, request, *([response] if isinstance(response, dict) else [])]

    def first(names: Sequence[str], kind: type | tuple[type, ...]) -> Any:
        return next((s[n] for s in sources for n in names
                     if isinstance(s.get(n), kind) and not isinstance(s.get(n), bool)), None)

    sampling = item.get("sampling_params", request.get("sampling_params"))
    sources += [sampling] if isinstance(sampling, dict) else []
    task, temperature = first(_TASKS, str), first(("temperature",), (int, float))
    usable = temperature is not None and 0 <= temperature <= MAX_TEMPERATURE
    return Recording(prompt, output, _task(task), first(("model", "model_id", "model_name"), str),
                     float(temperature) if usable else None, temperature is not None and not usable,
                     _arrival(sources), where)


def _task(name: str | None) -> Task | None:
    try:
        return parse_task(name) if name else None
    except ValueError:
        return None


def _arrival(sources: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds, under the names that logs use for it."""
    found = (moment(source[place.path], place.unit or "time") for source in sources for place in VOCABULARY["arrival"]
             if place.path in source)
    return next((value for value in found if value is not None and abs(value) < BEYOND_S), None)


def _conversation(item: Mapping[str, Any], turns: Sequence[Any], where: str) -> list[Recording]:
    """Each answer with all that stood before it."""
    said: list[Mapping[str, str]] = []
    found: list[Recording] = []
    for turn in turns:
        if not isinstance(turn, dict):
            raise _Bad("a turn is not an object")
        who = turn.get("from", turn.get("role"))
        text = turn.get("value", turn.get("content"))
        if not isinstance(who, str) or not isinstance(text, str):
            raise _Bad("a turn has no speaker or no text")
        _whole(text)
        role = "user" if who.lower() in _USERS else "assistant" if who.lower() in _ANSWERS else who.lower()
        if role == "assistant" and any(m["role"] == "user" for m in said) and text:
            found.append(_recording(item, item, None, tuple(said), text, where))
        said.append({"role": role, "content": text})
    if not found:
        raise _Bad("no output")
    return found


def _is_messages(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Mapping)


def _prompt(request: Mapping[str, Any]) -> Any:
    if isinstance(request.get("messages"), list):
        return _messages(request["messages"])
    for key in _PROMPTS:
        value = request.get(key)
        if value is None:
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return _messages(value)
        return _text(value, "prompt")
    return None


def _messages(values: Sequence[Any]) -> Messages:
    said = []
    for value in values:
        if not isinstance(value, dict) or not isinstance(value.get("role"), str):
            raise _Bad("a message is not {role, content}")
        try:
            content = content_text(value.get("content"))
        except ValueError as error:
            raise _Bad(str(error)) from None
        said.append({"role": value["role"], "content": _whole(content) if content is not None else ""})
    return tuple(said)


def _answer(source: Mapping[str, Any]) -> Text | None:
    choices = source.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        choice = choices[0]
        message = choice.get("message")
        if isinstance(message, dict):
            if message.get("tool_calls") and not message.get("content"):
                raise _Bad("the output is a tool call, whose text is not recorded")
            # Reasoning parsers split one text in two: what the target wrote is lost at the seam.
            if message.get("reasoning_content") or message.get("reasoning"):
                raise _Bad("the output is split into reasoning and answer")
            return _text(message.get("content"), "output")
        return _text(choice.get("token_ids", choice.get("text")), "output")
    for key in _OUTPUTS:
        if source.get(key) is not None and not isinstance(source[key], dict):
            return _text(source[key], "output")
    return None


def _text(value: Any, what: str) -> Text | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, list) and value and all(isinstance(i, int) and not isinstance(i, bool) for i in value):
        if min(value) < 0 or max(value) >= 2**31:
            raise _Bad(f"the {what} has ids that are no tokens")
        return tuple(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list)):
        return _text(value[0], what)
    if value == []:
        return ()
    raise _Bad(f"the {what} is neither text nor token ids")


def _whole(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _Bad("holds half a surrogate pair") from None
    return text
