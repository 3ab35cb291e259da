"""Texts read as columns by the table engine give what reading them one by one gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.requests import Options, probe_requests
from probes.requests.recognise import head
from probes.requests.sources import expand
from probes.requests.text_columns import text_plan
from tests.probes.requests.synthetic_logs import chat, document, jsonl, write

QUESTION, ANSWER = "What is asked here? " * 9, "Das ist die Antwort: äöü. " * 5
USER, ASSISTANT = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}
PARTS = {"role": "user", "content": [{"type": "text", "text": QUESTION},
                                     {"type": "image_url", "image_url": {"url": "x"}}]}
CALL = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": "ccccccccccc"}'}}]}}]}
THOUGHT = {"choices": [{"message": {"role": "assistant", "content": ANSWER, "reasoning_content": "hm " * 30}}]}
SHAPES: dict[str, Any] = {
    "prompt and output": {"prompt": QUESTION, "output": ANSWER},
    "question and answer": {"question": QUESTION, "answer": ANSWER},
    "with a context": {"question": QUESTION, "context": "Something longer. " * 40, "answer": ANSWER},
    "an instruction with input": {"instruction": QUESTION, "input": "More of it.", "output": ANSWER},
    "prompt alone": {"prompt": QUESTION},
    "a prompt in brackets": {"prompt": f"[INST] {QUESTION} [/INST]", "completion": ANSWER},
    "turns": {"turns": [QUESTION, "and more"], "category": "coding"},
    "messages alone": {"messages": [USER]},
    "messages with their answer": {"messages": [{"role": "system", "content": "Be brief."}, USER, ASSISTANT]},
    "messages in parts": {"messages": [PARTS]},
    "request and response": chat(QUESTION, ANSWER, tokens=None),
    "batch file": {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {
        "model": "m", "messages": [USER], "temperature": 0.5}},
    "batch answers": {"request": {"body": {"messages": [USER]}},
                      "response": {"status_code": 200, "body": {"choices": [{"message": ASSISTANT}]}}},
    "completions": {"request": {"prompt": QUESTION}, "response": {"choices": [{"text": ANSWER}]}},
    "a tool call": {"request": {"messages": [USER]}, "response": CALL},
    "reasoning": {"request": {"messages": [USER]}, "response": THOUGHT},
    "conversation": {"conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": ANSWER}]},
    "conversation with a system turn": {"conversations": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}, ASSISTANT]},
    "token ids": {"prompt_token_ids": list(range(40)), "generated_token_ids": list(range(9))},
}


def plan_for(path: str, tmp_path: Path) -> Any:
    return text_plan(head(expand([path], tmp_path)[0]))


def both_ways(tmp_path: Path, rows: list[Any]) -> tuple[Any, Any]:
    """As columns, and as one JSON document, whose records are read one by one."""
    lenient = Options(lenient=True)
    return (probe_requests([jsonl(tmp_path / "c.jsonl", rows)], lenient),
            probe_requests([document(tmp_path / "d.json", rows)], lenient))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read_as_columns_with_the_same_figures(tmp_path: Path, shape: str) -> None:
    row = SHAPES[shape]
    assert plan_for(jsonl(tmp_path / "p.jsonl", [row] * 3), tmp_path) is not None
    more = {**row, "timestamp": 1_700_000_000, **({"custom_id": "2"} if "custom_id" in row else {})}
    columns, one_by_one = both_ways(tmp_path, [row, more])
    assert columns.requests == one_by_one.requests == 2
    assert columns.prompt_tokens == one_by_one.prompt_tokens
    assert columns.output_tokens == one_by_one.output_tokens
    assert columns.tokens_from == one_by_one.tokens_from
    assert columns.text is not None or shape == "token ids"
    assert columns.text == one_by_one.text


def test_records_of_several_shapes_in_one_file_are_read_together(tmp_path: Path) -> None:
    rows = [SHAPES["request and response"], SHAPES["messages alone"], SHAPES["prompt and output"]] * 2
    columns, one_by_one = both_ways(tmp_path, rows)
    assert columns.requests == one_by_one.requests == 6
    assert columns.prompt_tokens == one_by_one.prompt_tokens
    assert columns.output_tokens == one_by_one.output_tokens


def test_a_shape_that_has_no_columns_is_read_record_by_record(tmp_path: Path) -> None:
    row = {"request": json.dumps({"messages": [USER]}), "response": json.dumps({"choices": [{"message": ASSISTANT}]})}
    path = jsonl(tmp_path / "s.jsonl", [row] * 3)
    assert plan_for(path, tmp_path) is None
    found = probe_requests([path])
    assert found.requests == 3
    assert found.prompt_tokens is not None
    assert found.output_tokens is not None


def test_torn_and_empty_records_are_counted_as_columns_too(tmp_path: Path) -> None:
    good = json.dumps(SHAPES["prompt and output"])
    found = probe_requests([write(tmp_path / "t.jsonl",
                                  f"{good}\n" * 5 + "torn {\n" + '{"prompt": "", "output": "x"}\n')])
    assert found.requests == 5
    assert found.skipped["not JSON"] == 1
    assert sum(found.skipped.values()) == 2
    assert "t.jsonl:6" in found.skipped_at["not JSON"]


def test_the_texts_of_a_large_file_are_looked_at_in_part_and_that_is_said(tmp_path: Path) -> None:
    rows = [{"prompt": f"Write python code for {i}" if i % 2 else f"Hello number {i}", "output": "x" * 400}
            for i in range(12_000)]
    found = probe_requests([jsonl(tmp_path / "l.jsonl", rows)])
    assert found.requests == 12_000
    assert found.text is not None
    assert 500 < found.text.requests < 4000
    assert sum(found.text.tasks.values()) == pytest.approx(1.0)
    assert min(found.text.tasks.values()) > 0.4
    assert any("drawn from" in note for note in found.notes)


def test_a_tokenizer_is_not_passed_over(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `logs` is not installed")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    found = probe_requests([jsonl(tmp_path / "t.jsonl", [{"prompt": "a b c", "output": "d e"}] * 2)],
                           Options(tokenizer=tmp_path))
    assert found.prompt_tokens is not None
    assert found.prompt_tokens.mean == 3


TEXTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=40)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from(["plain", "messages", "response"])), min_size=1, max_size=6))
def test_whatever_the_texts_both_ways_agree(tmp_path: Path, records: list[tuple[str, str, str]]) -> None:
    def row(prompt: str, output: str, kind: str) -> Any:
        if kind == "plain":
            return {"prompt": prompt, "output": output}
        if kind == "messages":
            return {"messages": [{"role": "user", "content": prompt}]}
        return {"request": {"messages": [{"role": "user", "content": prompt}]},
                "response": {"choices": [{"message": {"content": output}}]}}

    rows = [{"prompt": "one that is there", "output": "and its answer"}] * 9 + [row(*one) for one in records]
    columns, one_by_one = both_ways(tmp_path, rows)
    assert columns.requests == one_by_one.requests
    assert columns.prompt_tokens == one_by_one.prompt_tokens
    assert columns.output_tokens == one_by_one.output_tokens
