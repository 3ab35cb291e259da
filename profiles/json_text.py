"""JSON from people: as strict about what it cannot mean as the YAML reader is.

Python's parser keeps the last of two equal keys, reads NaN and Infinity, turns 1e400 into infinity, and recurses as
deep as the text does. None of that is ever meant in a config.
"""

from __future__ import annotations

import json
import math
from typing import Any

from profiles.errors import InputError
from profiles.schema import shown

MAX_DEPTH = 60
"""Deepest nesting, as in YAML."""


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text.

    Args:
        where: begins every sentence, such as `vllm.yaml:7: speculative-config`.

    Raises:
        InputError: a key stands twice, a number is not finite or has thousands of digits, or it nests too deeply.
        json.JSONDecodeError: the text is no JSON, for the caller to say what was expected.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in items:
            if key in found:
                raise InputError(f"{where}: key {shown(key)} stands twice in the same mapping; keep one")
            found[key] = value
        return found

    def constant(name: str) -> Any:
        raise InputError(f"{where}: {name} is no JSON number; write a finite one")

    def decimal(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise InputError(f"{where}: {shown(digits)} is too large a number; write a finite one")
        return value

    def whole(digits: str) -> int:
        if len(digits) > 1000:
            raise InputError(f"{where}: a number of {len(digits):,} digits; write one that an option can have")
        return int(digits)

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=decimal, parse_int=whole)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply: expected at most {MAX_DEPTH} levels; flatten it") from None
    _refuse_depth(value, where)
    return value


def _refuse_depth(value: Any, where: str) -> None:
    level, depth = [value], 0
    while level:
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        depth += 1
        if depth > MAX_DEPTH:
            raise InputError(f"{where}: nested too deeply: expected at most {MAX_DEPTH} levels; flatten it")


_PROBLEMS = {
    "Expecting value": "a value is missing or misspelt",
    "Expecting property name": "a key in double quotes is missing",
    "Expecting ':'": "a colon is missing behind a key",
    "Expecting ','": "a comma or a closing bracket is missing",
    "Extra data": "something stands behind its end",
    "Unterminated string": "a text in quotes is not closed",
    "Invalid control character": "a control character stands in a text",
    "Invalid \\": "a backslash stands before what it cannot",
    "Illegal trailing comma": "a comma stands before a closing bracket",
    "Unexpected UTF-8 BOM": "a byte-order mark stands before it",
}


def json_problem(error: Exception) -> str:
    """Why a file or text is no JSON, in this tool's words: the parser's own are Python's."""
    if isinstance(error, OSError):
        return error.strerror or "it cannot be read"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if not isinstance(error, json.JSONDecodeError):
        # The one other thing it refuses is a whole number that takes too long to read.
        return "a number has too many digits"
    return next((words for begin, words in _PROBLEMS.items() if error.msg.startswith(begin)), "it breaks off")
