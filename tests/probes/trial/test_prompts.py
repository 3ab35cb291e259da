"""Prompts: the built-in sets hold what they promise; the user's file is read to the letter, its faults are told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.trial.prompts import (
    BUILT_IN_TASKS,
    MIXED_TASKS,
    Message,
    Prompt,
    built_in_passages,
    load_prompts,
    prompts_summary,
)
from profiles.errors import InputError
from profiles.workload import Task


def written(tmp_path: Path, *lines: object, raw: bytes | None = None) -> Path:
    path = tmp_path / "mine.jsonl"
    text = "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    path.write_bytes(raw if raw is not None else text.encode("utf-8"))
    return path


@pytest.mark.parametrize("task", BUILT_IN_TASKS)
def test_every_built_in_set_has_24_different_prompts_of_its_task(task: Task) -> None:
    prompts = load_prompts(None, [task])
    assert len(prompts) >= 24
    assert {p.task for p in prompts} == {task}
    assert len({p.as_text() for p in prompts}) == len(prompts)
    assert len({p.id for p in prompts}) == len(prompts)


def test_passages_are_distinct_and_250_to_600_words_long() -> None:
    passages = built_in_passages()
    assert len(passages) >= 6
    assert len({text[:40] for text in passages.values()}) == len(passages)
    assert all(250 <= len(text.split()) <= 600 for text in passages.values())


def test_every_summarization_prompt_carries_its_passage() -> None:
    passages = built_in_passages()
    used = [next(name for name, text in passages.items() if text in p.as_text())
            for p in load_prompts(None, [Task.SUMMARIZATION])]
    assert set(used[:8]) == set(passages), "the first prompts already use every passage"


def test_several_tasks_come_interleaved_so_that_a_beginning_holds_each() -> None:
    prompts = load_prompts(None, [Task.CODE, Task.CREATIVE])
    assert [p.task for p in prompts[:4]] == [Task.CODE, Task.CREATIVE, Task.CODE, Task.CREATIVE]


@pytest.mark.parametrize("task", [Task.MIXED, Task.TRANSLATION])
def test_a_family_without_a_set_runs_the_mix_under_the_prompts_own_families(task: Task) -> None:
    assert {p.task for p in load_prompts(None, [task])} == set(MIXED_TASKS)


@pytest.mark.parametrize(("line", "expected"), [
    ({"prompt": "Say hi"}, Prompt(Task.CHAT, "line-1", text="Say hi")),
    ({"text": "Say hi", "task": "sql"}, Prompt(Task.JSON_SQL, "line-1", text="Say hi")),
    ({"messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]},
     Prompt(Task.CHAT, "line-1", messages=(Message("system", "Be brief"), Message("user", "Hi")))),
    ({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
      "body": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}},
     Prompt(Task.CHAT, "line-1", messages=(Message("user", "Hi"),))),
    ({"body": {"prompt": "Once"}}, Prompt(Task.CHAT, "line-1", text="Once")),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
     Prompt(Task.CHAT, "line-1", messages=(Message("user", "ab"),))),
])
def test_reads_the_shapes_people_have(tmp_path: Path, line: object, expected: Prompt) -> None:
    assert load_prompts(written(tmp_path, line), [Task.CHAT]) == [expected]


def test_user_prompts_without_task_count_as_mixed_for_a_workload_of_several(tmp_path: Path) -> None:
    assert load_prompts(written(tmp_path, {"prompt": "x"}), [Task.CHAT, Task.CODE])[0].task is Task.MIXED


def test_line_separators_of_unicode_stay_inside_the_prompt(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive\x0csix"
    prompts = load_prompts(written(tmp_path, {"prompt": text}, {"prompt": "next"}), [Task.CHAT])
    assert [p.text for p in prompts] == [text, "next"]


def test_byte_order_mark_blank_lines_and_carriage_returns_do_no_harm(tmp_path: Path) -> None:
    path = written(tmp_path, raw=b'\xef\xbb\xbf{"prompt": "a"}\r\n\r\n\n{"prompt": "b"}')
    assert [(p.id, p.text) for p in load_prompts(path, [Task.CHAT])] == [("line-1", "a"), ("line-4", "b")]


@pytest.mark.parametrize(("bad", "reason"), [
    ("not json", "not JSON"), ("[1]", "not a JSON object"), ({"prompt": 3}, "`prompt` is not a text"),
    ({"prompt": "  "}, "`prompt` is not a text"), ({"messages": []}, "`messages` is not a list"),
    ({"messages": [{"role": "user"}]}, "a message has no text"), ({"messages": ["hi"]}, "a message is not"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "parts other than text"),
    ({"prompt": "x", "task": "poetry-slam"}, "no known task"), ({"prompt": "x", "task": 4}, "`task` is not a string"),
    ({"question": "x"}, "neither"), ({"body": "x"}, "`body` is not"), ('{"prompt": "\\ud800"}', "surrogate"),
    ("[" * 100_000, "nested too deeply"),
])
def test_a_bad_line_is_left_out_and_told_with_its_number(tmp_path: Path, bad: object, reason: str) -> None:
    told: list[str] = []
    path = written(tmp_path, {"prompt": "good"}, bad)
    prompts = load_prompts(path, [Task.CHAT], note=told.append)
    assert [p.text for p in prompts] == ["good"]
    assert len(told) == 1
    assert "1 of 2 lines of mine.jsonl" in told[0]
    assert "line 2" in told[0]
    assert reason in told[0]


def test_bytes_that_are_not_utf8_spoil_their_own_line_only(tmp_path: Path) -> None:
    told: list[str] = []
    path = written(tmp_path, raw=b'{"prompt": "a"}\n{"prompt": "\xff"}\n{"prompt": "b"}\n')
    assert [p.text for p in load_prompts(path, [Task.CHAT], note=told.append)] == ["a", "b"]
    assert "not UTF-8" in told[0]


def test_more_bad_lines_than_good_are_refused_with_the_first_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "good"}, *["secret words"] * 7)
    with pytest.raises(InputError) as caught:
        load_prompts(path, [Task.CHAT])
    assert "7 of 8 lines" in str(caught.value)
    assert "line 2, 3, 4, 5, 6, ..." in str(caught.value)
    assert "secret" not in str(caught.value), "the content of a line is never repeated"


@pytest.mark.parametrize("content", [b"", b"\n\n \n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="are empty"):
        load_prompts(written(tmp_path, raw=content), [Task.CHAT])


def test_a_missing_file_or_a_folder_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_prompts(tmp_path / "none.jsonl", [Task.CHAT])
    with pytest.raises(InputError, match="is a folder"):
        load_prompts(tmp_path, [Task.CHAT])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(
    st.binary(max_size=60), st.text(max_size=40).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=8),
                 lambda inner: st.lists(inner, max_size=3)
                 | st.dictionaries(st.sampled_from(["prompt", "text", "messages", "role", "content", "body", "task"]),
                                   inner, max_size=4), max_leaves=8).map(lambda v: json.dumps(v).encode()),
), max_size=6))
def test_any_bytes_give_prompts_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("weird") / "x.jsonl"
    path.write_bytes(b"\n".join(lines))
    said = ""
    prompts = []
    try:
        prompts = load_prompts(path, [Task.CHAT])
    except InputError as error:
        said = str(error)
    assert bool(prompts) != bool(said)
    assert "\n" not in said
    assert all(p.as_text().strip() for p in prompts)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=30).filter(lambda t: t.strip() != ""), min_size=1, max_size=5))
def test_what_is_written_is_read_back_whatever_characters_it_has(
        tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("back") / "x.jsonl"
    path.write_bytes(b"".join(json.dumps({"prompt": t}, ensure_ascii=False).encode() + b"\n" for t in texts))
    assert [p.text for p in load_prompts(path, [Task.CHAT])] == texts


def test_the_summary_counts_and_hashes_and_holds_no_text(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "my secret plan"}, {"prompt": "b", "task": "code"})
    prompts = load_prompts(path, [Task.CHAT])
    summary = prompts_summary(prompts, str(tmp_path / "mine.jsonl"), 12.5)
    assert (summary.source, summary.count, summary.mean_prompt_tokens) == ("mine.jsonl", 2, 12.5)
    assert summary.by_task == {Task.CHAT: 1, Task.CODE: 1}
    assert "secret" not in summary.model_dump_json()


def test_the_hash_follows_the_text_and_the_order_not_the_ids() -> None:
    one, two = Prompt(Task.CHAT, "a", text="x"), Prompt(Task.CHAT, "b", text="y")
    renamed = Prompt(Task.CHAT, "z", text="x")
    assert prompts_summary([one]).sha256 == prompts_summary([renamed]).sha256
    assert prompts_summary([one, two]).sha256 != prompts_summary([two, one]).sha256
    assert prompts_summary([one]).sha256 == hashlib.sha256(b'[["chat","x"]]').hexdigest()
