"""Why a text is no JSON is said in this tool's words, not in Python's."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.json_text import json_problem

PARSERS = re.compile(r"Expecting|Extra data|Unterminated|Invalid|delimiter|char \d|enclosed|codec|Exceeds")


def problem(text: str | bytes) -> str:
    with pytest.raises((ValueError, RecursionError)) as caught:
        json.loads(text.decode() if isinstance(text, bytes) else text)
    return json_problem(caught.value)


@pytest.mark.parametrize(("text", "said"), [
    ("", "a value is missing"), ("{", "a key in double quotes is missing"), ("{'a': 1}", "a key in double quotes"),
    ('{"a" 1}', "a colon is missing"), ('{"a": 1 "b": 2}', "a comma or a closing bracket is missing"),
    ('{"a": 1} x', "something stands behind its end"), ('"a', "a text in quotes is not closed"),
    ('"a\nb"', "a control character stands in a text"), (r'"\q"', "a backslash stands before what it cannot"),
    (r'"\u12"', "a backslash stands before what it cannot"), ("[" * 100_000, "nested too deeply"),
    ("9" * 5000, "a number has too many digits"), (b"\xff", "not UTF-8 text"),
])
def test_each_problem_has_its_words(text: str | bytes, said: str) -> None:
    assert said in problem(text)


@given(st.text('{}[]",:\\ \n\t0123456789.eE-+truefalsnNI', max_size=12))
def test_no_text_makes_the_parser_speak(text: str) -> None:
    said = ""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        said = json_problem(error)
    assert not PARSERS.search(said)


def test_what_the_system_refuses_is_its_own_reason() -> None:
    assert json_problem(PermissionError(13, "Permission denied", "/secret")) == "Permission denied"
