"""The GitHub Action and the pre-commit hook: their steps run as CI would run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from advisor.cli.check import check

ROOT = Path(__file__).resolve().parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
FAULTY = "model: org/target\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 4\n  no_such_key: 1\n"
CLEAN = "model: org/target\n"


@pytest.fixture
def runner(tmp_path: Path):
    """Runs the Check step with inputs, in a folder with the given files, as the composite action's shell would."""
    temp = tmp_path / "runner-temp"
    program = temp / "specadvise" / "bin" / "specadvise"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m advisor.cli.main "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()

    def run(**inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
        given.update({name.replace("_", "-"): value for name, value in inputs.items()})
        variables = {name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: given[match[1]], text)
                     for name, text in STEPS["Check"]["env"].items()}
        for name in ("output", "summary.md"):
            (tmp_path / name).write_text("")
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["Check"]["run"]],
            cwd=work, capture_output=True, text=True, check=False, timeout=120,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "RUNNER_TEMP": str(temp),
                 "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
                 **variables},
        )

    run.work, run.out = work, tmp_path  # type: ignore[attr-defined]
    return run


BASE = {"vllm_version": "0.32.0", "gpu": "H100", "gpus": "1"}


def test_the_action_annotates_fails_and_leaves_summary_sarif_and_junit(runner):
    (runner.work / "deploy" / "eu west").mkdir(parents=True)
    (runner.work / "deploy" / "eu west" / "vllm.yaml").write_text(FAULTY)
    (runner.work / "deploy" / "vllm.yaml").write_text(CLEAN)
    ran = runner(**BASE, configs="  deploy/**/*.yaml  \n", sarif="out/check.sarif", junit="out/check.xml")
    assert ran.returncode == 1, ran.stderr
    assert "::error file=deploy/eu west/vllm.yaml,line=5,title=" in ran.stdout
    assert (runner.out / "output").read_text() == "verdict=fail\n"
    assert "### specadvise check: fail" in (runner.out / "summary.md").read_text()
    assert json.loads((runner.work / "out" / "check.sarif").read_text())["version"] == "2.1.0"
    assert (runner.work / "out" / "check.xml").read_text().startswith("<?xml")


def test_the_action_passes_clean_configs_and_can_leave_the_summary_out(runner):
    (runner.work / "vllm.yaml").write_text(CLEAN)
    ran = runner(**BASE, configs="vllm.yaml\n", summary="false", env="VLLM_A=1\nVLLM_B=x y")
    assert ran.returncode == 0, ran.stderr
    assert (runner.out / "output").read_text() == "verdict=pass\n"
    assert (runner.out / "summary.md").read_text() == ""


def test_the_action_says_when_a_pattern_matches_nothing(runner):
    ran = runner(**BASE, configs="deploy/*.yaml")
    assert ran.returncode == 2
    assert "no file matches a pattern" in ran.stdout


def test_nothing_in_an_input_becomes_a_command(runner):
    (runner.work / "$(touch hacked).yaml").write_text(CLEAN)
    ran = runner(**BASE, configs="$(touch hacked)*.yaml\n", env="A=`touch hacked2`", record="; touch hacked3")
    assert ran.returncode == 2
    assert sorted(path.name for path in runner.work.iterdir()) == ["$(touch hacked).yaml"]


def test_every_input_of_the_action_is_described_and_used_and_no_script_holds_an_expression():
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(STEPS["Check"]["env"])))
    assert used == set(ACTION["inputs"])
    assert all(about["description"] for about in ACTION["inputs"].values())
    assert all("${{" not in step["run"] for step in STEPS.values())


@pytest.mark.parametrize("name", list(STEPS))
def test_every_script_of_the_action_is_a_shell_script(name: str):
    done = subprocess.run(["bash", "-n", "-c", STEPS[name]["run"]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_hook_runs_the_check_command_on_the_files_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (hook,) = HOOKS
    program, *arguments = shlex.split(hook["entry"])
    assert (program, arguments, hook["language"]) == ("specadvise", ["check"], "python")
    names = ["vllm.yaml", "deploy/vllm-eu.yml", "myvllm.yaml", "vllm.yaml.bak"]
    assert [name for name in names if re.search(hook["files"], name)] == ["vllm.yaml", "deploy/vllm-eu.yml"]
    monkeypatch.chdir(tmp_path)
    Path("vllm.yaml").write_text(FAULTY)
    ran = CliRunner().invoke(check, ["--vllm-version", "0.32.0", "--gpu", "H100", "--gpus", "1", "vllm.yaml"],
                             standalone_mode=False)
    assert ran.return_value == 1


def test_the_action_needs_a_release_and_a_gpu_unless_a_record_says_them(runner):
    (runner.work / "vllm.yaml").write_text(CLEAN)
    ran = runner(configs="vllm.yaml", gpu="H100")
    assert ran.returncode == 2
    assert "vllm-version and gpu are needed where no record is given" in ran.stdout
    (runner.work / "record.json").write_text("{}")
    ran = runner(configs="vllm.yaml", record="record.json")
    assert ran.returncode == 2
    assert "record.json is not a record" in ran.stderr
