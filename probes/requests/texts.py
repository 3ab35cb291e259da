"""The text of a request, looked at and let go: its task, sampling, lengths and how much of the answer copies the
prompt. Nothing here is kept but numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from probes.requests.shapes import at, number
from profiles.workload import Task, parse_task

LONG_PROMPT_CHARS = 16_000
"""About 4000 tokens: where the prompt's own text is what is worked on."""
_LOOKED_AT = 20_000
_GRAM = 4


@dataclass(frozen=True)
class View:
    """One request as text."""

    prompt: str
    output: str | None = None
    messages: tuple[dict[str, str], ...] | None = None
    stated_task: Task | None = None
    structured: bool = False
    tools: bool = False
    tool_turns: bool = False
    reasoning: bool = False
    sampling: Mapping[str, float] = field(default_factory=dict)
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    turns: int = 1


def view_of(record: Any) -> View | None:
    """The request in a record of any of the usual shapes; None where there is no text."""
    if not isinstance(record, dict):
        return None
    conversation = record.get("conversations", record.get("conversation"))
    if isinstance(conversation, list):
        return _conversation(conversation)
    body, response = _body(record), _response(record)
    prompt, messages, tool_turns = _prompt(body if body is not None else record)
    output, reasoning = _output(response, record)
    ids = {name: record.get(name) for name in ("prompt_token_ids", "generated_token_ids", "output_token_ids")}
    if prompt is None and not isinstance(ids["prompt_token_ids"], list):
        return None
    if output is None and messages and len(messages) > 1 and messages[-1]["role"] == "assistant":
        # One list holds the whole conversation: its last message is the answer.
        messages, output = messages[:-1], messages[-1]["content"] or None
        prompt = "\n\n".join(one["content"] for one in messages)
    source = body if body is not None else record
    usage = response.get("usage") if isinstance(response, dict) and isinstance(response.get("usage"), dict) else (
        record.get("usage") if isinstance(record.get("usage"), dict) else {})
    return View(
        prompt=prompt or "", output=output, messages=messages, stated_task=_stated_task(record),
        structured=_structured(source), tools=bool(source.get("tools") or source.get("functions")),
        tool_turns=tool_turns, reasoning=reasoning, sampling=_sampling(source),
        prompt_tokens=_first(usage or {}, "prompt_tokens", "input_tokens") or _length(ids["prompt_token_ids"]),
        output_tokens=_first(usage or {}, "completion_tokens", "output_tokens")
        or _length(ids["generated_token_ids"]) or _length(ids["output_token_ids"]),
    )


def _length(ids: Any) -> float | None:
    return float(len(ids)) if isinstance(ids, list) and ids else None


def _first(record: Mapping[str, Any], *names: str) -> float | None:
    return next((value for name in names if (value := number(record.get(name))) is not None), None)


def _loaded(value: Any) -> Any:
    """JSON inside a string, as databases export it."""
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


BODIES = ("request.body", "request", "body", "kwargs", "proxy_server_request.body", "input", "data")
RESPONSES = ("response.body", "response", "completion", "result")


