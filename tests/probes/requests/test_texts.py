"""What a text says of its request: task, copying, sampling, length."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.requests import Options, probe_requests
from probes.requests.prompt_sample import half_width, requests_needed, sample_prompts
from probes.requests.texts import View, copied_share, estimated_tokens, task_of, view_of
from probes.trial.prompts import load_prompts
from profiles.errors import InputError
from profiles.workload import Task
from tests.probes.requests.synthetic_logs import azure, chat, jsonl


@pytest.mark.parametrize(("view", "task"), [
    (View("Write a function", "```python\ndef f():\n    return 1\n```"), Task.CODE),
    (View("#include <stdio.h>\nint main() {}"), Task.CODE),
    (View("List the users", "SELECT name FROM users WHERE age > 3;"), Task.JSON_SQL),
    (View("Extract the names as JSON", '{"names": []}'), Task.JSON_SQL),
    (View("What's the weather?", tools=True), Task.JSON_SQL),
    (View("What's the weather?", tools=True, tool_turns=True), Task.AGENT),
    (View("Translate this sentence into German: hello"), Task.TRANSLATION),
    (View("Please summarize the following article: ..."), Task.SUMMARIZATION),
    (View("Tom has 3 apples and buys 4. How many apples does he have?"), Task.MATH),
    (View("Write a short story about a lighthouse."), Task.CREATIVE),
    (View("Why is the sky blue?", "<think>hm</think> Because", reasoning=True), Task.REASONING),
    (View("The report says nothing new. " * 700), Task.RAG_LONG_CONTEXT),
    (View("Hello, who are you?", "I am an assistant."), Task.CHAT),
    (View("Hello", stated_task=Task.MATH), Task.MATH),
])
def test_tasks_are_told_by_cheap_signals(view: View, task: Task) -> None:
    assert task_of(view) is task


def test_copying_counts_runs_of_four_words() -> None:
    assert copied_share(View("a b c d e f", "a b c d e f")) == 1.0
    assert copied_share(View("a b c d", "a b c d x")) == 0.5
    assert copied_share(View("a b c d", "w x y z")) == 0.0
    assert copied_share(View("a b c d", "a b")) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
                        "messages", "role", "content", "prompt", "request", "response", "body", "choices", "message",
                        "conversations", "from", "value", "usage", "input", "turns", "tools", "text", "tool_calls",
                        "response_format", "extra_body", "sampling_params", "prompt_token_ids", "category",
                    ]), inner, max_size=4), max_leaves=20))
def test_no_record_whatever_breaks_the_look_at_its_text(record: object) -> None:
    view = view_of(record)
    if view is not None:
        assert isinstance(task_of(view), Task)
        copied_share(view)


@given(st.text(max_size=50), st.text(max_size=50))
def test_estimated_tokens_grow_with_the_text(one: str, more: str) -> None:
    assert estimated_tokens(one) <= estimated_tokens(one + more) + 1
    assert (estimated_tokens(one) == 0) == (not one)


def test_structured_output_and_tools_are_counted(tmp_path: Path) -> None:
    rows = [chat("q", "a", response_format={"type": "json_schema"}), chat("q", "a", tools=[{"type": "function"}]),
            chat("q", "a", extra_body={"guided_regex": "x"}), chat("q", "a")]
    text = probe_requests([jsonl(tmp_path / "s.jsonl", rows)]).text
    assert text is not None
    assert text.structured_output is not None
    assert text.tool_calls is not None
    assert (text.requests, text.structured_output.value, text.tool_calls.value) == (4, 0.75, 0.25)


def test_a_tokenizer_folder_counts_exactly(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `logs` is not installed")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    path = jsonl(tmp_path / "t.jsonl", [chat("a a a a a", "a a", tokens=None)] * 3)
    found = probe_requests([path], Options(tokenizer=tmp_path))
    assert found.prompt_tokens is not None
    assert (found.prompt_tokens.mean, found.tokens_from) == (5, f"the tokenizer {tmp_path.name}")


def test_a_folder_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        probe_requests([jsonl(tmp_path / "t.jsonl", [chat("a", "b")])], Options(tokenizer=tmp_path))


# --- sampling prompts ------------------------------------------------------------------------------------------------
def test_the_sample_holds_every_task_and_is_what_a_trial_takes(tmp_path: Path) -> None:
    rows = [chat(f"Hello number {i}", "hi") for i in range(80)]
    rows += [chat(f"Write python code for {i}", "x") for i in range(18)] + [chat("Translate x to German", "y")] * 2
    sample = sample_prompts([jsonl(tmp_path / "l.jsonl", rows)], 20)
    assert len(sample.lines) == 20
    assert {Task.CHAT, Task.CODE, Task.TRANSLATION} <= set(sample.by_task)
    assert sample.by_task[Task.CHAT] > sample.by_task[Task.CODE] > sample.by_task[Task.TRANSLATION]
    out = tmp_path / "p.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in sample.lines))
    assert {one.task for one in load_prompts(out, [])} == set(sample.by_task)


def test_the_same_seed_draws_the_same_and_no_more_than_there_are(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "l.jsonl", [chat(f"Hello number {i}", "hi") for i in range(9)])
    assert sample_prompts([path], 5, seed=3).lines == sample_prompts([path], 5, seed=3).lines
    assert len(sample_prompts([path], 50).lines) == 9


def test_traces_without_text_have_no_prompts_to_draw(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no text"):
        sample_prompts([azure(tmp_path / "a.csv", [(0.0, 1, 1), (1.0, 1, 1)])], 3)


@given(st.floats(0.005, 0.5))
def test_the_needed_number_gives_the_wanted_interval_and_one_less_does_not(width: float) -> None:
    needed = requests_needed(width)
    assert half_width(needed) <= width * (1 + 1e-9)
    assert needed == 1 or half_width(needed - 1) > width * (1 - 1e-9)
    assert math.isfinite(half_width(needed))


def test_a_temperature_that_cannot_be_is_in_no_summary_of_the_texts(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"prompt": "good day", "output": "and to you", "temperature": heat}) + "\n"
                           for heat in (-1, -1, 1e9, 0.5)))
    found = probe_requests([str(log)], Options())
    assert found.text is not None
    assert (found.text.sampling["temperature"].requests, found.text.sampling["temperature"].usual) == (1, 0.5)
