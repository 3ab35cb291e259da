"""Several files at once: figures that are of some of them say of which, and no note contradicts another."""

from __future__ import annotations

from pathlib import Path

from probes.requests import probe_requests
from tests.probes.requests.synthetic_logs import azure, document, jsonl, write

LOG = "".join(
    f"INFO 07-01 13:54:{second:02d} [loggers.py:118] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation "
    "throughput: 20.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: "
    "0.0%\n"
    '(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' for second in (5, 15, 25))
TRACE = [(float(i), 100, 10) for i in range(5)]


def test_a_server_log_beside_a_trace_gives_its_load_and_says_so(tmp_path: Path) -> None:
    trace, log = azure(tmp_path / "a.csv", TRACE), write(tmp_path / "server.log", LOG)
    found = probe_requests([trace, log])
    said = " ".join(found.notes)
    assert (found.requests, found.prompt_tokens.mean, found.concurrency["mean"]) == (5, 100, 4)
    assert "running requests: as server.log states them; the other figures are of the 5 requests of other files" in said
    assert "3 requests stand in server.log as totals alone and are not among the 5 counted here" in said
    assert "throughput times time" not in said
    assert "no ends or latencies" not in said
    assert str(tmp_path) not in said


def test_alone_each_of_them_says_what_it_lacks_or_how_it_was_worked_out(tmp_path: Path) -> None:
    trace, log = azure(tmp_path / "a.csv", TRACE), write(tmp_path / "server.log", LOG)
    assert any("no ends or latencies" in note for note in probe_requests([trace]).notes)
    found = probe_requests([log])
    assert any("throughput times time" in note for note in found.notes)
    assert not any("stand in" in note or "other files" in note for note in found.notes)


def test_lengths_of_a_part_of_the_requests_are_said_to_be_that(tmp_path: Path) -> None:
    trace = azure(tmp_path / "a.csv", TRACE)
    access = write(tmp_path / "access.log", "".join(
        f'10.0.0.1 - - [16/Nov/2023:18:00:0{i} +0000] "POST /v1/completions HTTP/1.1" 200 12\n' for i in range(4)))
    found = probe_requests([trace, access])
    assert found.requests == 9
    assert "prompt tokens are known of 5 of the 9 requests: their figures are of those alone" in found.notes
    assert not any("arrival times are known" in note for note in found.notes)


def test_files_of_one_kind_say_nothing_of_which_is_which(tmp_path: Path) -> None:
    rows = [{"start_time": 1.7e9 + i, "end_time": 1.7e9 + i + 2, "prompt_tokens": 9, "completion_tokens": 4}
            for i in range(5)]
    found = probe_requests([jsonl(tmp_path / "a.jsonl", rows), document(tmp_path / "b.json", rows)])
    assert found.requests == 10
    assert found.notes == ()
