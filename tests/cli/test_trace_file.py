"""Recorded arrivals: what is read of them, and what no file can do to the reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.capacity.arrivals import Arrivals
from advisor.cli import trace_file
from advisor.cli.trace_file import read_arrivals
from profiles.errors import InputError

HEAD = "arrival_s,prompt_tokens,output_tokens\n"


def read(path: Path) -> Arrivals:
    return read_arrivals(path, lambda note: None)


def _written(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_columns_are_found_by_name_and_times_may_count_from_1970(tmp_path: Path) -> None:
    text = "\ufeffoutput_tokens, user ,arrival_s,prompt_tokens\n\n5,a,1764460800.5,10\n6,b,1764460801,20\n"
    found = read(_written(tmp_path, text))
    assert found.arrival_s.tolist() == [0.0, 0.5]
    assert found.prompt_tokens.tolist() == [10, 20]
    assert found.output_tokens.tolist() == [5, 6]


def test_a_trace_goes_by_the_names_and_units_that_requests_are_probed_by(tmp_path: Path) -> None:
    """Synthetic lines as Mooncake, Azure and a gateway write them; all are a second apart."""
    texts = [
        "".join(f'{{"timestamp": {1000 * i}, "input_length": {10 + i}, "output_length": 5, "hash_ids": [{i}]}}\n'
                for i in range(3)),
        "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
            f"2023-11-16 18:17:0{i}.0000000,{10 + i},5\n" for i in range(3)),
        "".join(json.dumps({"start_time": f"2026-01-01T00:00:0{i}Z", "usage": {
            "prompt_tokens": 10 + i, "completion_tokens": 5}}) + "\n" for i in range(3)),
    ]
    for text in texts:
        found = read(_written(tmp_path, text))
        assert found.arrival_s.tolist() == [0.0, 1.0, 2.0]
        assert found.prompt_tokens.tolist() == [10, 11, 12]
        assert found.output_tokens.tolist() == [5, 5, 5]


def test_requests_without_a_length_are_said_not_simulated(tmp_path: Path) -> None:
    rows = [{"timestamp": 1.7e9 + i, "messages": [{"role": "user", "content": "hello"}]} for i in range(3)]
    with pytest.raises(InputError, match=r"no (usable )?output"):
        read(_written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)))


def test_lengths_that_are_assumed_from_text_are_said(tmp_path: Path) -> None:
    rows = [{"timestamp": 1.7e9 + i, "prompt": "x" * 40, "output": "y" * 20} for i in range(3)]
    told: list[str] = []
    found = read_arrivals(_written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)), told.append)
    assert found.prompt_tokens.tolist() == [10, 10, 10]
    assert any("assumed from characters" in note for note in told)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 9000), st.integers(1, 900)), min_size=2,
                     max_size=20))
def test_csv_and_json_lines_say_the_same(tmp_path_factory: pytest.TempPathFactory,
                                         rows: list[tuple[int, int, int]]) -> None:
    folder = tmp_path_factory.mktemp("traces")
    rows = [*rows, (1001, 1, 1)]
    names = ("arrival_s", "prompt_tokens", "output_tokens")
    as_csv = read(_written(folder, HEAD + "".join(",".join(map(str, row)) + "\n" for row in rows)))
    as_json = read(_written(folder, "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n"
                                                  for row in rows)))
    for name in names:
        assert getattr(as_csv, name).tolist() == getattr(as_json, name).tolist()


@pytest.mark.parametrize(("text", "part"), [
    (HEAD + "0,x,1\n1,1,1\n", "line 2: no prompt tokens"),
    (HEAD + "nan,1,1\n1,1,1\n", "line 2: no readable time"),
    (HEAD + "0,1,1\n\n1,1,inf\n", "line 4: no output tokens"),
    (HEAD + "0,1,1\n1,-5,1\n", "line 3: a token count below 0"),
    (HEAD + "0,1,1e300\n1,1,1\n", "line 2: a token count below 0 or beyond belief"),
    ("a,b\n1,2\n", r"no known format \(its columns are a, b\): expected CSV or JSON lines of arrival_s"),
    ("prompt_tokens,output_tokens\n1,1\n2,2\n", r"has no arrival times \(columns such as arrival_s"),
    (HEAD + "0,1,1\n", "fewer than two requests"),
    ("", "is empty"),
    ('{"arrival_s": 0, "prompt_tokens": true, "output_tokens": 1}\n', "line 1: true or false where a number belongs"),
    ('{"arrival_s": NaN, "prompt_tokens": 1, "output_tokens": 1}\n', "line 1: no readable time"),
    ('{"arrival_s": 1' + "0" * 400 + ', "prompt_tokens": 1, "output_tokens": 1}\n', "line 1: no readable time"),
    ('{"arrival_s": 0}\n[1]\n', "no known format"),
    ('{"arrival_s"\n', "no known format"),
    ('{"a": ' + "[" * 10_000 + "]" * 10_000 + "}\n", "no known format"),
    ('{"a": ' + '{"a": ' * 10_000 + "1" + "}" * 10_001 + "\n", "no known format"),
    ("[" * 10_000 + "\n", "no known format"),
    ("x" * 70_000, "no known format"),
    (HEAD + '0,"1\n1,1,1\n', "no known format|not CSV"),
    (b"\xff\xfe\x00", "no known format"),
])
def test_what_is_no_trace_is_one_sentence_that_names_the_line(tmp_path: Path, text: str | bytes, part: str) -> None:
    with pytest.raises(InputError, match=part) as caught:
        read(_written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.csv")


def test_an_endless_file_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no regular file"):
        read(Path("/dev/zero"))
    monkeypatch.setattr(trace_file, "MAX_REQUESTS", 3)
    with pytest.raises(InputError, match="more than 3 requests"):
        read(_written(tmp_path, HEAD + "".join(f"{i},1,1\n" for i in range(9))))
