"""`specadvise` as a shell sees it: its exit code and what it prints, from this process or from one of its own.

In this process a call costs what the command does; a process of its own starts an interpreter and imports the tool
each time, and is for what lies at the border of a process (streams, signals, terminals, encodings).
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest

from advisor.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
READER_SETTINGS = ("NO_COLOR", "COLUMNS", "SPECADVISE_DEBUG")
"""Variables of whoever runs the tests that change what is printed."""


class Answer(NamedTuple):
    """What came back."""

    returncode: int
    stdout: str
    stderr: str


def all_printed(terminal: int) -> bytes:
    """What comes out of a pseudo-terminal until its other end is closed; closes this one."""
    printed = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            # Linux says so where others return nothing.
            break
        if not chunk:
            break
        printed += chunk
    os.close(terminal)
    return printed


def exit_code(*arguments: object) -> int:
    """Runs the command to its end in this process; what it prints goes where this process's streams go."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Answer:
    """The command in this process, where its streams are already captured."""
    code = exit_code(*arguments)
    return Answer(code, *capsys.readouterr())


def specadvise(*arguments: object, cwd: Path = ROOT, stdin: str | bytes = b"", **environment: str) -> Answer:
    """The command in this process, in a folder and with streams of its own."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name in READER_SETTINGS:
            patch.delenv(name, raising=False)
        for name, value in {"HF_HUB_OFFLINE": "1", **environment}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["specadvise", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            code = exit_code(*arguments)
        except Exception:
            # What the interpreter does with an error that nobody caught.
            traceback.print_exc()
            code = 1
    return Answer(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def process(*arguments: object, cwd: Path = ROOT, stdin: str | None = None,
            **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in READER_SETTINGS}
    return subprocess.run(
        [sys.executable, "-m", "advisor.cli.main", *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True,
        text=True, encoding="utf-8", check=False, timeout=120,
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "HF_HUB_OFFLINE": "1", **environment})
