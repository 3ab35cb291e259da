"""The house stays as it was drawn: rooms, sizes, names, and who may be heard of in them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(p for room in ("profiles", "probes", "advisor") for p in (ROOT / room).rglob("*.py"))


@pytest.mark.skipif(tomllib is None, reason="tomllib is in the standard library from Python 3.11 on")
def test_every_module_of_advisor_but_its_command_line_is_under_the_no_probes_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [c for c in contracts if "never probes" in c["name"]]
    modules = {f"advisor.{p.stem}" for p in (ROOT / "advisor").iterdir()
               if (p.suffix == ".py" and p.stem != "__init__") or (p / "__init__.py").exists()}
    assert set(contract["source_modules"]) == modules - {"advisor.cli"}


def test_files_stay_small_enough_to_be_read_in_one_sitting() -> None:
    assert [str(p) for p in SOURCES if len(p.read_text().splitlines()) > 400] == []


def test_no_module_hides_behind_a_name_that_says_nothing() -> None:
    assert [p for p in SOURCES if p.stem in {"utils", "util", "helpers", "common", "misc"}] == []


def test_yaml_is_only_read_safely_and_nothing_is_unpickled() -> None:
    unsafe = re.compile(r"yaml\.(unsafe_load|full_load)\(|\bpickle\b|\byaml\.load\((?!.*# noqa: S506 - a safe loader)")
    assert [str(p) for p in SOURCES if unsafe.search(p.read_text())] == []
