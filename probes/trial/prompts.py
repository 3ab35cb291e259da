"""Which prompts a trial runs: the user's own JSONL, or the built-in task sets (tasks/README.md says whose they are).

Text lives in memory only. What leaves this module for evidence is `prompts_summary`: counts, lengths and one hash.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from probes.chat import content_text
from profiles.errors import InputError
from profiles.evidence import PromptSummary
from profiles.reading import read_whole
from profiles.workload import Task, parse_task

BUILT_IN_TASKS: tuple[Task, ...] = (
    Task.CODE, Task.JSON_SQL, Task.CHAT, Task.SUMMARIZATION, Task.CREATIVE, Task.RAG_LONG_CONTEXT,
)
"""Task families with a set of their own. Every other family runs MIXED_TASKS, each prompt under its own family."""

MIXED_TASKS: tuple[Task, ...] = (Task.CODE, Task.JSON_SQL, Task.CHAT, Task.SUMMARIZATION, Task.CREATIVE)
"""What stands for `mixed` and for families without a set."""

_LINES_NAMED = 5
MAX_BYTES = 256 * 2**20
"""Of a file of prompts: a few dozen of them are run."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """One request to be: raw text for completion, or chat messages; exactly one of the two is set."""

    task: Task
    id: str
    """Unique within a set, and free of the user's own text."""
    text: str | None = None
    messages: tuple[Message, ...] | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.messages is None):
            raise ValueError(f"prompt {self.id} needs either text or messages")

    def as_text(self) -> str:
        """The text itself, or the messages' contents with blank lines between, for models without a chat template."""
        if self.text is not None:
            return self.text
        return "\n\n".join(m.content for m in self.messages or ())

    def as_messages(self) -> list[dict[str, str]]:
        """The messages as the OpenAI API takes them; raw text becomes one user message."""
        if self.messages is None:
            return [{"role": "user", "content": self.text or ""}]
        return [{"role": m.role, "content": m.content} for m in self.messages]


def load_prompts(
    path: Path | None, tasks: Iterable[Task], *, note: Callable[[str], None] | None = None
) -> list[Prompt]:
    """Prompts of the file at `path`, or the built-in ones of `tasks` when `path` is None.

    A line of the file is a JSON object with `prompt` or `text` (a string), or `messages` ([{role, content}, ...]), or
    an OpenAI batch request (`body` holds one of these); `task` is optional. Lines that are none of this are counted
    and told to `note` with the numbers of the first ones. Built-in sets of several tasks come interleaved, so that
    any beginning of the list holds every task.

    Raises InputError: unreadable or empty file, or more bad lines than good ones.
    """
    wanted = tuple(dict.fromkeys(tasks))
    if path is None:
        return _built_in(wanted)
    return _from_file(path, wanted[0] if len(wanted) == 1 else Task.MIXED, note)


def prompts_summary(
    prompts: Sequence[Prompt], source: str = "built-in", mean_prompt_tokens: float | None = None
) -> PromptSummary:
    """What evidence may say of the prompts: how many, of which tasks, how long, and a sha256 that ties runs together.

    `source` is `built-in` or the file's name (its folder is dropped: paths tell more than they should).
    """
    canonical = json.dumps(
        [[p.task.value, p.text if p.text is not None else p.as_messages()] for p in prompts],
        ensure_ascii=False, separators=(",", ":"),
    )
    return PromptSummary(
        source=source if source == "built-in" else Path(source).name,
        count=len(prompts),
        by_task=dict(Counter(p.task for p in prompts)),
        mean_prompt_tokens=mean_prompt_tokens,
        sha256=hashlib.sha256(canonical.encode("utf-8")).hexdigest(),
    )


def built_in_passages() -> dict[str, str]:
    """Name to text of the passages written for this project (370 to 415 words each)."""
    rows = (json.loads(line) for line in _data_lines("passages"))
    return {str(row["passage"]): str(row["text"]) for row in rows}


def _data_lines(name: str) -> list[str]:
    text = files("probes.trial").joinpath("tasks", f"{name}.jsonl").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line.strip()]


