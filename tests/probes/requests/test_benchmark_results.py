"""Results of load tests: what they state keeps its name and its unit, and what was not measured is not recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probes.requests import probe_requests
from tests.probes.requests.synthetic_logs import document, jsonl, write

RESULT = {"model_id": "m", "duration": 10.0, "completed": 4, "failed": 0, "total_input_tokens": 400,
          "total_output_tokens": 80, "max_concurrency": 2}
FAILED = {**RESULT, "duration": 0.005, "completed": 0, "failed": 8, "total_input_tokens": 0, "total_output_tokens": 0,
          "request_throughput": 0.0, "mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "mean_tpot_ms": 0.0}
SPECULATION = {"drafts": 100, "draft_tokens": 200, "accepted_tokens": 50}
COUNTS = {"drafts": 100, "draft_tokens": 200, "accepted_tokens": 50, "acceptance_rate": 0.25, "acceptance_length": 1.5,
          "per_position": [0.4, 0.1]}
CONSOLE = """\
============ Serving Benchmark Result ============
Successful requests:                     4
Benchmark duration (s):                  10.0
Total input tokens:                      400
Total generated tokens:                  80
Mean TTFT (ms):                          100.0
Mean TPOT (ms):                          20.0
---------------Speculative Decoding---------------
Acceptance rate (%):                     25.00
Acceptance length:                       1.50
Drafts:                                  100
Draft tokens:                            200
Accepted tokens:                         50
Per-position acceptance (%):
  Position 0:                            40.00
  Position 1:                            10.00
