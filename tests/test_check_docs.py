"""docs/check.md shows what the command says: its consoles are run again."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from advisor.checks.notice import all_notices
from advisor.report.findings import formats
from tests.cli.shell import run

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
CONSOLES = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("console", CONSOLES)
def test_a_console_of_the_page_is_what_the_command_says(console: str, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        monkeypatch.delenv(name)
    command, _, shown = console.partition("\n")
    arguments = shlex.split(command.removeprefix("$ "))
    assert arguments.pop(0) == "specadvise"
    code, said, _ = run(capsys, *arguments)
    shown, _, expected = shown.partition("$ echo $?\n")
    beginning, cut, _ = shown.partition("...\n")
    assert said.startswith(beginning) if cut else said == shown
    if expected:
        assert code == int(expected)


def test_every_notice_and_format_stands_in_the_page():
    assert [notice.code for notice in all_notices() if notice.code not in PAGE] == []
    assert [name for name in formats() if f"| {name} |" not in PAGE] == []


def test_the_policy_of_the_page_is_the_examples_own():
    example = (ROOT / "examples" / "check" / ".specadvise.yaml").read_text(encoding="utf-8")
    assert example.partition("\n")[2] in PAGE
