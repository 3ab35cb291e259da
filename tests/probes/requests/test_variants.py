"""The same requests as other tools, releases and collectors write them: casing, order, line ends, zones, wrappers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probes.requests import probe_requests
from tests.probes.requests.synthetic_logs import jsonl, write

T0 = 1_700_000_000
ROWS = [(0, 100, 10), (2, 200, 20), (4, 300, 60)]
"""Seconds, prompt tokens, output tokens."""


def probe(path: str) -> Any:
    return probe_requests([path])


def table(header: str, line: str = "{t},{p},{o}", end: str = "\n",
          time: Callable[[int], Any] = lambda t: T0 + t) -> str:
    return end.join([header, *(line.format(t=time(t), p=p, o=o) for t, p, o in ROWS)]) + end


def clock(zone: str = "", comma: str = ".") -> Callable[[int], str]:
    return lambda t: f"2023-11-14 22:13:{20 + t:02d}{comma}000{zone}"


@pytest.mark.parametrize("text", [
    table("timestamp,prompt_tokens,completion_tokens"),
    table("Timestamp,Prompt Tokens,Completion Tokens"),
    table("TIMESTAMP,PROMPT_TOKENS,COMPLETION_TOKENS"),
    table("timestamp,promptTokens,completionTokens"),
    table("completion_tokens,prompt_tokens,timestamp", "{o},{p},{t}"),
    table("timestamp;prompt_tokens;completion_tokens", "{t};{p};{o}"),
    table("timestamp\tprompt_tokens\tcompletion_tokens", "{t}\t{p}\t{o}"),
    table('"timestamp","prompt_tokens","completion_tokens"', '"{t}","{p}","{o}"'),
    table("user,timestamp,prompt_tokens,cost,completion_tokens,note", "u,{t},{p},0.5,{o},a b"),
    table("timestamp,prompt_tokens,completion_tokens", end="\r\n"),
    "\ufeff" + table("timestamp,prompt_tokens,completion_tokens", end="\r\n"),
    table("timestamp,prompt_tokens,completion_tokens", time=lambda t: (T0 + t) * 1000),
    table("timestamp,prompt_tokens,completion_tokens", time=lambda t: (T0 + t) * 10**6),
    table("timestamp,prompt_tokens,completion_tokens", time=lambda t: (T0 + t) * 10**9),
    table("timestamp,prompt_tokens,completion_tokens", time=clock()),
    table("timestamp,prompt_tokens,completion_tokens", time=clock("Z")),
    table("timestamp,prompt_tokens,completion_tokens", time=clock("+00:00")),
    table("timestamp,prompt_tokens,completion_tokens", time=clock("+0000")),
    table("timestamp,prompt_tokens,completion_tokens", time=clock(" UTC")),
    table("timestamp;prompt_tokens;completion_tokens", "{t};{p};{o}", time=clock(comma=",")),
    table("timestamp,prompt_tokens,completion_tokens", time=lambda t: f"14/Nov/2023:22:13:{20 + t:02d} +0000"),
    table("timestamp,prompt_tokens,completion_tokens", time=lambda t: f"2023-11-14T22:13:{20 + t:02d}.000000000Z"),
])
@pytest.mark.parametrize("packed", [False, True])
def test_tables_are_read_whatever_their_writing(tmp_path: Path, text: str, packed: bool) -> None:
    content = text.encode()
    found = probe(write(tmp_path / "t", gzip.compress(content) if packed else content))
    assert (found.requests, found.skipped) == (3, {})
    assert (found.prompt_tokens.mean, found.output_tokens.max, found.duration_s) == (200, 60, 4.0)
    assert found.arrivals.start.startswith("2023-11-14T22:13:20")


def test_a_zone_moves_the_clock(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "t.csv", table("timestamp,prompt_tokens,completion_tokens", time=clock("+02:00"))))
    assert found.arrivals.start.startswith("2023-11-14T20:13:20")


@pytest.mark.parametrize("row", [
    lambda t, p, o: {"timestamp": T0 + t, "prompt_tokens": p, "completion_tokens": o},
    lambda t, p, o: {"timestamp": str(T0 + t), "prompt_tokens": str(p), "completion_tokens": str(o)},
    lambda t, p, o: {"startTime": f"2023-11-14T22:13:{20 + t:02d}.000Z", "promptTokens": p, "completionTokens": o},
    lambda t, p, o: {"created": T0 + t, "usage": {"prompt_tokens": p, "completion_tokens": o, "total_tokens": p + o}},
    lambda t, p, o: {"usage": {"completionTokens": o, "promptTokens": p}, "createdAt": (T0 + t) * 1000, "more": [1]},
    lambda t, p, o: {"ts": f"2023-11-14 22:13:{20 + t:02d},000", "input_tokens": float(p), "output_tokens": float(o)},
    lambda t, p, o: {"request_created_at": (T0 + t) * 10**6, "tokens_prompt": p, "tokens_completion": o},
    lambda t, p, o: {"timestamp": f"2023-11-14T22:13:{20 + t:02d}Z", "modelId": "m", "input": {"inputTokenCount": p},
                     "output": {"outputTokenCount": o}},
    lambda t, p, o: {"created_at": f"2023-11-14T22:13:{20 + t:02d}.000000Z", "prompt_eval_count": p, "eval_count": o},
    lambda t, p, o: {"startTime": (T0 + t) * 1000, "inputUsage": p, "outputUsage": o, "totalUsage": p + o},
])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_json_lines_are_read_whatever_their_writing(tmp_path: Path, row: Callable[[int, int, int], Any],
                                                    end: str) -> None:
    text = "".join(json.dumps(row(*one)) + end for one in ROWS)
    for mark in ("", "\ufeff"):
        found = probe(write(tmp_path / "t.jsonl", mark + text))
        assert (found.requests, found.skipped) == (3, {})
        assert (found.prompt_tokens.mean, found.output_tokens.max, found.duration_s) == (200, 60, 4.0)
        assert found.arrivals.start.startswith("2023-11-14T22:13:20")


def test_columns_that_differ_in_casing_alone_are_both_read_past(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "t.csv", table("timestamp,prompt_tokens,completion_tokens,Model,model",
                                                  "{t},{p},{o},a,b")))
    assert (found.requests, found.models) == (3, ("a",))


LINES = [
    "INFO 07-01 13:54:05 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='org/m', "
    "speculative_config=None, tokenizer='org/m'",
    'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "INFO 07-01 13:54:15 [loggers.py:1] Engine 000: Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: "
    "30.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 12.5%",
    "INFO 07-01 13:54:25 [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
    "10.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: 12.5%",
]
STAMP = "2026-07-01T13:54:15.123456789Z"


@pytest.mark.parametrize("wrap", [
    lambda line: line,
    lambda line: f"{STAMP} stderr F {line}",
    lambda line: f"vllm-1  | {line}",
    lambda line: f"Jul 01 13:54:15 host vllm[123]: {line}",
    lambda line: f"\x1b[1;36m(APIServer pid=1)\x1b[0;0m {line}",
    lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": STAMP}),
    lambda line: json.dumps({"timestamp": STAMP, "level": "INFO", "message": line}),
    lambda line: json.dumps({"__REALTIME_TIMESTAMP": "1", "MESSAGE": line}),
    lambda line: json.dumps({"insertId": "x", "resource": {"type": "k8s_container"}, "textPayload": line}),
])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_server_logs_are_read_through_what_passed_them_on(tmp_path: Path, wrap: Callable[[str], str], end: str) -> None:
    found = probe(write(tmp_path / "s.log", "".join(wrap(line) + end for line in LINES)))
    assert (found.requests, found.models, found.files[0].format) == (1, ("org/m",), "vllm_log")
    assert (found.prompt_tokens.mean, found.output_tokens.mean) == (200, 400)
    assert (found.concurrency["mean"], found.concurrency["max"]) == (1.5, 2)


@pytest.mark.parametrize("line", [
    "INFO 02-06 03:05:53 metrics.py:345] Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: 30.0 "
    "tokens/s, Running: 2 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 1.0%, CPU KV cache usage: 0.0%.",
    "INFO 07-01 13:54:15 [loggers.py:1] Engine 000: Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: "
    "30.0 tokens/s, Running: 2 reqs, Waiting: 1 reqs, Deferred: 3 reqs, Preemptions: 2, GPU KV cache usage: 1.0%",
    "INFO 2026-07-01 13:54:15 [loggers.py:1] Engine 000: Avg prompt throughput: 20.0 tokens/s, Avg generation "
    "throughput: 30.0 tokens/s, Running: 2 reqs, Waiting: 1 reqs, CPU KV cache usage: 1.0%",
])
def test_throughput_lines_of_other_releases_are_read(tmp_path: Path, line: str) -> None:
    found = probe(write(tmp_path / "s.log", line + "\n"))
    assert (found.concurrency["max"], found.engine["waiting_max"]) == (2, 1)


def test_messages_of_users_are_no_server_log(tmp_path: Path) -> None:
    rows = [{"message": "how do I start vllm serve?", "prompt_tokens": 5, "completion_tokens": 6, "timestamp": T0 + i}
            for i in range(3)]
    assert probe(jsonl(tmp_path / "m.jsonl", rows)).prompt_tokens.mean == 5
