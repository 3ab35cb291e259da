"""No result is written over a file that the command reads, a device or a stream, by whatever name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from advisor.cli.output import write_whole
from profiles.errors import InputError
from profiles.inputs import forget_inputs
from tests.cli.shell import run

LINE = {"timestamp": 1000, "input_length": 100, "output_length": 20, "hash_ids": [1]}
CASE = {"id": "a", "gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "ngram", "k": 3,
        "concurrency": 1}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({**LINE, "timestamp": 1000 * i}) + "\n" for i in range(50)))
    return path


@pytest.mark.parametrize("name", ["log.jsonl", "link.json", "second-name.json"])
def test_a_log_is_not_written_over_by_what_was_found_in_it(
    capsys: pytest.CaptureFixture[str], log: Path, name: str
) -> None:
    (log.parent / "link.json").symlink_to(log)
    os.link(log, log.parent / "second-name.json")
    before = log.read_bytes()
    found = run(capsys, "probe", "requests", str(log), "--save", str(log.parent / name))
    assert found.returncode == 2
    assert "this command reads that very file" in found.stderr
    assert log.read_bytes() == before


def test_a_record_is_not_written_over_by_its_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--method", "ngram", "--gpu", "H100",
               "--concurrency", "1", "--offline", "--out", str(tmp_path)).returncode in (0, 3)
    record = tmp_path / "record.json"
    before = record.read_bytes()
    assert run(capsys, "report", str(record), "--format", "html", "-o", str(record)).returncode == 2
    config = tmp_path / "vllm.yaml"
    assert run(capsys, "check", str(config), "--also", f"json={config}").returncode == 2
    assert record.read_bytes() == before
    # Another command writes there as ever.
    assert run(capsys, "report", str(record), "-o", str(tmp_path / "report.html")).returncode == 0


def test_a_deployment_named_as_its_own_result_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stated = tmp_path / "vllm.yaml"
    stated.write_text("target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\nworkload: {concurrency: 1}\n"
                      "candidates: [ngram]\n")
    before = stated.read_text()
    found = run(capsys, "advise", str(stated), "--offline", "--out", str(tmp_path))
    assert (found.returncode, stated.read_text()) == (2, before)
    assert not (tmp_path / "record.json").exists()


def test_predictions_replace_no_pipe_and_no_stream(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cases, pipe = tmp_path / "cases.jsonl", tmp_path / "pipe"
    cases.write_text(json.dumps(CASE) + "\n")
    os.mkfifo(pipe)
    for place in (pipe, Path("/dev/stdout"), cases):
        found = run(capsys, "predict", str(cases), "-o", str(place))
        assert found.returncode == 2, place
        assert "cannot write" in found.stderr
    assert pipe.is_fifo()


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    forget_inputs()
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_the_streams_of_the_process_are_no_places() -> None:
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with pytest.raises(InputError, match="not a regular file"):
            write_whole(Path(name), "text")
