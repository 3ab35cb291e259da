"""`specadvise predict` and `specadvise fit` from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.shell import specadvise

CASE = {"id": "one", "gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "ngram", "k": 3,
        "batch_size": 4}


def test_one_line_comes_back_for_each_case_in_order(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text("".join(json.dumps({**CASE, "id": i}) + "\n" for i in range(5)) + "broken\n")
    done = specadvise("predict", str(cases))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 4, None]
    assert rows[-1]["error"]
    assert "6 cases, 1 without a prediction" in done.stderr


def test_a_line_that_is_not_utf8_is_refused_alone(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    good = json.dumps(CASE).encode() + b"\n"
    foreign = good.replace(b'"one"', "\"n\u00e4he\"".encode("latin-1"))
    cases.write_bytes(good + foreign + good)
    done = specadvise("predict", str(cases))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [row["error"] is None for row in rows] == [True, False, True]
    assert "not UTF-8 text (byte 10)" in rows[1]["error"]


def test_the_answer_can_go_to_a_file_and_the_summary_away(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = specadvise("predict", "-", "-o", str(out), "-q", stdin=json.dumps(CASE) + "\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads(out.read_text())["id"] == "one"
    assert list(tmp_path.iterdir()) == [out]


def test_a_missing_file_and_a_file_without_one_good_line_are_wrong_use(tmp_path: Path) -> None:
    missing = specadvise("predict", str(tmp_path / "no.jsonl"))
    assert missing.returncode == 2
    assert "does not exist" in missing.stderr
    bad = specadvise("predict", "-", stdin="broken\n")
    assert bad.returncode == 2
    assert json.loads(bad.stdout)["error"]


def test_a_fit_without_enough_trials_says_how_many_it_needs(tmp_path: Path) -> None:
    evidence = tmp_path / "gpu.json"
    evidence.write_text(json.dumps({"schema_version": 1, "kind": "gpu", "collected_at": "2026-01-01T00:00:00Z",
                                    "tool_version": "0", "command": "probe gpu", "gpu": {"devices": []}}))
    done = specadvise("fit", str(evidence))
    assert done.returncode == 2
    assert "at least 3" in done.stderr
    assert "only trials" in done.stderr


def test_a_file_without_a_case_is_wrong_use_and_leaves_no_answer(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n  \n")
    out = tmp_path / "out.jsonl"
    for arguments in ((str(empty),), (str(empty), "-o", str(out))):
        done = specadvise("predict", *arguments)
        assert done.returncode == 2
        assert "has no case" in done.stderr
    assert not out.exists()


def test_fields_that_nothing_reads_are_said_once_with_the_nearest_one(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text((json.dumps({**CASE, "promt_len": 5, "zzz": 1}) + "\n") * 3)
    done = specadvise("predict", str(cases))
    assert done.returncode == 0
    assert done.stderr.count("'promt_len' (did you mean prompt_len?), 'zzz'") == 1


def test_an_id_that_no_encoding_has_comes_back(tmp_path: Path) -> None:
    done = specadvise("predict", "-", stdin='{"id": "\\ud800", "method": "ngram", "target": "Qwen/Qwen3-8B"}\n')
    assert done.returncode == 0
    assert json.loads(done.stdout)["id"] == "\ud800"


def test_a_line_longer_than_any_case_is_answered_in_its_place(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"id": "' + "x" * 3_000_000 + '"}\n' + json.dumps(CASE) + "\n")
    done = specadvise("predict", str(cases))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["error"] is None for row in rows] == [False, True]
    assert "characters" in rows[0]["error"]


def test_predictions_never_take_the_place_of_their_cases(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps(CASE) + "\n")
    done = specadvise("predict", str(cases), "-o", str(tmp_path / "." / "cases.jsonl"))
    assert done.returncode == 2
    assert "this command reads that very file" in done.stderr
    assert json.loads(cases.read_text()) == CASE


def test_answers_that_fail_midway_leave_the_old_ones_and_nothing_beside_them(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    done = specadvise("predict", "-", "-o", str(out), stdin="\n")
    assert done.returncode == 2
    assert "has no case" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert out.read_text() == "old"


def test_what_a_killed_prediction_left_goes_with_the_next_one(tmp_path: Path) -> None:
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    (tmp_path / f".out.jsonl.specadvise-{died.pid}-xyz").mkdir()
    done = specadvise("predict", "-", "-o", str(tmp_path / "out.jsonl"), stdin=json.dumps(CASE) + "\n")
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_field_of_another_tool_is_named_in_the_answer_of_its_line(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({**CASE, "vllm_version": "0.20.0"}) + "\n" + json.dumps(CASE) + "\n")
    done = specadvise("predict", str(cases), "-q")
    notes = [json.loads(line)["note"] for line in done.stdout.splitlines()]
    assert done.stderr == ""
    assert "'vllm_version' (did you mean engine_version?)" in notes[0]
    assert notes[1] is None
