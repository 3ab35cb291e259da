"""Synthetic logs: small files of the shape each tool writes, with made-up numbers and texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def jsonl(path: Path, rows: Iterable[Any]) -> str:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def document(path: Path, value: Any) -> str:
    return write(path, json.dumps(value, indent=1))


def azure(path: Path, rows: Sequence[tuple[float, int, int]]) -> str:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    lines += [f"2023-11-16 18:{int(t) // 60:02d}:{t % 60:010.7f},{p},{o}" for t, p, o in rows]
    return write(path, "\n".join(lines) + "\n")


def chat(prompt: str, answer: str, *, tokens: tuple[int, int] | None = (10, 5), **extra: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": prompt}], **extra}
    response: dict[str, Any] = {"object": "chat.completion", "created": 1_700_000_000, "model": "m",
                                "choices": [{"message": {"role": "assistant", "content": answer}}]}
    if tokens is not None:
        response["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return {"request": body, "response": response}