==================================================
"""
LOG = ("INFO 07-01 13:54:15 [metrics.py:1] SpecDecoding metrics: Mean acceptance length: 1.50, Accepted throughput: "
       "1.00 tokens/s, Drafted throughput: 2.00 tokens/s, Accepted: 50 tokens, Drafted: 200 tokens, Per-position "
       "acceptance rate: 0.400, 0.100, Avg Draft acceptance rate: 25.0%\n")


def probe(path: str) -> Any:
    return probe_requests([path])


def test_medians_are_called_medians_and_so_is_what_follows_from_them(tmp_path: Path) -> None:
    found = probe(document(tmp_path / "r.json", {**RESULT, "median_ttft": 0.5, "median_tpot": 0.02,
                                                 "median_e2el": 1.0}))
    assert (found.ttft_ms.value, found.tpot_ms.value) == (500.0, 20.0)
    for one in (found.ttft_ms, found.tpot_ms, found.decode_time_share):
        assert "median" in one.note
        assert "mean" not in one.note
    assert "median latency" in found.concurrency["basis"]
    assert any("medians" in note for note in found.notes)


def test_means_are_preferred_to_medians_and_called_means(tmp_path: Path) -> None:
    found = probe(document(tmp_path / "r.json", {**RESULT, "mean_ttft_ms": 100.0, "median_ttft_ms": 50.0,
                                                 "mean_tpot_ms": 20.0, "median_tpot_ms": 10.0}))
    assert (found.ttft_ms.value, found.tpot_ms.value) == (100.0, 20.0)
    assert found.ttft_ms.note == "mean over requests, as stated"
    assert not any("median" in note for note in found.notes)


def test_several_documents_of_medians_give_a_mean_of_medians_and_say_so(tmp_path: Path) -> None:
    one, other = ({**RESULT, "median_ttft_ms": value} for value in (100.0, 300.0))
    found = probe(document(tmp_path / "r.json", [one, other]))
    assert found.ttft_ms.value == 200.0
    assert found.ttft_ms.note == "mean of several documents' medians over requests"
    mixed = probe(document(tmp_path / "m.json", [one, {**RESULT, "mean_ttft_ms": 300.0}]))
    assert (mixed.ttft_ms.value, mixed.ttft_ms.note) == (300.0, "mean over requests, as stated")


@pytest.mark.parametrize("value", [
    FAILED,
    {**FAILED, "input_lens": [10, 10], "output_lens": [0, 0], "ttfts": [0.0, 0.0], "itls": [[], []],
     "errors": ["boom", "boom"], "start_times": [1.0, 2.0]},
    {"requests": {"successful": 0, "failed": 8, "requests_per_second": 0.0}, "tokens": {"prompt": 0, "completion": 0},
     "latency_ms": {"e2e": {"mean": 0.0}, "ttft": {"mean": 0.0}, "tpot": {"mean": 0.0}}, "wall_seconds": 0.1},
    {"request_latency": {"unit": "ms", "avg": 0.0}, "request_throughput": {"avg": 0.0}, "request_count": {"avg": 0},
     "error_request_count": {"avg": 8}, "time_to_first_token": {"unit": "ms", "avg": 0.0}},
    {"benchmarks": [{"duration": 1.0, "metrics": {
        "request_totals": {"successful": 0, "errored": 8}, "time_to_first_token_ms": {"successful": {"mean": 0.0}}}}]},
])
def test_a_run_without_a_success_records_nothing(tmp_path: Path, value: Any) -> None:
    found = probe(document(tmp_path / "r.json", value))
    assert (found.requests, found.failed) == (0, 8)
    for name in ("duration_s", "arrival_rate_rps", "prompt_tokens", "output_tokens", "ttft_ms", "tpot_ms",
                 "decode_time_share", "output_to_prompt_ratio", "engine"):
        assert getattr(found, name) is None, name
    assert found.concurrency["mean"] is None
    assert any("no request succeeded" in note for note in found.notes)


@pytest.mark.parametrize(("name", "content"), [
    ("r.json", {**RESULT, "spec_decode_acceptance_rate": 25.0, "spec_decode_acceptance_length": 1.5,
                "spec_decode_num_drafts": 100, "spec_decode_draft_tokens": 200, "spec_decode_accepted_tokens": 50,
                "spec_decode_per_position_acceptance_rates": [0.4, 0.1]}),
    ("c.txt", CONSOLE),
    ("s.log", LOG),
    ("h.json", {"requests": {"successful": 4, "failed": 0}, "tokens": {"prompt": 400, "completion": 80},
                "wall_seconds": 10.0, "speculative_decoding": {
                    "enabled": True, **SPECULATION, "acceptance_rate": 0.25, "mean_acceptance_length": 1.5,
                    "acceptance_rate_per_position": {"0": 0.4, "1": 0.1}}}),
])
def test_every_source_says_the_same_of_the_same_speculation(tmp_path: Path, name: str, content: Any) -> None:
    path = write(tmp_path / name, content) if isinstance(content, str) else document(tmp_path / name, content)
    found = probe(path).engine["speculation"]
    assert {key: found[key] for key in COUNTS} == {**COUNTS, "per_position": pytest.approx(COUNTS["per_position"])}


def test_a_rate_without_counts_is_a_fraction_too(tmp_path: Path) -> None:
    found = probe(document(tmp_path / "r.json", {**RESULT, "spec_decode_acceptance_rate": 25.0})).engine["speculation"]
    assert found["acceptance_rate"] == pytest.approx(0.25)
    assert found["drafts"] is None


def test_speculation_that_is_off_is_none(tmp_path: Path) -> None:
    found = probe(document(tmp_path / "h.json", {
        "requests": {"successful": 4}, "tokens": {"prompt": 4, "completion": 8}, "wall_seconds": 1.0,
        "speculative_decoding": {"enabled": False}}))
    assert found.engine is None


def test_results_appended_to_one_file_and_other_names_of_whole_latency_are_read(tmp_path: Path) -> None:
    row = {**RESULT, "mean_e2e_latency_ms": 1000.0, "mean_ttft_ms": 100.0, "mean_tpot_ms": 20.0, "accept_length": 2.5}
    found = probe(jsonl(tmp_path / "r.jsonl", [row, row]))
    assert (found.requests, found.prompt_tokens.mean) == (8, 100)
    assert found.concurrency["mean"] == pytest.approx(4 * 1.0 / 10)
    assert found.engine["several"][0]["speculation"]["acceptance_length"] == 2.5


def test_speculation_lines_without_rates_by_position_give_what_they_hold(tmp_path: Path) -> None:
    bare = ("INFO 07-01 13:54:15 metrics.py:73] SpecDecoding metrics: Draft acceptance rate: 25.0%, Mean acceptance "
            "length: 1.50, Accepted: 50 tokens, Drafted: 200 tokens\n")
    found = probe(write(tmp_path / "s.log", bare * 2)).engine["speculation"]
    assert (found["lines"], found["drafts"], found["acceptance_rate"]) == (2, pytest.approx(200.0), 0.25)
    without = probe(write(tmp_path / "o.log", bare.replace("Mean acceptance length: 1.50, ", ""))).engine["speculation"]
    assert (without["drafts"], without["acceptance_length"], without["accepted_tokens"]) == (None, None, 50)


@pytest.mark.parametrize(("told", "part"), [
    ({"drafts": 100, "draft_tokens": 200, "accepted_tokens": 250}, "250 tokens accepted of 200 drafted"),
    ({"drafts": 100, "draft_tokens": 50, "accepted_tokens": 40}, "100 drafts hold 50 tokens"),
    ({"drafts": 100, "draft_tokens": 200, "accepted_tokens": 100, "per_position": [0.3, 0.7]},
     "position 2 was accepted 70 times"),
    ({"draft_tokens": 200, "accepted_tokens": -5}, "below 0"),
])
def test_counts_of_speculation_that_cannot_be_are_said_and_give_no_acceptance(tmp_path: Path, told: dict[str, Any],
                                                                              part: str) -> None:
    summary = {"requests": {"successful": 4, "failed": 0}, "tokens": {"prompt": 400, "completion": 80},
               "speculative_decoding": told}
    found = probe_requests([document(tmp_path / "s.json", summary)])
    assert found.engine is not None
    speculation = found.engine["speculation"]
    assert (speculation["acceptance_rate"], speculation["acceptance_length"]) == (None, None)
    assert speculation["per_position"] == []
    assert any(part in note for note in found.notes)


def test_a_length_rounded_to_nothing_is_no_impossible_count(tmp_path: Path) -> None:
    """1.014 tokens a draft, printed as 1.01."""
    log = LOG.replace("Mean acceptance length: 1.50", "Mean acceptance length: 1.01").replace(
        "Accepted: 50 tokens, Drafted: 200 tokens", "Accepted: 14 tokens, Drafted: 1000 tokens")
    log = log[:log.index(", Per-position")] + "\n"
    found = probe_requests([write(tmp_path / "serve.log", log)])
    assert found.engine is not None
    assert found.engine["speculation"]["acceptance_length"] == pytest.approx(1.014, abs=0.02)
    assert "implausible" not in found.engine["speculation"]