def _body(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for path in BODIES:
        found = _loaded(at(record, path))
        if isinstance(found, dict) and ({"messages", "prompt", "input"} & set(found)):
            return found
    return None


def _response(record: Mapping[str, Any]) -> Any:
    for path in RESPONSES:
        found = _loaded(at(record, path))
        if isinstance(found, dict) and ({"choices", "usage", "output"} & set(found)):
            return found
    return record if "choices" in record else None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


PROMPTS = ("prompt", "question", "instruction", "query_text", "user_prompt", "input_text", "input", "text", "context")


def _prompt(source: Mapping[str, Any]) -> tuple[str | None, tuple[dict[str, str], ...] | None, bool]:
    messages = _loaded(source.get("messages"))
    if not isinstance(messages, list) or not messages:
        messages = source.get("input") if isinstance(source.get("input"), list) else None
    if messages and all(isinstance(one, dict) for one in messages) and any("role" in one for one in messages):
        kept = tuple({"role": str(one.get("role") or "user"), "content": _text(one.get("content"))} for one in messages)
        return ("\n\n".join(one["content"] for one in kept), kept,
                any(one["role"] in ("tool", "function") for one in kept))
    turns = source.get("turns")
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        return turns[0], None, False
    for name in PROMPTS:
        found = source.get(name)
        if isinstance(found, list) and found and isinstance(found[0], str):
            found = found[0]
        if isinstance(found, str) and found:
            extra = [text for key in ("context", "input") if key != name
                     and isinstance(text := source.get(key), str) and text]
            return "\n\n".join([found, *extra]), None, False
    return None, None, False


OUTPUTS = ("output", "completion", "generated_text", "response", "answer", "canonical_solution", "output_text",
            "query", "reference", "target", "generation")


def _output(response: Any, record: Mapping[str, Any]) -> tuple[str | None, bool]:
    if isinstance(response, dict):
        choices = response.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = choice.get("message") if isinstance(choice.get("message"), dict) else {}
        thought = _text((message or {}).get("reasoning_content") or (message or {}).get("reasoning"))
        calls = (message or {}).get("tool_calls")
        called = "".join(str(at(one, "function.arguments") or "") for one in calls) if isinstance(calls, list) else ""
        said = thought + _text((message or {}).get("content")) + called or str(choice.get("text") or "")
        return said or None, bool(thought) or said.startswith("<think>")
    for name in OUTPUTS:
        found = record.get(name)
        if isinstance(found, str) and found:
            return found, found.startswith("<think>")
    return None, False


def _conversation(turns: list[Any]) -> View | None:
    """The first question and its answer, as vLLM's benchmark takes a conversation."""
    said = [(str(one.get("from", one.get("role", ""))), _text(one.get("value", one.get("content"))))
            for one in turns if isinstance(one, dict)]
    said = [one for one in said if one[0] != "system"]
    if len(said) < 2 or said[0][0] not in ("human", "user") or not said[0][1]:
        return None
    return View(prompt=said[0][1], output=said[1][1], turns=sum(who in ("gpt", "assistant") for who, _ in said),
                messages=({"role": "user", "content": said[0][1]},))


def _structured(source: Mapping[str, Any]) -> bool:
    kind = at(source, "response_format.type") or at(source, "text.format.type")
    extra = source.get("extra_body") if isinstance(source.get("extra_body"), dict) else {}
    keys = {*source, *(extra or {})}
    return kind in ("json_object", "json_schema", "structural_tag") or any(
        key.startswith("guided_") or key == "structured_outputs" for key in keys)


def _sampling(source: Mapping[str, Any]) -> dict[str, float]:
    names = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "n")
    inner = source.get("sampling_params") if isinstance(source.get("sampling_params"), dict) else {}
    found = {name: number(source.get(name, (inner or {}).get(name))) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _stated_task(record: Mapping[str, Any]) -> Task | None:
    for name in ("task", "task_family", "category"):
        if isinstance(record.get(name), str):
            try:
                return parse_task(_CATEGORIES.get(record[name].lower(), record[name]))
            except ValueError:
                continue
    return None


_CATEGORIES = {"coding": "code", "writing": "creative", "roleplay": "creative", "extraction": "json_sql",
               "math_reasoning": "math", "rag": "rag_long_context", "qa": "chat", "stem": "chat", "humanities": "chat"}
_CODE = re.compile(
    r"^#include [<\"]|```(?!json|sql|text|markdown)\w*\n|"
    r"^\s*(?:def|class|import|from \w+ import|public \w+|func|fn|const|let|var|package|using)\b[^.\n]{0,80}[:;({]?\s*$|"
    r"\b(?:python|javascript|typescript|golang|rust|c\+\+|java) (?:code|function|program|script|class)\b",
    re.MULTILINE | re.IGNORECASE)
_SQL = re.compile(r"\bSELECT\b.{1,400}\bFROM\b|\bINSERT INTO\b|\bCREATE TABLE\b|\bSQL\b", re.DOTALL)
_JSON = re.compile(r"\b(?:valid|as|in|return|output|respond with|only) (?:a |an )?JSON\b|JSON (?:object|schema|format)",
                   re.IGNORECASE)
_TRANSLATE = re.compile(r"\btranslat(?:e|ion)\b.{0,60}\b(?:to|into|from)\b", re.IGNORECASE | re.DOTALL)
_SUMMARY = re.compile(r"\b(?:summari[sz]e|tl;?dr|summary of|write a summary)\b", re.IGNORECASE)
_MATH = re.compile(r"\\boxed|\\frac|\bequation\b|\b(?:solve|calculate|compute) |\d.*\bhow (?:many|much|long|far|old)\b|"
                   r"\bhow (?:many|much|long|far|old)\b.*\d|[$€]\s?\d.*[$€]\s?\d|\d\s?%.*\?", re.IGNORECASE | re.DOTALL)
_CREATIVE = re.compile(r"\b(?:write|compose|tell)\b.{0,30}\b(?:story|poem|song|novel|haiku|lyrics|fairy tale|scene)\b",
                       re.IGNORECASE)


def task_of(view: View) -> Task:
    """The task family by cheap signals, the surest first; a stated one wins."""
    if view.stated_task is not None:
        return view.stated_task
    head = view.prompt[:_LOOKED_AT] if len(view.prompt) <= _LOOKED_AT else (
        view.prompt[:_LOOKED_AT // 2] + view.prompt[-_LOOKED_AT // 2:])
    output = (view.output or "")[:_LOOKED_AT]
    if view.tool_turns:
        return Task.AGENT
    if view.structured or view.tools or _is_json(output) or _JSON.search(head) or (_SQL.search(output) or
                                                                                    _SQL.search(head)):
        return Task.JSON_SQL
    for task, where, pattern in ((Task.CODE, output + "\n" + head, _CODE), (Task.TRANSLATION, head, _TRANSLATE),
                                 (Task.SUMMARIZATION, head, _SUMMARY), (Task.MATH, head, _MATH),
                                 (Task.CREATIVE, head, _CREATIVE)):
        if pattern.search(where):
            return task
    if view.reasoning:
        return Task.REASONING
    return Task.RAG_LONG_CONTEXT if len(view.prompt) > LONG_PROMPT_CHARS else Task.CHAT


def _is_json(text: str) -> bool:
    text = text.strip().removeprefix("```json").removesuffix("```").strip()
    return len(text) > 1 and '"' in text and text[0] + text[-1] in ("{}", "[]")


def copied_share(view: View) -> float | None:
    """Share of the answer's 4-word runs that stand in the prompt too; None where the answer is shorter than one."""
    words = (view.output or "")[:_LOOKED_AT].split()
    if len(words) < _GRAM:
        return None
    source = view.prompt[-4 * _LOOKED_AT:].split()
    known = {tuple(source[i:i + _GRAM]) for i in range(len(source) - _GRAM + 1)}
    runs = [tuple(words[i:i + _GRAM]) for i in range(len(words) - _GRAM + 1)]
    return sum(run in known for run in runs) / len(runs)


BYTES_PER_TOKEN = 4.0
"""Of UTF-8: 4 ASCII characters to a token, 1.3 of scripts without blanks."""


def estimated_tokens(text: str) -> float:
    """Tokens assumed from a text's size."""
    return max(1.0, len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN) if text else 0.0
