"""Every format in its synthetic form: recognised by content, with the figures that stand in it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from probes.requests import Options, probe_requests
from probes.requests.formats import formats
from profiles.errors import InputError
from tests.probes.requests.synthetic_logs import azure, chat, document, jsonl, write

T0 = 1_700_000_000


def probe(path: str, **options: Any) -> Any:
    return probe_requests([path], Options(**options))


def test_azure_traces_give_rate_lengths_and_their_ratio(tmp_path: Path) -> None:
    found = probe(azure(tmp_path / "trace", [(0.0, 100, 10), (1.5, 200, 20), (4.0, 300, 60)]))
    assert found.files[0].format == "azure"
    assert (found.requests, found.duration_s, found.arrival_rate_rps) == (3, 4.0, 0.5)
    assert (found.prompt_tokens.mean, found.prompt_tokens.p50, found.prompt_tokens.max) == (200, 200, 300)
    assert found.output_to_prompt_ratio == pytest.approx(90 / 600)
    assert found.arrivals.start.startswith("2023-11-16T18:00:00")


def test_burstgpt_rows_without_response_are_failed_requests(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "b.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                        "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n"
                        "105,GPT-4,417,276,693,API log\n"))
    assert (found.requests, found.failed, found.duration_s) == (2, 1, 100.0)
    assert set(found.models) == {"ChatGPT", "GPT-4"}


def test_mooncake_counts_milliseconds_and_bailian_seconds(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 1024, "output_length": 8, "hash_ids": [1, 2]}
    mooncake = probe(jsonl(tmp_path / "m", [row, {**row, "timestamp": 3000, "hash_ids": [1, 3]}]))
    bailian = probe(jsonl(tmp_path / "q", [{**row, "chat_id": 1, "parent_chat_id": -1, "turn": 1, "type": "text"},
                                           {**row, "chat_id": 2, "timestamp": 3.0}]))
    assert mooncake.duration_s == bailian.duration_s == 3.0
    assert mooncake.cached_prompt_share.value == pytest.approx(0.25)


@pytest.mark.parametrize("value", [[1, 2], {"a": {"b": [1]}}, 3, None, "text"])
def test_mooncake_hash_ids_of_other_shapes_never_break_the_figures(tmp_path: Path, value: Any) -> None:
    row = {"timestamp": 0, "input_length": 5, "output_length": 8, "hash_ids": [1]}
    assert probe(jsonl(tmp_path / "m", [row, {**row, "hash_ids": value}])).requests == 2


def test_rows_of_a_trace_without_blocks_are_no_block(tmp_path: Path) -> None:
    rows = [{"timestamp": i * 1000, "input_length": 10, "output_length": 5, "hash_ids": [i]} for i in range(4)]
    found = probe(jsonl(tmp_path / "m.jsonl", [*rows, {"timestamp": 9000, "input_length": 10, "output_length": 5,
                                                       "hash_ids": None}, {"x": 1}]))
    assert (found.requests, found.cached_prompt_share.value, found.cached_prompt_share.n) == (5, 0.0, 4)


def test_openai_responses_are_read_from_usage_wherever_it_stands(tmp_path: Path) -> None:
    batch = {"id": "b", "custom_id": "c", "response": {"status_code": 200, "body": {
        "model": "m", "created": T0, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}}, "error": None}
    bad = {**batch, "custom_id": "d", "response": {"status_code": 500, "body": {"error": "x", "usage": None}}}
    raw = {"id": "chatcmpl-1", "created": T0, "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "choices": []}
    for rows, failed in (([batch, bad], 0), ([raw], 0), ([chat("q", "a", tokens=(7, 3))], 0)):
        found = probe(jsonl(tmp_path / "x.jsonl", rows))
        assert found.files[0].format == "openai"
        assert (found.requests, found.prompt_tokens.mean, found.output_tokens.mean) == (1, 7, 3)
        assert found.failed >= failed


def test_batch_requests_without_answers_give_prompts_and_sampling_only(tmp_path: Path) -> None:
    found = probe(jsonl(tmp_path / "in.jsonl", [
        {"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": "m", "messages": [{"role": "user", "content": "x" * 40}], "temperature": 0.7, "top_k": -1,
                  "response_format": {"type": "json_object"}}} for i in range(4)]))
    assert (found.requests, found.prompt_tokens.mean, found.output_tokens) == (4, 10, None)
    assert found.tokens_from == "characters"
    assert found.text.sampling["temperature"].usual == 0.7
    assert found.text.structured_output.value == 1.0


def test_sharegpt_takes_the_first_question_and_answer(tmp_path: Path) -> None:
    conversation = [{"from": "human", "value": "a" * 40}, {"from": "gpt", "value": "b" * 80},
                    {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]
    found = probe(document(tmp_path / "s.json", [{"id": "1", "conversations": conversation}] * 3))
    assert (found.requests, found.prompt_tokens.mean, found.output_tokens.mean) == (3, 10, 20)
    assert any("3 further answers" in note for note in found.notes)


BENCH = {"date": "x", "model_id": "m", "num_prompts": 4, "max_concurrency": 2, "duration": 10.0, "completed": 4,
         "failed": 1, "total_input_tokens": 400, "total_output_tokens": 80, "request_throughput": 0.4,
         "mean_ttft_ms": 100.0, "mean_tpot_ms": 20.0}


def test_bench_serve_totals_give_means_and_little_says_how_many_run(tmp_path: Path) -> None:
    found = probe(document(tmp_path / "r.json", BENCH))
    assert (found.requests, found.failed, found.models) == (4, 1, ("m",))
    assert (found.prompt_tokens.mean, found.output_tokens.mean, found.prompt_tokens.p95) == (100, 20, None)
    assert found.concurrency["mean"] == pytest.approx(4 * (0.1 + 19 * 0.02) / 10)
    assert "Little" in found.concurrency["basis"]


def test_bench_serve_with_details_gives_percentiles(tmp_path: Path) -> None:
    details = {"input_lens": [100, 200, 300, 0], "output_lens": [11, 11, 21, 0], "ttfts": [0.1, 0.1, 0.2, 0.0],
               "itls": [[0.02] * 10, [0.02] * 10, [0.02] * 20, []], "errors": ["", "", "", "boom"],
               "start_times": [0.0, 1.0, 2.0, 2.0], "generated_texts": ["a", "b", "c", ""]}
    found = probe(document(tmp_path / "r.json", {**BENCH, **details}))
    assert (found.requests, found.failed, found.prompt_tokens.p50) == (3, 1, 200)
    assert found.ttft_ms.value == pytest.approx(400 / 3)
    assert found.tpot_ms.value == pytest.approx(20)
    assert found.duration_s == 2.0
    assert found.concurrency["basis"] == "starts and ends in the log"


def test_documents_and_lines_longer_than_the_beginning_are_recognised(tmp_path: Path) -> None:
    details = {"input_lens": [100] * 3, "output_lens": [11] * 3, "generated_texts": ["x" * 400_000] * 3}
    assert probe(document(tmp_path / "r.json", {**details, **BENCH})).prompt_tokens.p99 == 100
    assert probe(jsonl(tmp_path / "r.jsonl", [{**details, **BENCH}])).prompt_tokens.p99 == 100
    found = probe(jsonl(tmp_path / "l.jsonl", [chat("x" * 400_000, "y", tokens=(7, 3))] * 3))
    assert (found.requests, found.files[0].format) == (3, "openai")


def test_bench_serve_console_tables_are_read(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "out.txt", "Namespace(a=1, b=2)\n"
                        "============ Serving Benchmark Result ============\n"
                        "Successful requests:                     8         \n"
                        "Benchmark duration (s):                  2.0\n"
                        "Total input tokens:                      80\n"
                        "Total generated tokens:                  160\n"
                        "Mean TTFT (ms):                          100.0\n"
                        "Mean TPOT (ms):                          5.0\n"))
    assert (found.requests, found.output_tokens.mean, found.duration_s) == (8, 20, 2.0)


def test_aiperf_summary_and_records(tmp_path: Path) -> None:
    summary = probe(document(tmp_path / "a.json", {
        "request_throughput": {"unit": "requests/sec", "avg": 2.0},
        "request_count": {"avg": 20.0},
        "request_latency": {"unit": "ms", "avg": 1500.0, "count": 20},
        "time_to_first_token": {"unit": "ms", "avg": 50.0},
        "output_sequence_length": {"unit": "tokens", "avg": 90.0, "p50": 80.0, "p90": 120.0},
        "benchmark_duration": {"unit": "sec", "avg": 10.0}}))
    assert (summary.requests, summary.output_tokens.p90, summary.concurrency["mean"]) == (20, 120, 3.0)
    uncounted = probe(document(tmp_path / "g.json", {
        "request_throughput": {"unit": "requests/sec", "avg": 2.0}, "request_latency": {"unit": "ms", "avg": 1500.0},
        "input_sequence_length": {"unit": "tokens", "avg": 40.0},
        "output_sequence_length": {"unit": "tokens", "avg": 9.0}}))
    assert (uncounted.requests, uncounted.output_tokens.mean, uncounted.concurrency["mean"]) == (0, 9, 3.0)
    assert any("does not count its requests" in note for note in uncounted.notes)
    records = probe(jsonl(tmp_path / "a.jsonl", [
        {"metadata": {"request_start_ns": T0 * 10**9 + i * 10**9, "request_end_ns": T0 * 10**9 + (i + 2) * 10**9},
         "metrics": {"input_sequence_length": {"value": 50, "unit": "tokens"},
                     "output_sequence_length": {"value": 11, "unit": "tokens"},
                     "time_to_first_token": {"value": 1000.0, "unit": "ms"}}, "error": None} for i in range(5)]))
    assert (records.requests, records.duration_s, records.ttft_ms.value) == (5, 4.0, 1000.0)
    assert (records.tpot_ms.value, records.concurrency["max"]) == (pytest.approx(100.0), 2)
    assert records.decode_time_share.value == pytest.approx(0.5)


def test_guidellm_requests_and_metrics(tmp_path: Path) -> None:
    one = {"prompt_tokens": 10, "output_tokens": 20, "start_time": T0, "end_time": T0 + 1.0,
           "time_to_first_token_ms": 100.0}
    rows = probe(document(tmp_path / "g.json", {"benchmarks": [{"requests": {
        "successful": [one, {**one, "start_time": T0 + 1}], "errored": [{}], "incomplete": []}, "metrics": {}}]}))
    assert (rows.requests, rows.failed, rows.output_tokens.mean) == (2, 1, 20)
    stats = {"successful": {"mean": 10.0, "median": 9.0, "max": 30.0, "percentiles": {"p95": 20.0}}}
    totals = probe(document(tmp_path / "g.json", {"benchmarks": [{"duration": 5.0, "metrics": {
        "request_totals": {"successful": 7}, "prompt_token_count": stats, "output_token_count": stats,
        "request_concurrency": {"successful": {"mean": 3.5}}}}]}))
    assert (totals.requests, totals.prompt_tokens.p95, totals.concurrency["mean"]) == (7, 20, 3.5)


def test_litellm_rows_whose_first_token_is_the_end_say_nothing_of_ttft(tmp_path: Path) -> None:
    row = {"request_id": "r1", "startTime": "2025-01-24 09:20:46.0", "endTime": "2025-01-24 09:20:48.0", "model": "m",
           "completionStartTime": "2025-01-24 09:20:48.0", "prompt_tokens": 10, "completion_tokens": 20}
    streamed = {**row, "request_id": "r2", "completionStartTime": "2025-01-24 09:20:46.5"}
    for name, text in (("one.json", [row]), ("list.json", [row, row])):
        assert probe(document(tmp_path / name, text)).ttft_ms is None
    for path in (document(tmp_path / "s.json", [row, streamed]), jsonl(tmp_path / "s.jsonl", [row, streamed])):
        found = probe(path)
        assert (found.requests, found.ttft_ms.n, found.ttft_ms.value) == (2, 1, pytest.approx(500.0))
        assert found.concurrency["max"] == 2


def test_otel_spans_in_both_writings(tmp_path: Path) -> None:
    values = {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 6}
    otlp = {"resourceSpans": [{"scopeSpans": [{"spans": [
        {"name": "chat", "startTimeUnixNano": str(T0 * 10**9 + i * 10**9), "endTimeUnixNano": str((T0 + 2 + i) * 10**9),
         "attributes": [{"key": k, "value": {"intValue": str(v)} if isinstance(v, int) else {"stringValue": v}}
                        for k, v in values.items()]} for i in range(3)] + [{"name": "db", "attributes": []}]}]}]}
    printed = [{"name": "chat", "start_time": f"2026-01-01T00:00:0{i}Z", "end_time": f"2026-01-01T00:00:0{i + 2}Z",
                "attributes": values} for i in range(3)]
    for path in (document(tmp_path / "o.json", otlp), jsonl(tmp_path / "o.jsonl", [otlp]),
                 jsonl(tmp_path / "p.jsonl", printed)):
        found = probe(path)
        assert (found.requests, found.prompt_tokens.mean, found.concurrency["max"]) == (3, 12, 2)
        assert found.models == ("m",)
    older = [{"name": "llm", "start_time": f"2026-01-01T00:00:0{i}Z", "end_time": f"2026-01-01T00:00:0{i + 2}Z",
              "attributes": {"llm.model_name": "m", "llm.token_count.prompt": 12, "llm.token_count.completion": 6}}
             for i in range(3)]
    found = probe(jsonl(tmp_path / "i.jsonl", older))
    assert (found.requests, found.prompt_tokens.mean, found.models) == (3, 12, ("m",))


VLLM_LOG = """\
(APIServer pid=1) INFO 07-01 13:54:00 [api_server.py:1] vLLM API server version 0.32.0
(EngineCore pid=2) INFO 07-01 13:54:05 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='org/m', \
speculative_config=SpeculativeConfig(method='eagle3', model='d', num_spec_tokens=2), tokenizer='org/m'
\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK
INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK
INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request
(APIServer pid=1) INFO 07-01 13:54:15 [loggers.py:1] Engine 000: Avg prompt throughput: 20.0 tokens/s, Avg generation \
throughput: 30.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 12.5%
(APIServer pid=1) INFO 07-01 13:54:15 [metrics.py:1] SpecDecoding metrics: Mean acceptance length: 1.50, Accepted \
throughput: 1.00 tokens/s, Drafted throughput: 2.00 tokens/s, Accepted: 50 tokens, Drafted: 200 tokens, Per-position \
acceptance rate: 0.400, 0.100, Avg Draft acceptance rate: 25.0%
(APIServer pid=1) INFO 07-01 13:54:25 [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation \
throughput: 10.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: 12.5%
"""


def test_vllm_logs_give_requests_load_means_and_speculation(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(VLLM_LOG.encode()))
    found = probe(str(path))
    assert (found.requests, found.failed, found.models) == (2, 1, ("org/m",))
    assert (found.prompt_tokens.mean, found.output_tokens.mean) == (100, 200)
    assert (found.concurrency["mean"], found.concurrency["max"]) == (1.5, 2)
    assert found.engine["versions"] == ["0.32.0"]
    assert found.engine["speculation"] == {
        "lines": 1, "k": [2], "drafts": 100.0, "accepted_tokens": 50, "draft_tokens": 200, "acceptance_rate": 0.25,
        "acceptance_length": 1.5, "per_position": [0.4, 0.1]}


def test_hidden_state_extraction_is_not_called_speculation(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "s.log", VLLM_LOG.replace("method='eagle3'", "method='extract_hidden_states'")
                        .replace("SpecDecoding metrics", "DiffusionDecoding metrics")))
    assert found.engine["speculation"] is None
    assert any("not speculation" in note for note in found.notes)


def test_access_lines_count_requests_and_claim_no_more(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "a.log", 'INFO:     1.2.3.4:5 - "POST /answer HTTP/1.1" 200 OK\n' * 3
                        + 'INFO:     1.2.3.4:5 - "GET /health HTTP/1.1" 200 OK\n'))
    assert (found.requests, found.prompt_tokens, found.arrival_rate_rps) == (3, None, None)
    timed = probe(write(tmp_path / "n.log", "".join(
        f'1.2.3.4 - - [10/Oct/2023:13:55:{i:02d} +0200] "POST /v1/completions HTTP/1.1" {200 if i else 502} 9\n'
        for i in range(0, 31, 10))))
    assert (timed.requests, timed.failed, timed.prompt_tokens) == (3, 1, None)
    assert (timed.duration_s, timed.arrivals.start) == (20.0, "2023-10-10T11:55:10+00:00")


def test_throughput_lines_of_several_engines_are_added_up_interval_by_interval(tmp_path: Path) -> None:
    def line(second: int, engine: int, running: int) -> str:
        return (f"(APIServer pid=1) INFO 07-01 13:54:{second:02d} [loggers.py:1] Engine {engine:03d}: Avg prompt "
                f"throughput: 10.0 tokens/s, Avg generation throughput: 20.0 tokens/s, Running: {running} reqs, "
                "Waiting: 1 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n")

    # The second engine was idle in the middle and wrote nothing.
    text = line(10, 0, 2) + line(10, 1, 3) + line(20, 0, 1) + line(30, 0, 2) + line(31, 1, 4)
    found = probe(write(tmp_path / "dp.log", text + 'INFO: 1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 10))
    assert (found.duration_s, found.requests) == (30.0, 10)
    assert (found.concurrency["mean"], found.concurrency["max"]) == (4.0, 6)
    assert (found.prompt_tokens.mean, found.output_tokens.mean) == (50.0, 100.0)
    assert (found.engine["throughput_lines"], found.engine["waiting_max"]) == (5, 2)
    assert any("2 engines" in note for note in found.notes)


def test_the_engines_own_clock_is_not_mixed_with_the_wall_clock(tmp_path: Path) -> None:
    rows = [{"request_id": str(i), "input_toks": 10, "output_toks": 11, "arrival_time": T0 + i, "queued_ts": 100.0 + i,
             "scheduled_ts": 101.0 + i, "first_token_ts": 102.0 + i, "last_token_ts": 104.0 + i} for i in range(10)]
    found = probe(jsonl(tmp_path / "r.jsonl", rows))
    assert (found.duration_s, found.ttft_ms.value, found.tpot_ms.value) == pytest.approx((9.0, 2000.0, 200.0))
    assert found.concurrency["max"] == 3
    assert found.concurrency["with_waiting"]["mean"] == pytest.approx(40 / 13)


def test_documents_with_lists_of_requests_somewhere_inside(tmp_path: Path) -> None:
    one = {"request_id": 0, "input_tokens": 5, "output_tokens": 7, "total_time_s": 2.0, "ttft_s": 0.5}
    found = probe(document(tmp_path / "n.json", {"model": "m", "short": {"1": {"per_request": [one]},
                                                                         "2": {"per_request": [one, one]}}}))
    assert (found.requests, found.output_tokens.mean, found.ttft_ms.value) == (3, 7, 500.0)


def test_token_ids_are_counted_and_need_no_tokenizer(tmp_path: Path) -> None:
    found = probe(jsonl(tmp_path / "ids.jsonl", [{"id": 1, "prompt_token_ids": [1, 2, 3],
                                                  "generated_token_ids": [4, 5]}] * 2))
    assert (found.prompt_tokens.mean, found.output_tokens.mean, found.tokens_from) == (3, 2, "the log")


def test_samples_of_an_engine_are_a_load_without_requests(tmp_path: Path) -> None:
    found = probe(write(tmp_path / "t.csv", "t,prompt_throughput,gen_throughput,running,waiting\n"
                        "1,0,10,2,0\n2,0,30,4,1\n"))
    assert (found.requests, found.concurrency["mean"], found.concurrency["max"]) == (0, 3.0, 4.0)


@pytest.mark.parametrize(("name", "text", "said"), [
    ("w.csv", "0,0,0,,0,0\n600,0.5,1.2,Gamma,1,2\n", "ServeGen"),
    ("g.json", '{"0": {"monitor_id": 0, "GPU_total_mem": 1}}', "GPU"),
    ("d.json", '{"model": "m", "engine_kwargs": {"a": 1}}', "description of a run"),
    ("s.log", "[2026-04-06 01:34:51] Decode batch, #running-req: 1, #token: 64\n", "SGLang"),
    ("x.bin", b"\x00\x01\x02\x03" * 50, "no known format"),
    ("t.txt", "just some prose\nof two lines\n", "no known format"),
])
def test_files_that_are_no_request_logs_say_what_they_are(tmp_path: Path, name: str, text: str | bytes,
                                                                   said: str) -> None:
    with pytest.raises(InputError, match=said):
        probe(write(tmp_path / name, text))


def test_columns_can_be_mapped_by_name_or_number(tmp_path: Path) -> None:
    named = write(tmp_path / "n.tsv", "when\tein\taus\n2000\t5\t6\n4000\t7\t8\n")
    assert probe(named, columns="arrival=when:ms,prompt=ein,output=aus").duration_s == 2.0
    bare = write(tmp_path / "b.csv", "0,5,6\n3,7,8\n")
    assert probe(bare, columns="arrival=0,prompt=1,output=2").output_tokens.mean == 7
    with pytest.raises(InputError, match="no column"):
        probe(named, columns="prompt=nowhere")
    with pytest.raises(InputError, match="FIELD=COLUMN"):
        probe(named, columns="tokens=ein")


DOUBLED = "arrival,prompt_tokens,output_tokens,prompt_tokens\n1,10,5,20\n2,11,5,21\n3,12,6,22\n"


def test_a_column_whose_name_stands_twice_is_said_and_cannot_be_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", DOUBLED)
    found = probe(path)
    assert found.prompt_tokens.mean == 11
    assert ("d.csv: columns 2 and 4 are called prompt_tokens, and the first of them counts: give each a name of its own"
            in found.notes)
    with pytest.raises(InputError, match=r"names 'prompt_tokens', and .*d\.csv has columns of that name at 2 and 4"):
        probe(path, columns="arrival=arrival,prompt=prompt_tokens,output=output_tokens")
    assert probe(path, columns="arrival=arrival,prompt=prompt_tokens_3,output=output_tokens").prompt_tokens.mean == 21


@pytest.mark.parametrize("head", ["prompt,a,b,prompt,prompt_4", "excess,a,b,c,d", ",a,b,c,column_1"])
def test_no_name_of_a_column_moves_the_others(tmp_path: Path, head: str) -> None:
    path = write(tmp_path / "d.csv", f"arrival,{head},output\n" + "".join(f"{i},1,2,3,4,5,7\n" for i in range(9))
                 + "9,1,2,3,4,5,7,8\n")
    found = probe(path, columns="arrival=arrival,prompt=a,output=output")
    assert (found.requests, found.prompt_tokens.mean, found.output_tokens.mean) == (9, 2, 7)


def test_parquet_is_read_by_its_columns(tmp_path: Path) -> None:
    import duckdb

    duckdb.sql("SELECT 1700000000 + i AS timestamp, 10 * i AS prompt_tokens, i AS completion_tokens "
               "FROM range(1, 11) t(i)").write_parquet(str(tmp_path / "p"))
    found = probe(str(tmp_path / "p"))
    assert (found.requests, found.duration_s, found.prompt_tokens.max) == (10, 9.0, 100)


def test_zstd_is_unpacked_whatever_the_name(tmp_path: Path) -> None:
    import duckdb

    row = '{"timestamp": 0, "input_length": 5, "output_length": 6}'
    lines = duckdb.values([row])
    lines.union(lines).write_csv(str(tmp_path / "z"), header=False, quotechar="", escapechar="", compression="zstd")
    assert probe(str(tmp_path / "z")).requests == 2


def test_names_of_formats_are_unique_and_each_has_a_title() -> None:
    names = [one.name for one in formats()]
    assert len(set(names)) == len(names)
    assert all(one.title for one in formats())
