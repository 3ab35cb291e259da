"""What comes from outside drives no terminal, in text or in JSON, and loses nothing else."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.printable import escaped, plain

ANY = st.text(st.characters(exclude_categories=()))
"""Halves of surrogate pairs included."""


def hidden(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.mark.parametrize(("text", "shown"), [
    ("org/model-8B", "org/model-8B"), ("\x1b[2Jm", "�[2Jm"), ("a\x9b31mb", "a�31mb"), ("a\u202eb", "a�b"),
    ("a\r\nb", "a��b"), ("\ud83d", "�"), ("模型 é", "模型 é"), ("\x07\x00", "��"),
])
def test_a_name_keeps_what_can_be_read_and_loses_what_moves_a_cursor(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_line_breaks_stay_where_several_lines_are_meant() -> None:
    assert plain("a:\n\tb\x1b", lines=True) == "a:\n\tb�"


@given(ANY)
def test_nothing_hidden_is_left_and_every_visible_character_is(text: str) -> None:
    found = plain(text)
    assert not hidden(found)
    assert len(found) == len(text)
    assert all(after == before or (after == "�" and hidden(before)) for before, after in zip(text, found, strict=True))


@given(st.dictionaries(ANY, ANY, max_size=4))
def test_escaped_json_means_the_same_and_hides_nothing(document: dict[str, str]) -> None:
    written = escaped(json.dumps(document, ensure_ascii=False))
    assert not hidden(written)
    # Two halves that stand next to each other are one character to every reader of JSON.
    assert json.loads(written) == json.loads(json.dumps(document))
