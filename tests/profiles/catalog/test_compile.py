"""What the command line reads is what the readable sources say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import profiles.catalog.compiled as reader
from profiles.catalog.compile import as_text, compile_all
from profiles.catalog.compiled import COMPILED, DATA, compiled
from profiles.errors import InputError


def test_compiled_files_equal_what_the_sources_compile_to() -> None:
    documents = compile_all()
    assert set(documents) == {path.stem for path in COMPILED.glob("*.json")}
    for name, document in documents.items():
        assert (COMPILED / f"{name}.json").read_text(encoding="utf-8") == as_text(document) + "\n", (
            f"{name}: run python -m profiles.catalog.compile"
        )


def test_compiled_text_reads_back_as_the_document() -> None:
    for name, document in compile_all().items():
        assert json.loads(as_text(document)) == json.loads(json.dumps(document)), name


def test_a_damaged_installation_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    monkeypatch.setattr(reader, "COMPILED", tmp_path)
    with pytest.raises(InputError, match="reinstall"):
        compiled("broken")


def test_looking_a_model_up_parses_no_yaml() -> None:
    code = (
        "import sys; from profiles.catalog.models import find_model; from profiles.catalog.gpus import find_gpu\n"
        "from profiles.catalog.releases import release\n"
        "assert find_model('Qwen/Qwen3-8B') and find_gpu('h100') and release('0.32')\n"
        "assert 'yaml' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_sources_name_no_package_registry_and_no_private_folder() -> None:
    for path in DATA.glob("*.yaml"):
        text = path.read_text(encoding="utf-8").lower()
        for word in ("pypi", "/home/", "/root/"):
            assert word not in text, (path.name, word)
