"""What every engine test needs: the real engine here, and a real small model pair, made once and cached.

A missing engine is a failure with one sentence, never a skip: these tests are the proof that the real thing works.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class CpuPair:
    """The folder that holds the models made by examples/cpu_pair."""

    folder: Path

    def _made(self, name: str, what: str, *more: str) -> Path:
        if not (self.folder / name / "model.safetensors").is_file():
            command = [sys.executable, "-m", "examples.cpu_pair.prepare", "--out", str(self.folder), "--what", what,
                       *more]
            done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
            if done.returncode:
                last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
                pytest.fail(f"the model pair could not be made ({' '.join(last)}): run `make pair` and read what it "
                            "says", pytrace=False)
        return self.folder / name

    @property
    def draft(self) -> Path:
        """SmolLM2-135M-Instruct: the demo's draft, and a quick target."""
        return self._made("smollm2-135m", "draft")

    @property
    def truncated(self) -> Path:
        """Four of its layers, untrained: a draft that is hardly ever right."""
        return self._made("draft-truncated", "truncated")

    @property
    def smaller_target(self) -> Path:
        """The same, half as deep: the demo's target on a small machine."""
        return self._made("target-r4-eps0.02", "demo", "--repeat", "4")

    @property
    def target(self) -> Path:
        """The deepened 878 M target."""
        return self._made("target-r8-eps0.02", "demo")


@pytest.fixture(scope="session")
def engine() -> None:
    """The real vLLM, importable by this Python."""
    if importlib.util.find_spec("vllm") is None:
        pytest.fail("the engine tests need vLLM in this environment and it is not there: run `make engine`, or leave "
                    "them out with -m 'not engine'", pytrace=False)


@pytest.fixture(scope="session")
def cpu_pair(engine: None) -> CpuPair:
    """Real models, made from a package that carries one; cached below $SPECADVISE_CACHE (~/.cache/specadvise)."""
    cache = os.environ.get("SPECADVISE_CACHE") or str(Path.home() / ".cache" / "specadvise")
    return CpuPair(Path(cache) / "cpu_pair")


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Every test ends with no child process of its own left."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    left = [c for c in psutil.Process().children(recursive=True) if c.pid not in before and c.status() != "zombie"]
    assert not left, f"left running: {left}"
