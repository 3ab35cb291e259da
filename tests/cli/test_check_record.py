"""`check --record` alone: release, machine, environment and workload are the record's where nothing else says them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "advisor" / "report"))
import synthetic_record as synthetic

from advisor.cli.main import main
from advisor.record import Record


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs `specadvise check` beside a saved record and its vllm.yaml."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        monkeypatch.delenv(name)

    def run(record: Record, *arguments: str, config: str | None = None) -> tuple[int, dict[str, object], str]:
        (tmp_path / "record.json").write_text(record.model_dump_json(), encoding="utf-8")
        (tmp_path / "vllm.yaml").write_text(record.emitted.vllm_yaml if config is None else config, encoding="utf-8")
        code = 0
        try:
            main(["check", *(arguments or ["vllm.yaml"]), "--record", "record.json", "--format", "json"])
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, json.loads(captured.out), captured.err

    return run


def approved(**emitted: object) -> Record:
    record = synthetic.enabled()
    return record.model_copy(update={"emitted": record.emitted.model_copy(update=emitted)})


def test_the_record_says_what_no_flag_says_and_the_answer_names_it(check) -> None:
    record = approved()
    code, document, _ = check(record)
    assert document["vllm_version"] == record.provenance.vllm_version
    assert code == 0
    (note,) = [note for note in document["notes"] if note.startswith("judged for")]
    assert f"vLLM {record.provenance.vllm_version} on {record.provenance.gpu_count} x {record.provenance.gpu}" in note
    assert not [f for f in document["findings"] if f["code"] in ("SPD911", "SPD912", "SPD918")]


def test_a_flag_wins_over_the_record(check) -> None:
    _, document, _ = check(approved(), "vllm.yaml", "--vllm-version", "0.30.0", "--gpu", "L4", "--gpus", "2")
    assert document["vllm_version"] == "0.30.0"
    assert {"SPD911", "SPD912"} <= {f["code"] for f in document["findings"]}
    assert not [note for note in document["notes"] if note.startswith("judged for")]


def test_a_config_file_is_judged_in_the_records_environment_and_a_command_line_in_its_own(check) -> None:
    record = approved(env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
    _, beside, _ = check(record)
    assert "SPD918" not in {f["code"] for f in beside["findings"]}
    _, other, _ = check(record, "vllm serve m --max-num-seqs 4")
    assert "SPD918" in {f["code"] for f in other["findings"]}


def test_hardware_that_only_a_deployment_described_stops_no_check(check) -> None:
    record = approved()
    known = record.provenance.model_copy(update={"gpu": "Prototype Z1"})
    code, document, _ = check(record.model_copy(update={"provenance": known}))
    assert code in (0, 1)
    assert document["vllm_version"] == record.provenance.vllm_version