def _built_in(wanted: Sequence[Task]) -> list[Prompt]:
    names: dict[Task, None] = {}
    for task in wanted or (Task.MIXED,):
        names.update(dict.fromkeys((task,) if task in BUILT_IN_TASKS else MIXED_TASKS))
    sets = [_built_in_set(task) for task in names]
    longest = max(len(s) for s in sets)
    return [s[i] for i in range(longest) for s in sets if i < len(s)]


def _built_in_set(task: Task) -> list[Prompt]:
    passages = built_in_passages()
    prompts = []
    for line in _data_lines(task.value):
        row = json.loads(line)
        parts = [str(row["messages"][0]["content"]), *(passages[name] for name in row.get("passages", ()))]
        prompts.append(Prompt(task, str(row["id"]), messages=(Message("user", "\n\n".join(parts)),)))
    return prompts


def _from_file(path: Path, default: Task, note: Callable[[str], None] | None) -> list[Prompt]:
    data = read_whole(path, "a JSONL file with one prompt a line, or none for the built-in sets", MAX_BYTES)
    prompts: list[Prompt] = []
    bad: list[tuple[int, str]] = []
    # Only \n ends a line: U+2028, U+0085 and their kind are ordinary characters inside a prompt, and str.splitlines
    # would cut there.
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            prompts.append(_parse(raw, number, default))
        except (ValueError, RecursionError) as error:
            bad.append((number, str(error) if not isinstance(error, RecursionError) else "nested too deeply"))
    if bad:
        numbers = ", ".join(str(n) for n, _ in bad[:_LINES_NAMED]) + (", ..." if len(bad) > _LINES_NAMED else "")
        said = (f"{len(bad)} of {len(bad) + len(prompts)} lines of {path.name} are no prompts "
                f"(line {numbers}; line {bad[0][0]}: {bad[0][1]})")
        if len(bad) > len(prompts):
            raise InputError(f'{said}; expected JSON objects like {{"prompt": "..."}} or {{"messages": [...]}}, one a '
                             "line: correct the file and run again")
        if note is not None:
            note(f"{said}; they are left out")
    if not prompts:
        raise InputError(f'the prompts {path} are empty: expected JSON objects like {{"prompt": "..."}} or '
                         '{"messages": [...]}, one a line')
    return prompts


def _parse(raw: bytes, number: int, default: Task) -> Prompt:
    """One line to a prompt; ValueError says what is wrong without repeating the line."""
    try:
        row = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    try:
        task = parse_task(row["task"]) if isinstance(row.get("task"), str) else default
    except ValueError:
        raise ValueError("`task` is no known task family") from None
    if row.get("task") is not None and not isinstance(row["task"], str):
        raise ValueError("`task` is not a string")
    body = row.get("body", row)
    if not isinstance(body, dict):
        raise ValueError("`body` is not a JSON object")
    prompt = _content(body, number, task)
    try:
        prompt.as_text().encode("utf-8")
        "".join(m["role"] for m in prompt.as_messages()).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which no server accepts") from None
    return prompt


def _content(body: dict[str, Any], number: int, task: Task) -> Prompt:
    name = f"line-{number}"
    if body.get("messages") is not None:
        messages = body["messages"]
        if not isinstance(messages, list) or not messages:
            raise ValueError("`messages` is not a list of {role, content}")
        turns = tuple(_message(m) for m in messages)
        if not any(turn.content.strip() for turn in turns):
            raise ValueError("every message is empty")
        return Prompt(task, name, messages=turns)
    for key in ("prompt", "text"):
        if body.get(key) is not None:
            if not isinstance(body[key], str) or not body[key].strip():
                raise ValueError(f"`{key}` is not a text")
            return Prompt(task, name, text=body[key])
    raise ValueError("has neither `prompt`, `text` nor `messages`")


def _message(value: object) -> Message:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str) or not value["role"].strip():
        raise ValueError("a message is not {role, content}")
    content = content_text(value.get("content"))
    if content is None:
        raise ValueError("a message has no text")
    return Message(value["role"], content)
