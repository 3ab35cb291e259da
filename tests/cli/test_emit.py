"""`specadvise advise --emit`: all of the files or none, and the rest as without it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from advisor.cli.advise import advise
from advisor.emit.forms import form_names

ASKED = ["--target", "meta-llama/Llama-3.1-8B-Instruct", "--method", "ngram", "--gpu", "H100", "--gpus", "1",
         "--concurrency", "4", "--prompt-len", "400", "--output-len", "384", "--task", "json", "--temperature", "0",
         "--vllm-version", "0.32.0", "--offline"]


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(advise, [*ASKED, *arguments], standalone_mode=False)
    if done.exception is None:
        return int(done.return_value), done.output
    return int(getattr(done.exception, "exit_code", -1)), f"{done.output}{done.exception}"


def test_every_form_is_written_beside_the_config_that_it_starts(tmp_path: Path) -> None:
    forms = [word for name in form_names() for word in ("--emit", name)]
    code, output = run("--out", str(tmp_path), *forms)
    assert code in (0, 3)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"vllm.yaml", "kubernetes.yaml", "compose.yaml", "helm-values.yaml", "kserve.yaml", "vllm.service",
            "alerts.yaml"} <= names
    documents = list(yaml.safe_load_all((tmp_path / "kubernetes.yaml").read_text()))
    held = next(d for d in documents if d is not None and d["kind"] == "ConfigMap")["data"]["vllm.yaml"]
    assert held == (tmp_path / "vllm.yaml").read_text()
    assert "alerts.yaml" in output


def test_without_emit_nothing_more_is_written(tmp_path: Path) -> None:
    run("--out", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"vllm.yaml", "record.json", "report.html"}


def test_a_form_that_cannot_be_placed_leaves_every_old_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "vllm.yaml").write_text("old\n")
    (tmp_path / "alerts.yaml").mkdir()
    code, output = run("--out", str(tmp_path), "--emit", "kubernetes", "--emit", "prometheus")
    assert code == 2
    assert "alerts.yaml" in output
    assert (tmp_path / "vllm.yaml").read_text() == "old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"vllm.yaml", "alerts.yaml"}


def test_files_of_an_earlier_run_that_this_one_does_not_write_are_pointed_out(tmp_path: Path) -> None:
    run("--out", str(tmp_path), "--emit", "compose")
    before = (tmp_path / "compose.yaml").read_text()
    _, output = run("--out", str(tmp_path), "--emit", "systemd")
    assert "compose.yaml" in output
    assert "--emit compose" in output
    assert (tmp_path / "compose.yaml").read_text() == before


@pytest.mark.parametrize("name", ["kubernets", ""])
def test_an_unknown_form_is_refused_with_those_that_there_are(name: str, tmp_path: Path) -> None:
    code, output = run("--out", str(tmp_path / "out"), "--emit", name)
    assert code == 2
    assert "kubernetes" in output
    assert not (tmp_path / "out").exists()


def test_the_help_names_the_forms() -> None:
    text = CliRunner().invoke(advise, ["--help"]).output
    assert all(name in text for name in form_names())
