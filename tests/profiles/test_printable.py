"""What comes from outside drives no terminal, in text or in JSON, and loses nothing else."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.errors import InputError, ModelNotFound, ProbeError
from profiles.printable import escaped, masked, plain

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


# --- keys
@pytest.mark.parametrize(("text", "shown"), [
    ("no GPU is called 'hf_abcdefghij0123456789ABCD'", "no GPU is called 'hf_***'"),
    ("sk-proj-abcdefghij0123456789", "sk-proj-***"), ("(sk-ant-api03-abcdefghij0123)", "(sk-ant-***)"),
    ("ghp_abcdefghij0123456789", "ghp_***"), ("github_pat_11ABCDEFG0abcdefghij", "github_pat_***"),
    ("glpat-abcdefghij0123456789", "glpat-***"), ("AKIAIOSFODNN7EXAMPLE", "AKIA***"),
    ("nvapi-abcdefghij0123456789", "nvapi-***"), ("xoxb-1234567890-abcdef", "xoxb-***"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def", "eyJ***"),
    ("header 'Authorization: Bearer abcdef0123456789'", "header 'Authorization: Bearer ***'"),
    ("HF_TOKEN=hush-hush is no folder", "HF_TOKEN=*** is no folder"), ("--api-key=hushhush", "--api-key=***"),
    ("http://host/metrics?api_key=hush1&x=1", "http://host/metrics?api_key=***&x=1"),
    ("cannot read https://user:hush@host/x", "cannot read https://***@host/x"),
])
def test_what_looks_like_a_key_is_not_quoted_back(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize("text", [
    "meta-llama/Llama-3.1-8B-Instruct", "hf-internal-testing/tiny-random", "hf_overrides has no key 'x'",
    "hf_hub_cache",
    "sk-learn", "max_num_batched_tokens: expected a number", "--token-env names a variable", "bearer authentication",
    "prompt_tokens=ContextTokens,output=GeneratedTokens", "http://host:8000/metrics", "engine.env.HF_TOKEN is a secret",
    "revision 0123456789abcdef0123456789abcdef01234567", "/models/task-oriented-8B", "risk-adjusted-1234567890",
])
def test_names_and_sentences_stay_as_they_are(text: str) -> None:
    assert masked(text) == text


def test_every_error_of_this_tool_is_masked_wherever_it_goes() -> None:
    for kind in (InputError, ProbeError, ModelNotFound):
        assert str(kind("no such model: hf_abcdefghij0123456789")) == "no such model: hf_***"


def test_a_long_value_is_looked_through_in_no_time_to_speak_of() -> None:
    for piece in ("a-", "eyJ-", "sk-", "x://", "token", "hf_"):
        assert masked(piece * 20_000) == piece * 20_000
