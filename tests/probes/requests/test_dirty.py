"""What real logs suffer from: torn and foreign lines, wrong bytes, clocks, copies. Counted, placed, never a crash."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.requests import Options, misread, probe_requests
from profiles.errors import InputError
from tests.probes.requests.synthetic_logs import azure, chat, document, jsonl, write

GOOD = {"timestamp": 1000, "input_length": 10, "output_length": 5}
LINE = json.dumps(GOOD)


def probe(path: str, **options: Any) -> Any:
    return probe_requests([path], Options(**options))


def test_bad_json_lines_are_counted_by_reason_with_their_line_numbers(tmp_path: Path) -> None:
    lines: list[bytes] = [LINE.encode()] * 10
    lines[2:2] = [b"not json", b"", b'{"timestamp": 5, "input_length": 3}', b'{"timestamp": 1, "input_len']
    lines += [b'{"timestamp": 1, "input_length": -4, "output_length": 2}', b'["a", "list"]', b'{"other": 1}',
              b'{"timestamp": "soon", "input_length": 1, "output_length": 2}', b"\xff\xfe\x00{"]
    found = probe(write(tmp_path / "m.jsonl", b"\n".join(lines)))
    assert found.requests == 10
    assert found.skipped["not JSON"] == 3
    assert sum(found.skipped.values()) == 8
    assert "m.jsonl:3" in found.skipped_at["not JSON"]
    assert found.skipped_at["no output tokens"] == ("m.jsonl:5",)
    assert found.skipped_at["a token count below 0 or beyond belief"] == ("m.jsonl:15",)
    assert found.skipped_at["no readable time"] == ("m.jsonl:18",)


def test_bad_csv_lines_are_counted_and_cost_no_good_one(tmp_path: Path) -> None:
    good = b"2023-11-16 18:00:00.5,100,10"
    lines = [b"TIMESTAMP,ContextTokens,GeneratedTokens", *[good] * 5, b"2023-11-16 18:00:00,x,2", b"",
             b"2023-11-16 18:00:00,1", b"2023-11-16 18:00:00,1,2,3", b'2023-11-16 18:00:00,1,"2', good,
             b"2023-11-16 18:00:00,1,\xff", good, b"yesterday,1,2", good, b"2023-11-16 18:00:0"]
    found = probe(write(tmp_path / "a.csv", b"\n".join(lines)))
    assert (found.requests, found.prompt_tokens.mean) == (8, 100)
    assert sum(found.skipped.values()) == 7
    assert found.skipped["no prompt tokens"] >= 1
    assert found.skipped_at["more fields than the header"] == ("a.csv:10",)
    assert found.skipped_at["no readable time"] == ("a.csv:15",)


def test_quoted_tables_are_read_line_by_line_when_they_are_dirty(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "q.csv", 'model,prompt_tokens,output_tokens\n"a, b",1,2\n"c",x,2\n"d",3,4\n'))
    assert (found.requests, found.skipped, found.models) == (2, {"no prompt tokens": 1}, ("a, b", "d"))
    assert found.skipped_at == {"no prompt tokens": ("q.csv:3",)}


@pytest.mark.parametrize("bad", [6, 4])
def test_more_bad_lines_than_good_ones_are_refused_unless_lenient(tmp_path: Path, bad: int) -> None:
    path = write(tmp_path / "m.jsonl", "\n".join([LINE] * 5 + ["torn {"] * bad))
    if bad > 5:
        with pytest.raises(InputError, match=r"more bad lines \(6\) than good ones \(5\).*m.jsonl:6"):
            probe(path)
        assert probe(path, lenient=True).requests == 5
    else:
        assert probe(path).skipped == {"not JSON": bad}


@pytest.mark.parametrize("content", [b"", b"\n\n  \n"])
def test_an_empty_file_says_so(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="is empty"):
        probe(write(tmp_path / "e.jsonl", content))


def test_a_header_alone_is_no_request(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "h.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"))
    assert (found.requests, found.prompt_tokens) == (0, None)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="matches none"):
        probe(str(tmp_path / "no*.jsonl"))
    with pytest.raises(InputError, match="is a folder"):
        probe(str(tmp_path))


def test_a_cut_gzip_gives_what_can_be_unpacked_and_says_so(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({**GOOD, "input_length": random.Random(i).randrange(1, 9999)}).encode() + b"\n"
                    for i in range(5000))
    packed = gzip.compress(rows)
    found = probe(write(tmp_path / "m.jsonl.gz", packed[: len(packed) * 2 // 3]))
    assert 2000 < found.requests < 5000
    assert any("ends early" in note for note in found.notes)
    with pytest.raises(InputError):
        probe(write(tmp_path / "d.gz", packed[:12]))


def test_a_cut_document_gives_its_whole_records(tmp_path: Path) -> None:
    text = json.dumps([{"conversations": [{"from": "human", "value": "a" * 40}, {"from": "gpt", "value": "b"}]}] * 10)
    found = probe(write(tmp_path / "s.json", text[:-30]))
    assert found.requests == 9
    assert sum(found.skipped.values()) == 1


def test_utf16_and_byte_order_marks_are_taken_off(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:00:00,7,3\r\n2023-11-16 18:00:02,7,3\r\n"
    for encoding in ("utf-16", "utf-8-sig"):
        found = probe(write(tmp_path / encoding, text.encode(encoding)))
        assert (found.requests, found.prompt_tokens.mean, found.duration_s) == (2, 7, 2.0)


def test_line_separators_inside_texts_end_no_line(tmp_path: Path) -> None:
    rows = [chat("a\u2028b\u0085c", "d\u2029e", tokens=None)] * 3
    path = write(tmp_path / "u.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert (probe(path).requests, probe(path).skipped) == (3, {})


def test_lines_longer_than_the_table_engine_takes_are_read_all_the_same(tmp_path: Path) -> None:
    long = json.dumps({**GOOD, "note": "x" * (17 << 20)})
    assert probe(write(tmp_path / "l.jsonl", f"{LINE}\n{long}\n{LINE}\n")).requests == 3


def test_order_does_not_matter_and_is_said(tmp_path: Path) -> None:
    rows = [(float(t), 100, 10) for t in range(20)]
    mixed = [*rows[10:], *rows[:10]]
    ordered, unordered = (probe(azure(tmp_path / name, one)) for name, one in (("o", rows), ("u", mixed)))
    assert unordered.arrival_rate_rps == ordered.arrival_rate_rps
    assert any("1 requests stand behind a later one" in note for note in unordered.notes)


def test_clocks_that_are_far_off_lose_their_time_and_keep_their_lengths(tmp_path: Path) -> None:
    rows = [{"timestamp": 1_700_000_000 + i, "prompt_tokens": 5, "completion_tokens": 1} for i in range(99)]
    found = probe(jsonl(tmp_path / "c.jsonl", [*rows, {**rows[0], "timestamp": 0}]))
    assert (found.requests, found.duration_s, found.arrival_rate_rps) == (100, 98.0, 1.0)
    assert any("times far from all others" in note for note in found.notes)


def test_ends_before_starts_are_counted_and_not_used(tmp_path: Path) -> None:
    row = {"prompt_tokens": 5, "completion_tokens": 1}
    rows = [{**row, "start_time": 1_700_000_000 + i, "end_time": 1_700_000_001 + i} for i in range(10)]
    found = probe(jsonl(tmp_path / "c.jsonl", [*rows, {**row, "start_time": 1_700_000_005, "end_time": 1_700_000_001}]))
    assert found.requests == 11
    assert found.concurrency["max"] == 1
    assert any("1 requests end before they start" in note for note in found.notes)


def test_copies_count_once_and_other_requests_with_the_same_id_count(tmp_path: Path) -> None:
    row = {"request_id": "a", "timestamp": 1_700_000_000, "prompt_tokens": 5, "completion_tokens": 1}
    found = probe(jsonl(tmp_path / "d.jsonl", [row, row, row, {**row, "timestamp": 1_700_000_009, "prompt_tokens": 6},
                                               {**row, "request_id": "b"}]))
    assert (found.requests, found.skipped) == (3, {"a copy of an earlier line": 2})
    assert any("1 requests repeat an id" in note for note in found.notes)


def test_traces_with_clocks_of_their_own_are_laid_one_after_the_other(tmp_path: Path) -> None:
    rows = [{**GOOD, "timestamp": 1000 * i} for i in range(11)]
    paths = [jsonl(tmp_path / name, rows) for name in ("a.jsonl", "b.jsonl")]
    found = probe_requests(paths)
    assert (found.requests, found.duration_s) == (22, 20.0)
    assert any("one after the other" in note for note in found.notes)


def test_mixed_formats_are_taken_together_each_by_its_own(tmp_path: Path) -> None:
    found = probe_requests([azure(tmp_path / "a.csv", [(0.0, 100, 10)]), jsonl(tmp_path / "m.jsonl", [GOOD]),
                            document(tmp_path / "r.json", [chat("q", "a", tokens=None)])])
    assert [one.format for one in found.files] == ["azure", "mooncake", "texts"]
    assert found.requests == 3


def test_nothing_of_a_text_is_in_the_evidence(tmp_path: Path) -> None:
    secret = "xylophone marmalade"
    rows = [chat(f"{secret} question {i}", f"{secret} answer", user=secret) for i in range(5)]
    for tokens in (rows, [chat(secret, secret, tokens=None)]):
        said = probe(jsonl(tmp_path / "s.jsonl", tokens)).model_dump_json()
        assert "xylophone" not in said
        assert "marmalade" not in said
        assert str(tmp_path) not in said


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_whatever_raise_anything_but_an_input_error(tmp_path: Path, data: st.DataObject) -> None:
    base = data.draw(st.sampled_from([
        (LINE + "\n") * 4,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,7,3\n2023-11-16 18:00:02,7,3\n",
        json.dumps([chat("q", "a")] * 2), json.dumps(chat("q", "a")) + "\n", 'a,b\n"x",1\n',
        '{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}\n',
        'INFO 07-01 13:54:15 x Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, '
        'Running: 1 reqs, Waiting: 0 reqs\n', '{"benchmarks": [{"requests": {"successful": [{}]}}]}',
        '{"total_input_tokens": 1, "total_output_tokens": 2, "duration": 3}', '{"resourceSpans": [{"scopeSpans": 3}]}',
    ])).encode()
    place = data.draw(st.integers(0, len(base)))
    noise = data.draw(st.binary(max_size=12))
    cut = data.draw(st.integers(0, 6))
    path = write(tmp_path / "noise", base[:place] + noise + base[place + cut:])
    try:
        found = probe(path, lenient=True)
    except InputError:
        return
    assert found.requests >= 0


def test_numbers_that_are_well_written_and_absurd_are_counted_in_tables_too(tmp_path: Path) -> None:
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    rows += [f"2023-11-16 18:00:{i:02d}.0000000,{-5 if i == 3 else 100},10" for i in range(9)]
    first = write(tmp_path / "a.csv", "\n".join(rows).replace("18:00:05", "18:00:0x") + "\n")
    second = write(tmp_path / "b.csv", "\n".join(rows) + "\n")
    alone = probe_requests([second])
    assert (alone.requests, alone.skipped) == (8, {"a token count below 0 or beyond belief": 1})
    assert alone.skipped_at["a token count below 0 or beyond belief"] == ("b.csv:5",)
    both = probe_requests([first, second])
    assert (both.requests, sum(both.skipped.values())) == (15, 3)


def test_a_cut_gzip_of_utf16_gives_what_can_be_unpacked(tmp_path: Path) -> None:
    drawn = random.Random(0)
    text = "timestamp,prompt_tokens,completion_tokens\n" + "".join(
        f"{1_700_000_000 + i},{drawn.randrange(1, 9999)},{drawn.randrange(1, 999)}\n" for i in range(3000))
    packed = gzip.compress(text.encode("utf-16"))
    found = probe_requests([write(tmp_path / "u.csv.gz", packed[: len(packed) // 2])])
    assert 0 < found.requests < 3000
    assert any("ends early" in note for note in found.notes)


def test_arrays_of_records_a_line_each_are_all_read(tmp_path: Path) -> None:
    rows = [{"timestamp": 1.7e9 + i, "prompt_tokens": 10, "completion_tokens": 5} for i in range(20)]
    text = "".join(json.dumps(rows[i:i + 2]) + "\n" for i in range(0, 20, 2))
    assert probe(write(tmp_path / "a.jsonl", text)).requests == 20
    cut = probe(write(tmp_path / "b.jsonl", text[:-9]))
    assert (cut.requests, sum(cut.skipped.values())) == (19, 1)


def test_counted_tokens_are_taken_before_what_a_text_lets_assume(tmp_path: Path) -> None:
    rows = [{"timestamp": 1.7e9 + i, "prompt_tokens": 100, "completion_tokens": 50, "prompt": "hi", "output": "yes"}
            for i in range(5)]
    found = probe(jsonl(tmp_path / "a.jsonl", rows))
    assert (found.prompt_tokens.mean, found.output_tokens.mean, found.tokens_from) == (100, 50, "the log")
    assert found.text.requests == 5


@pytest.mark.parametrize(("field", "value", "words"), [
    ("ttft", -1, "times to the first token"), ("latency", -3, "latencies"), ("latency", 2e7, "latencies"),
    ("tpot", -0.5, "times per output token"), ("running_requests", -5, "running requests"),
    ("running_requests", float("inf"), "running requests"), ("cached_tokens", -5, "cached tokens"),
    ("cached_tokens", 10**12, "cached tokens"), ("temperature", 99, "temperatures"),
])
def test_figures_that_no_request_can_have_are_said_and_averaged_into_nothing(tmp_path: Path, field: str, value: float,
                                                                              words: str) -> None:
    good = {"timestamp": 1.7e9, "prompt_tokens": 10, "completion_tokens": 5, "ttft": 0.5, "latency": 2.0, "tpot": 0.1,
            "running_requests": 3, "cached_tokens": 5, "temperature": 0.7}
    rows = [{**good, "timestamp": 1.7e9 + i} for i in range(9)]
    clean, found = (probe(path) for path in (
        jsonl(tmp_path / "a.jsonl", rows), jsonl(tmp_path / "b.jsonl", [*rows, {**rows[-1], field: value}])))
    assert found.requests == 10
    assert any(note.startswith(f"1 {words}") for note in found.notes)
    for name in ("ttft_ms", "tpot_ms", "cached_prompt_share", "temperature"):
        one, other = getattr(clean, name), getattr(found, name)
        assert getattr(other, "value", getattr(other, "mean", None)) == pytest.approx(
            getattr(one, "value", getattr(one, "mean", None)))
    assert found.concurrency["mean"] == pytest.approx(clean.concurrency["mean"], rel=0.3)


def test_times_in_two_units_are_said_and_the_fewer_ones_not_used(tmp_path: Path) -> None:
    rows = [{"timestamp": (1.7e9 + i) * (1000 if i % 4 else 1), "prompt_tokens": 10, "completion_tokens": 5}
            for i in range(40)]
    found = probe(jsonl(tmp_path / "a.jsonl", rows))
    assert found.requests == 40
    assert found.duration_s == pytest.approx(38)
    assert any(note.startswith("10 requests have times of another unit") for note in found.notes)


def test_a_quote_that_nothing_closes_merges_no_two_lines(tmp_path: Path) -> None:
    text = "timestamp,prompt_tokens,completion_tokens,note\n" + "".join(
        f'{1700000000 + i},10,5,{"plain" if i < 5 else chr(34) + "open"}\n' for i in range(9))
    found = probe(write(tmp_path / "q.csv", text))
    assert (found.requests, found.skipped) == (5, {"not CSV": 4})


def test_what_stands_behind_a_gzip_file_costs_nothing_in_it(tmp_path: Path) -> None:
    text = "\n".join([LINE] * 20).encode() + b"\n"
    found = probe(write(tmp_path / "a.gz", gzip.compress(text) + b"junk" * 9))
    assert found.requests == 20
    many = b"".join(gzip.compress(line + b"\n") for line in text.splitlines())
    assert probe(write(tmp_path / "b.gz", many[:-3])).requests >= 19


@pytest.mark.parametrize("start", [b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd\x04"])
def test_a_packed_file_of_which_nothing_is_left_is_called_damaged(tmp_path: Path, start: bytes) -> None:
    with pytest.raises(InputError, match=r"damaged (gzip|zstd) file"):
        probe(write(tmp_path / "a", start))


ROWS = b"".join(json.dumps({**GOOD, "input_length": random.Random(i).randrange(1, 9999)}).encode() + b"\n"
                for i in range(3000))


@pytest.mark.parametrize(("spoil", "words", "least"), [
    (lambda packed: packed[:-8] + bytes(8 - 4) + packed[-4:], "fails its own checksum", 3000),
    (lambda packed: packed[:-4] + bytes(4), "fails its own checksum", 3000),
    (lambda packed: packed[:-3], "ends early", 3000),
    (lambda packed: packed[:len(packed) // 2] + bytes(40) + packed[len(packed) // 2 + 40:], "", 1000),
    (lambda packed: packed + b"something else", "something else behind its end", 3000),
    (lambda packed: packed + bytes(512), None, 3000),
    (lambda packed: packed + packed, None, 6000),
])
def test_what_is_wrong_with_a_gzip_file_is_said(tmp_path: Path, spoil: Any, words: str | None, least: int) -> None:
    found = probe(write(tmp_path / "m.jsonl.gz", spoil(gzip.compress(ROWS))), lenient=True)
    told = [note for note in found.notes if note.startswith("m.jsonl.gz ")]
    assert found.requests >= least
    assert bool(told) is (words is not None)
    assert words is None or words in told[0]


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_a_packed_file_with_nothing_in_it_is_empty_and_not_damaged(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"e\.jsonl\.gz is empty"):
        probe(write(tmp_path / "e.jsonl.gz", gzip.compress(content)))


def test_a_file_that_several_names_lead_to_counts_once(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "m.jsonl", [GOOD] * 7)
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "hard.jsonl").hardlink_to(path)
    for names in ([path, path], [path, str(tmp_path / "*.jsonl")], [str(tmp_path / "link.jsonl"), path]):
        found = probe_requests(names)
        assert (found.requests, len(found.files)) == (7, 1)
        assert any("it is read once" in note for note in found.notes)
    other = jsonl(tmp_path / "copy.jsonl", [GOOD] * 7)
    assert probe_requests([path, other]).requests == 14


REPEATED = '{"timestamp": 1000, "input_length": 10, "output_length": 5, "input_length": 90}'


def test_a_key_that_stands_twice_makes_a_bad_line_whoever_reads_it(tmp_path: Path) -> None:
    lines = [LINE] * 9
    lines[4:4] = [REPEATED]
    by_lines, by_document = (probe(write(tmp_path / name, text)) for name, text in (
        ("a.jsonl", "\n".join([*lines, "torn {"])), ("a.json", "[" + ",\n".join(lines) + "]")))
    for found in (by_lines, by_document):
        assert (found.requests, found.prompt_tokens.mean) == (9, 10)
        assert found.skipped["a key that stands twice"] == 1
    assert by_lines.skipped_at["a key that stands twice"] == ("a.jsonl:5",)
    assert by_lines.skipped["not JSON"] == 1
    unread = write(tmp_path / "b.jsonl", "\n".join([LINE] * 3 + [LINE[:-1] + ', "note": 1, "note": 2}']))
    assert (probe(unread).requests, probe(unread).skipped) == (4, {})


def test_a_nested_key_that_stands_twice_makes_a_bad_line_too(tmp_path: Path) -> None:
    good = json.dumps(chat("q", "a"))
    twice = good.replace('"prompt_tokens": 10', '"prompt_tokens": 10, "prompt_tokens": 11')
    found = probe(write(tmp_path / "a.jsonl", "\n".join([good] * 4 + [twice])))
    assert (found.requests, found.skipped) == (4, {"a key that stands twice": 1})


def test_half_a_surrogate_pair_costs_no_line(tmp_path: Path) -> None:
    rows = [chat(f"a cut emoji \ud83d {i}", "whole \U0001f600") for i in range(5)]
    path = jsonl(tmp_path / "s.jsonl", [*rows, chat("plain", "plain")])
    found = probe(path)
    assert (found.requests, found.skipped) == (6, {})
    assert found.text.requests == 6
    torn = probe(write(tmp_path / "t.jsonl", Path(path).read_text() + "torn {\n"))
    assert (torn.requests, torn.skipped, torn.skipped_at) == (6, {"not JSON": 1}, {"not JSON": ("t.jsonl:7",)})


def test_whole_emojis_are_no_reason_to_read_a_log_in_python(tmp_path: Path) -> None:
    rows = [chat("\U0001f600 \U0001f3f3\ufe0f", "\U0001f1e9\U0001f1ea") for _ in range(3)]
    path = Path(jsonl(tmp_path / "s.jsonl", rows))
    assert b"\\ud83d" in path.read_bytes()
    assert misread._HALF.search(path.read_bytes()) is None


@pytest.mark.parametrize("rows", [ROWS, ROWS[:400], b"prompt_tokens,output_tokens\n" + b"".join(
    b"%d,%d\n" % (random.Random(i).randrange(1, 9999), i) for i in range(2000))])
def test_a_flipped_byte_of_a_packed_log_is_told_as_damage_with_the_line_where_reading_stopped(tmp_path: Path,
                                                                                              rows: bytes) -> None:
    packed, told = gzip.compress(rows, mtime=0), 0
    for place in range(12, len(packed), max(1, len(packed) // 40)):
        spoilt = bytearray(packed)
        spoilt[place] ^= 0x55
        path = write(tmp_path / "m.jsonl.gz", bytes(spoilt))
        try:
            found = probe(path)
        except InputError as error:
            said = str(error)
        else:
            said = next(note for note in found.notes if note.startswith("m.jsonl.gz "))
            assert not {"not JSON", "not UTF-8", "not CSV"} & set(found.skipped)
        assert re.search(r"is damaged inside, in line|fails its own checksum, some of its|ends early, in line|"
                         r"is a damaged gzip file", said), (place, said)
        told += "line" in said
    assert told > 20


def test_a_file_that_is_called_packed_and_begins_as_something_else_is_told_so(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(ROWS))
    packed[0] ^= 0x10
    with pytest.raises(InputError, match=r"m\.jsonl\.gz is named as a packed file and does not begin as one"):
        probe(write(tmp_path / "m.jsonl.gz", bytes(packed)))
    assert probe(write(tmp_path / "n.jsonl.gz", ROWS)).requests == 3000
