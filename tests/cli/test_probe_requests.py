"""`probe requests` as scripts see it: exit codes, JSON, saved evidence, and what `advise` makes of it."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.evidence_file import load_evidence
from advisor.cli.recorded import with_recorded
from profiles.deployment import Deployment
from profiles.workload import Task
from tests.cli.shell import exit_code
from tests.probes.requests.synthetic_logs import azure, chat, jsonl, write


def test_json_has_what_scripts_rely_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = azure(tmp_path / "a.csv", [(0.0, 100, 10), (2.0, 200, 30)])
    assert exit_code("probe", "requests", path, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"requests", "skipped", "duration_s", "arrival_rate_rps", "prompt_tokens", "output_tokens",
            "output_to_prompt_ratio", "concurrency", "models"} <= set(found)
    assert {"mean", "p50", "p90", "p95", "p99", "max"} <= set(found["prompt_tokens"])
    assert {"mean", "p95", "max", "basis"} <= set(found["concurrency"])


def test_text_names_the_bad_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = '{"timestamp": 0, "input_length": 5, "output_length": 6}\n'
    assert exit_code("probe", "requests", write(tmp_path / "m.jsonl", good * 3 + "torn\n")) == 0
    assert "1 not JSON (m.jsonl:4)" in capsys.readouterr().out


@pytest.mark.parametrize(("content", "flags", "code"), [
    ('{"timestamp": 0, "input_length": 5, "output_length": 6}\n' + "torn\n" * 2, [], 2),
    ('{"timestamp": 0, "input_length": 5, "output_length": 6}\n' + "torn\n" * 2, ["--lenient"], 0),
    ("", [], 2), ("prose alone\n", [], 2), ("a,b\n1,2\n", ["--columns", "prompt=a,output=b"], 0),
    ("a,b\n1,2\n", ["--as", "nothing"], 2), ("a,b\n1,2\n", ["--sample-prompts", "3"], 2),
])
def test_exit_codes(tmp_path: Path, content: str, flags: list[str], code: int,
                    capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("probe", "requests", write(tmp_path / "f", content), *flags) == code
    assert "Traceback" not in capsys.readouterr().err


def test_stdin_and_patterns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"timestamp": 1000 * i, "input_length": 5, "output_length": 6} for i in range(3)]
    jsonl(tmp_path / "part-1.jsonl", rows)
    text = Path(jsonl(tmp_path / "part-2.jsonl", rows)).read_bytes()

    class Stdin:
        buffer = io.BytesIO(text)

    monkeypatch.setattr("sys.stdin", Stdin())
    assert exit_code("probe", "requests", "-", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 3
    assert exit_code("probe", "requests", str(tmp_path / "part-*.jsonl"), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 6


def test_sampled_prompts_are_readable_by_their_owner_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "prompts.jsonl"
    path = jsonl(tmp_path / "l.jsonl", [chat(f"Hello {i}", "hi") for i in range(10)])
    assert exit_code("probe", "requests", path, "--sample-prompts", "4", "--out", str(out), "--interval", "0.1") == 0
    assert len(out.read_text().splitlines()) == 4
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "needs at most 42 requests" in capsys.readouterr().err


ROWS = [{**chat("Write python code", "def f(): pass", tokens=(400, 100), temperature=0.6),
         "start_time": 1_700_000_000.0 + i, "end_time": 1_700_000_004.0 + i} for i in range(50)]


def test_saved_evidence_and_named_logs_give_advise_the_same_workload(tmp_path: Path) -> None:
    log, saved = jsonl(tmp_path / "l.jsonl", ROWS), tmp_path / "e.json"
    assert exit_code("probe", "requests", log, "--save", str(saved), "-q") == 0
    common = ["--target", "meta-llama/Llama-3.1-8B-Instruct", "--method", "ngram", "--gpu", "H100", "--gpus", "1",
              "--vllm-version", "0.32.0", "--offline", "--format", "json"]
    deployment = write(tmp_path / "d.yaml", "target: meta-llama/Llama-3.1-8B-Instruct\n"
                       "sources:\n  requests: [l.jsonl]\n")
    records: list[Any] = []
    for name, how in (("a", ["--evidence", str(saved)]), ("b", [deployment])):
        assert exit_code("advise", *how, *common, "--out", str(tmp_path / name)) in (0, 3)
        records.append(json.loads((tmp_path / name / "record.json").read_text()))
    assert records[0]["decision"]["speedup"] == records[1]["decision"]["speedup"]
    said = " ".join(str(record) for record in records)
    assert "as the recorded requests show" in said
    assert "Write python code" not in said


def test_recorded_requests_fill_in_only_what_is_not_stated(tmp_path: Path) -> None:
    log, saved = jsonl(tmp_path / "l.jsonl", ROWS), tmp_path / "e.json"
    assert exit_code("probe", "requests", log, "--save", str(saved), "-q") == 0
    evidence = load_evidence(saved)
    bare = Deployment.model_validate({"target": "t"})
    stated = Deployment.model_validate({"target": "t", "workload": {
        "tasks": "chat", "sampling": {"temperature": 0.0}, "concurrency_p95": 3}})
    filled, notes = with_recorded(bare, [evidence])
    assert filled.workload.tasks == {Task.CODE: 1.0}
    assert filled.workload.sampling.temperature == 0.6
    assert any("task mix" in note for note in notes)
    kept, _ = with_recorded(stated, [evidence])
    assert (kept.workload.tasks, kept.workload.sampling.temperature) == ({Task.CHAT: 1.0}, 0.0)
    assert with_recorded(bare, []) == (bare, ())


def test_decided_for_says_what_the_log_filled_in_and_what_was_stated_or_assumed(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, saved = jsonl(tmp_path / "chat.jsonl", ROWS), tmp_path / "e.json"
    assert exit_code("probe", "requests", log, "--save", str(saved), "-q") == 0
    common = ["--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--vllm-version", "0.32.0", "--offline",
              "--method", "ngram", "-q", "--out", str(tmp_path / "out")]
    capsys.readouterr()
    assert exit_code("advise", *common, "--evidence", str(saved), "--output-len", "77") in (0, 3)
    shown = capsys.readouterr().out
    told = " ".join(shown[shown.rindex("Decided for"):].split())
    assert "output 77 tokens on average (stated)" in told
    assert "tasks code 100 % (recorded in chat.jsonl)" in told
    assert "temperature 0.60 (recorded in chat.jsonl)" in told
    assert "not stated" not in told
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["workload"]["prompt_tokens"]["mean"] == load_evidence(saved).requests.prompt_tokens.mean
    assert record["workload_sources"]["prompt_tokens"] == "recorded in chat.jsonl"
    assert exit_code("report", str(tmp_path / "out" / "record.json")) == 0
    assert capsys.readouterr().out == shown
    assert exit_code("advise", *common) in (0, 3)
    shown = capsys.readouterr().out
    told = " ".join(shown[shown.rindex("Decided for"):].split())
    assert "load 8 running requests (assumed)" in told
    assert "tasks anything between creative writing and code (assumed)" in told
    assert "temperature between 0 and 1 (assumed)" in told


def test_a_file_without_requests_is_refused_and_nothing_is_saved(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, saved = tmp_path / "out", tmp_path / "e.json"
    assert exit_code("advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--method", "ngram",
                     "--vllm-version", "0.32.0", "--offline", "-q", "--out", str(out)) in (0, 3)
    capsys.readouterr()
    assert exit_code("probe", "requests", str(out / "vllm.yaml"), "--save", str(saved)) == 2
    assert "vllm.yaml: no requests in it: expected a log or trace" in capsys.readouterr().err
    assert not saved.exists()


def test_one_model_of_several_is_asked_for_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path / "m.jsonl", [{"timestamp": i, "prompt_tokens": 10 if i % 3 else 40, "completion_tokens": 5,
                                         "model": "a" if i % 3 else "b"} for i in range(9)])
    assert exit_code("probe", "requests", path) == 0
    assert "choose one with --model" in " ".join(capsys.readouterr().out.split())
    assert exit_code("probe", "requests", path, "--model", "b", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requests"], found["models"], found["prompt_tokens"]["mean"]) == (3, ["b"], 40)
    assert exit_code("probe", "requests", path, "--model", "c") == 2
    assert "expected one of a, b" in capsys.readouterr().err
    assert exit_code("probe", "requests", path, "--model", "b", "--sample-prompts", "3", "--out", tmp_path / "p") == 2
    assert "--model leaves some out" in capsys.readouterr().err


@pytest.mark.parametrize("how", [[], ["--format", "json"]])
def test_names_in_a_log_drive_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: list[str]) -> None:
    rows = [{"timestamp": i, "prompt_tokens": 9, "completion_tokens": 5, "model": f"\x1b[31mred{i % 2}\x9b2J"}
            for i in range(4)]
    path = jsonl(tmp_path / "m\x1b[5m.jsonl", rows)
    assert exit_code("probe", "requests", path, *how) == 0
    assert exit_code("probe", "requests", path, "--model", "none") == 2
    shown = capsys.readouterr()
    assert "red1" in shown.out
    assert "red1" in shown.err
    assert not {"\x1b", "\x9b"} & set(shown.out + shown.err)


def test_a_recorded_peak_below_the_stated_load_is_not_taken(tmp_path: Path) -> None:
    log, saved = jsonl(tmp_path / "l.jsonl", ROWS), tmp_path / "e.json"
    assert exit_code("probe", "requests", log, "--save", str(saved), "-q") == 0
    evidence = load_evidence(saved)
    for usual, taken in ((1, True), (500, False)):
        stated = Deployment.model_validate({"target": "t", "workload": {"concurrency": usual}})
        filled, _ = with_recorded(stated, [evidence])
        assert (filled.workload.concurrency_p95 is not None) is taken


def test_sampled_prompts_can_be_written_whatever_a_cut_emoji_left(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    path = jsonl(tmp_path / "l.jsonl", [chat(f"cut \ud83d {i}", "hi") for i in range(5)])
    assert exit_code("probe", "requests", path, "--sample-prompts", "2", "--out", str(out), "-q") == 0
    assert len(out.read_text().splitlines()) == 2
