"""The tutorial's commands run as they stand there, one after the other, in one folder."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.page_figures import figures, moved
from tests.tutorial_page import ROOT, masked, run, steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


LIGHT = [step for step in steps() if step.kind == "light"]


@pytest.mark.parametrize("step", LIGHT, ids=lambda step: " ".join(step.command.split()[:3]))
def test_a_light_command_succeeds_and_says_what_the_page_shows(step, folder: Path) -> None:
    done = run([step.command], folder, 300)
    assert done.returncode == 0, done.stderr
    at = masked(done.stdout).find(masked(step.shown))
    assert at >= 0
    before = masked(done.stdout)[:at]
    now = figures(done.stdout)[before.count("#"):][:len(figures(step.shown))]
    assert moved(step.shown, " ".join(now)) == [], "write what the command prints now into docs/tutorial.md"


def test_the_files_that_the_page_speaks_of_are_there(folder: Path) -> None:
    wanted = ["first/vllm.yaml", "first/record.json", "first/report.html", "first/report.md", "requests.json",
              "from-log/vllm.yaml", "deployment.yaml"]
    assert [name for name in wanted if not (folder / name).is_file()] == []


def test_set_up_commands_are_targets_of_the_makefile() -> None:
    named = [step.command.split()[1] for step in steps() if step.kind == "set-up" and step.command.startswith("make ")]
    assert named
    for target in named:
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_kind_of_command_has_a_test_that_runs_it() -> None:
    engine = (ROOT / "tests" / "engine" / "test_tutorial.py").read_text(encoding="utf-8")
    assert {step.kind for step in steps()} == {"light", "set-up", "engine"}
    assert re.search(r'step\.kind == "engine"', engine)
