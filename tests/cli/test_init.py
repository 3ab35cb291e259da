"""`specadvise init`: the commented file loads, mirrors the schema, and never overwrites unasked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from advisor.cli.deployment_file import load_deployment
from advisor.cli.deployment_template import EXAMPLE_TARGET, template
from profiles.deployment import Deployment
from tests.cli.shell import exit_code


def turned_on(text: str, keep_examples: bool) -> str:
    """The template with the # removed in front of its fields."""
    kept = [line for line in text.splitlines() if keep_examples or "# example" not in line]
    return "\n".join(re.sub(r"^(\s*)#(?=[^ #])", r"\1", line) for line in kept) + "\n"


def test_the_written_file_is_a_valid_deployment_at_every_default(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    assert exit_code("init", "--out", str(path), "-q") == 0
    assert load_deployment(path) == Deployment(target={"id": EXAMPLE_TARGET})


def test_turning_on_every_default_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    text = re.sub(r"(?m)^#candidates:.*(\n#-.*)*$", "", template())
    path.write_text(turned_on(text, keep_examples=False))
    assert load_deployment(path) == Deployment(target={"id": EXAMPLE_TARGET})


def test_turning_on_every_example_but_the_second_load_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(turned_on(re.sub(r"(?m)^.*arrival_rate_rps: .*$", "", template()), keep_examples=True))
    loaded = load_deployment(path)
    assert [c.method for c in loaded.candidates] == ["ngram", "draft_model"]
    assert loaded.workload.prompt_tokens is not None
    assert loaded.workload.prompt_tokens.p95 == 1200
    assert loaded.trial.loads == (1, 8)


def _fields(model: type[BaseModel]) -> list[str]:
    names = []
    for name, info in model.model_fields.items():
        names.append(name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel) and name != "target":
            names += _fields(info.annotation)
    return names


def test_every_field_and_its_help_stand_in_the_file() -> None:
    text = template()
    for name in _fields(Deployment):
        assert re.search(rf"(?m)^\s*#?{name}:", text), name
    assert "SLO: time per output token, milliseconds, mean." in text
    assert " null" not in text


def test_the_target_can_be_filled_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("init", "--out", "-", "--target", "org/with: colon") == 0
    assert "target: 'org/with: colon'\n" in capsys.readouterr().out


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("mine")
    assert exit_code("init", "--out", str(path)) == 2
    assert path.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert exit_code("init", "--out", str(path), "--force") == 0
    assert path.read_text() == template()


def test_a_folder_is_refused_as_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("init", "--out", str(tmp_path), "--force") == 2
    assert "a folder of that name is there" in capsys.readouterr().err


def test_what_is_assumed_otherwise_when_left_out_is_no_default() -> None:
    text = template()
    assert re.search(r"(?m)^ +#temperature: 0.0  # example$", text)
    assert "Left out, anything between 0 and 1 is assumed" in " ".join(text.replace("#", " ").split())
