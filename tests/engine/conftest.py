"""The real model pair that engine tests serve, as `make pair` leaves it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class CpuPair:
    """Model folders: a target, and a draft small enough to serve in tests."""

    target: str
    draft: str


@pytest.fixture(scope="session")
def cpu_pair() -> CpuPair:
    cache = Path(os.environ.get("SPECADVISE_CACHE") or Path.home() / ".cache" / "specadvise") / "cpu_pair"
    pair = CpuPair(str(cache / "target-r8-eps0.02"), str(cache / "smollm2-135m"))
    for folder in (pair.target, pair.draft):
        if not (Path(folder) / "config.json").is_file():
            pytest.fail(f"no model in {folder}: run `make pair` first")
    return pair
