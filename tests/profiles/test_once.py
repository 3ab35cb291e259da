"""A name that stands twice in one option is said; what it was given is not: it may be a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.capacity.what_if import parse_change
from advisor.cli.check import check
from advisor.cli.server_source import _headers
from probes.requests.plan import mapped
from profiles.errors import InputError
from profiles.once import once


def test_names_that_differ_are_kept_in_their_order() -> None:
    assert once("--env", [("B", 1), ("A", 2)]) == {"B": 1, "A": 2}


@pytest.mark.parametrize(("read", "said"), [
    (lambda: once("--env", [("KEY", "hush-1"), ("KEY", "hush-2")]), "--env names 'KEY' twice"),
    (lambda: _headers(["X-Key: hush-1", "x-key: hush-2"]), "--header names 'x-key' twice"),
    (lambda: mapped("prompt=hush,prompt=b"), "--columns names 'prompt' twice"),
    (lambda: parse_change("gpu=A100,gpus=2,gpu=H100"), "--what-if 'gpu=A100,gpus=2,gpu=H100' names 'gpu' twice"),
])
def test_a_name_that_stands_twice_is_refused(read, said: str) -> None:
    with pytest.raises(InputError) as error:
        read()
    assert said in str(error.value)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("arguments", [
    ("--env", "VLLM_X=1", "--env", "VLLM_X=2"),
    ("--also", "json=a.json", "--also", "sarif=./a.json"),
    ("--also", "json=a.json", "--also", "sarif=link.json"),
])
def test_check_refuses_what_one_of_two_would_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vllm.yaml").write_text("model: m\n")
    Path("link.json").symlink_to("a.json")
    ran = CliRunner().invoke(check, ["vllm.yaml", *arguments])
    assert isinstance(ran.exception, InputError)
    assert "twice" in str(ran.exception)
    assert not Path("a.json").exists()
