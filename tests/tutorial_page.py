"""The consoles of docs/tutorial.md, and a shell to run them in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
_CONSOLE = re.compile(r"(?:<!-- runs: ([a-z-]+) -->\n)?```console\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Step:
    """One command of the page and the output that it shows, `...` where that is cut."""

    kind: str
    """light, engine, or set-up (installs: looked at, not run)."""
    command: str
    shown: str


def steps() -> list[Step]:
    found = []
    for kind, body in _CONSOLE.findall(PAGE):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            # A command goes on as long as its lines end in a backslash.
            command, _, shown = re.sub(r"\\\n\s*", "", part).partition("\n")
            found.append(Step(kind or "light", command, shown.removesuffix("...\n")))
    return found


def run(commands: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Runs commands in one shell as a reader would, in a folder of their own; `specadvise` is this tree's."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, line in (("specadvise", "-m advisor.cli.main "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {line}"$@"\n')
        (programs / name).chmod(0o755)
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    env.update(PATH=f"{programs}:{env['PATH']}", PYTHONPATH=str(ROOT), PYTHONUTF8="1", COLUMNS="80")
    return subprocess.run(["bash", "-c", "\n".join(commands)], cwd=folder, env=env, capture_output=True, text=True,
                          encoding="utf-8", timeout=timeout, check=False)


def masked(text: str) -> str:
    """Text whose figures, line breaks and frames do not count: fitted constants move, words stay."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", re.sub(r"\d[\d.,]*", "#", text)).split())
