"""Reads the workload of `check --workload`: JSON whose every mistake is one sentence with its line and field."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import ValidationError

from advisor.checks.subject import ExpectedWorkload
from profiles.errors import InputError
from profiles.json_text import json_problem, parse_json
from profiles.mistakes import given, mistake, place_of
from profiles.workload import parse_task
from profiles.yaml_lines import KeyPath, read_text

_FIELDS = tuple(ExpectedWorkload.model_fields)
_EXPECTED = f"a JSON object with {', '.join(_FIELDS)}, all of them optional"
_THEN = "correct it and run again"


def load_workload(path: Path) -> ExpectedWorkload:
    """The workload; null is the same as left out, and so is an empty file.

    InputError names the file, the line, the field, its value and what was expected.
    """
    text = read_text(path, "a JSON file")
    try:
        stated = parse_json(text, str(path)) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON ({json_problem(error)}): expected {_EXPECTED}; {_THEN}") \
            from None
    if not isinstance(stated, dict):
        raise InputError(f"{path}:1: the workload is {given(stated)}: expected {_EXPECTED}; {_THEN}")
    try:
        found = ExpectedWorkload.model_validate({name: value for name, value in stated.items() if value is not None})
    except ValidationError as error:
        places = [(place_of(detail), mistake(detail, "the workload", _FIELDS))
                  for detail in error.errors(include_url=False)]
        raise InputError("\n".join(f"{path}:{_line(text, place)}: {said}; {_THEN}" for place, said in places)) from None
    try:
        parse_task(found.task or "mixed")
    except ValueError as error:
        raise InputError(f"{path}:{_line(text, ('task',))}: task: {error}; {_THEN}") from None
    return found


def _line(text: str, place: KeyPath) -> int:
    """The line of a field, from 1; the first one where it stands nowhere as it is called."""
    found = re.search(rf"{re.escape(json.dumps(place[0], ensure_ascii=False))}\s*:", text) if place else None
    return text.count("\n", 0, found.start()) + 1 if found is not None else 1
