"""Our own check of our own forms: beside the record they were written from, nothing above info."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli.check import check
from advisor.emit.forms import write_forms
from advisor.record import Record
from tests.advisor.emit.forms.records import DRAFT_MODEL, many, record
from tests.advisor.emit.situations import decision

RECORDS = {name: one for name, one in many().items() if name not in ("folders", "options", "old")}
"""Without those whose deployment itself asks for what the rules warn of."""
FORMS = ("compose", "helm", "kserve", "kubernetes", "systemd")


def findings(folder: Path, deployed: Record, form: str) -> list[dict[str, Any]]:
    (folder / "vllm.yaml").write_text(deployed.emitted.vllm_yaml)
    (folder / "record.json").write_text(deployed.model_dump_json())
    written = write_forms(deployed, (form,))[form].files
    for name, text in written.items():
        (folder / name).write_text(text)
    said = deployed.provenance
    arguments = [str(folder / next(iter(written))), "--record", str(folder / "record.json"), "--vllm-version",
                 said.vllm_version, "--gpu", said.gpu, "--gpus", str(said.gpu_count), "--format", "json", "--quiet"]
    done = CliRunner().invoke(check, arguments, standalone_mode=False)
    assert done.exception is None, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("form", FORMS)
def test_no_form_gets_more_than_info_from_our_own_check(name: str, form: str, tmp_path: Path) -> None:
    deployed = RECORDS[name]
    own = {f.code for f in deployed.checklist.findings} if deployed.checklist is not None else set()
    loud = [f for f in findings(tmp_path, deployed, form) if f["severity"] != "info"]
    assert [f"{f['code']} {f['message']}" for f in loud if f["code"] not in own] == []
    assert not any(f["family"] == "drift" for f in loud)


@pytest.mark.parametrize("form", FORMS)
def test_a_runner_that_another_hand_changed_is_still_noticed(form: str, tmp_path: Path) -> None:
    deployed = record(decision(), **DRAFT_MODEL)
    assert deployed.emitted.env["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    changed = deployed.model_copy(update={"emitted": deployed.emitted.model_copy(update={"env": {}})})
    (tmp_path / "a").mkdir()
    text = next(iter(write_forms(changed, (form,))[form].files.values()))
    name = next(iter(write_forms(changed, (form,))[form].files))
    (tmp_path / "a" / name).write_text(text)
    (tmp_path / "a" / "vllm.yaml").write_text(deployed.emitted.vllm_yaml)
    (tmp_path / "a" / "record.json").write_text(deployed.model_dump_json())
    done = CliRunner().invoke(check, [str(tmp_path / "a" / name), "--record", str(tmp_path / "a" / "record.json"),
                                      "--vllm-version", "0.32.0", "--gpu", "H100", "--format", "json", "--quiet"],
                              standalone_mode=False)
    assert "SPD918" in [f["code"] for f in json.loads(done.stdout)["findings"]]
