"""Every known shape is read; what is none of them is counted with its reason and place."""

import contextlib
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.replay.recordings import read_recordings
from profiles.errors import InputError
from profiles.workload import Task


def read(tmp_path, *rows, name="r.jsonl", lenient=False):
    path = tmp_path / name
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows) + b"\n")
    return read_recordings([path], lenient)


CHAT = [{"role": "user", "content": "hi"}]
OK = {"prompt": "a", "output": "b"}


@pytest.mark.parametrize(("row", "prompt", "output"), [
    ({"prompt": "a", "output": "b"}, "a", "b"),
    ({"prompt": "a", "completion": "b"}, "a", "b"),
    ({"prompt": "a", "response": "b"}, "a", "b"),
    ({"prompt_token_ids": [1, 2], "generated_token_ids": [3, 4]}, (1, 2), (3, 4)),
    ({"prompt_token_ids": [1, 2], "output_token_ids": [3, 4]}, (1, 2), (3, 4)),
    ({"messages": CHAT, "output": "b"}, tuple(CHAT), "b"),
    ({"messages": [*CHAT, {"role": "assistant", "content": "b"}]}, tuple(CHAT), "b"),
    ({"request": {"messages": CHAT}, "response": {"choices": [{"message": {"role": "assistant", "content": "b"}}]}},
     tuple(CHAT), "b"),
    ({"request": {"prompt": "a"}, "response": {"choices": [{"text": "b"}]}}, "a", "b"),
    ({"body": {"messages": CHAT}, "response": {"body": {"choices": [{"message": {"content": "b"}}]}}},
     tuple(CHAT), "b"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "output": "b"}, tuple(CHAT), "b"),
    ({"prompt": "a\u2028b", "output": "c\x85d"}, "a\u2028b", "c\x85d"),
])
def test_a_request_and_its_output_are_found(tmp_path, row, prompt, output):
    (found,) = read(tmp_path, row).requests
    assert (found.prompt, found.output) == (prompt, output)
    assert found.where == "r.jsonl:1"


def test_every_answer_of_a_conversation_is_a_request_with_all_that_stood_before_it(tmp_path):
    turns = [("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    found = read(tmp_path, {"conversations": [{"from": who, "value": text} for who, text in turns]}).requests
    assert [(len(r.prompt), r.output) for r in found] == [(1, "b"), (3, "d")]
    assert [m["role"] for m in found[1].prompt] == ["user", "assistant", "user"]


def test_task_model_temperature_and_order_of_arrival_are_kept(tmp_path):
    found = read(tmp_path, {**OK, "timestamp": 5, "task": "code", "model": "m", "temperature": 0.5},
                 {**OK, "timestamp": 2, "output": "first"}).requests
    assert [r.output for r in found] == ["first", "b"]
    assert (found[1].task, found[1].model, found[1].temperature) == (Task.CODE, "m", 0.5)


@pytest.mark.parametrize(("row", "reason"), [
    (b"{", "not JSON"), (b"\xff\xfe{}", "not UTF-8"), ([], "not a JSON object"), ({"prompt": "a"}, "no output"),
    ({"output": "b"}, "no prompt"), ({"prompt": "a", "output": ""}, "the output is empty"),
    ({"prompt": "a", "output": 3}, "the output is neither text nor token ids"),
    ({"prompt_token_ids": [-1], "output_token_ids": [2, 3]}, "the prompt has ids that are no tokens"),
    ({"prompt": "\ud800", "output": "b"}, "holds half a surrogate pair"),
    ({"request": {"prompt": "a"}, "response": {"error": {"message": "no"}}}, "the request failed"),
    ({"messages": CHAT, "choices": [{"message": {"content": None, "tool_calls": [{}]}}]},
     "the output is a tool call, whose text is not recorded"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "output": "b"},
     "a message has parts other than text"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    ({"conversations": [{"from": "human", "value": "a"}]}, "no output"),
    ({"conversations": ["a"]}, "a turn is not an object"),
])
def test_what_is_no_recording_is_counted_with_its_reason_and_line(tmp_path, row, reason):
    found = read(tmp_path, OK, row, OK)
    assert len(found.requests) == 2
    assert dict(found.skipped) == {reason: 1}
    assert next(iter(found.lines.values())) == ["r.jsonl:2"]


def test_a_line_cut_off_at_the_end_is_said_to_be_so(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(json.dumps(OK).encode() + b"\n" + json.dumps(OK).encode()[:-5])
    assert dict(read_recordings([path]).skipped) == {"cut off in the middle": 1}


def test_a_json_array_is_read_and_a_truncated_one_as_far_as_it_goes(tmp_path):
    whole, cut = tmp_path / "a.json", tmp_path / "b.json"
    whole.write_text(json.dumps([OK, OK, OK], indent=1))
    cut.write_text(json.dumps([OK, OK, OK], indent=1)[:-12])
    assert len(read_recordings([whole]).requests) == 3
    found = read_recordings([cut])
    assert (len(found.requests), dict(found.skipped)) == (2, {"cut off in the middle": 1})


def test_one_pretty_printed_document_and_gzip_are_read(tmp_path):
    pretty, packed = tmp_path / "a.json", tmp_path / "b.jsonl.gz"
    pretty.write_text(json.dumps(OK, indent=2))
    packed.write_bytes(gzip.compress(json.dumps(OK).encode()))
    assert len(read_recordings([pretty, packed]).requests) == 2


@pytest.mark.parametrize(("data", "says"), [
    (b"", "holds no record"), (b"\n \n", "holds no record"), (b"{\n{\n", "cannot be used"),
    (b"\x1f\x8bgarbage", "damaged gzip"), (b"[", "cannot be used"),
])
def test_a_file_without_a_usable_record_is_one_sentence(tmp_path, data, says):
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says):
        read_recordings([path])


def test_more_bad_records_than_good_ones_stop_unless_lenient(tmp_path):
    with pytest.raises(InputError, match=r"2 of 3 records.*r\.jsonl:2, not JSON.*--lenient"):
        read(tmp_path, OK, b"x", b"y")
    assert len(read(tmp_path, OK, b"x", b"y", lenient=True).requests) == 1


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_recordings([tmp_path / "none"])
    with pytest.raises(InputError, match="is a folder"):
        read_recordings([tmp_path])


@given(st.binary(max_size=300) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
       lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
           st.sampled_from(["prompt", "output", "messages", "role", "content", "conversations", "from", "value",
                            "request", "response", "choices", "message", "body", "task", "timestamp"]),
           inner, max_size=4), max_leaves=12).map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        assert all(r.prompt and r.output for r in read_recordings([path], lenient=True).requests)
