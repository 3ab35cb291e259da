"""The wheel holds the three rooms with their data, and nothing else; installed alone it answers."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.readme import advise_flags

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--quiet",
            "--disable-pip-version-check",
            "-w",
            str(out),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_the_three_rooms_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"profiles", "probes", "advisor"}
    strangers = [
        n
        for n in names
        if n.endswith((".pyc", ".log", ".gguf", ".safetensors", ".whl")) or "/tests/" in n or "__pycache__" in n
    ]
    assert strangers == []
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)


def test_wheel_holds_every_data_file_of_the_source_tree(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for room in ("profiles", "probes", "advisor"):
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in names


def test_wheel_carries_the_published_measurements_and_stays_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = [i for i in archive.infolist() if i.filename.startswith("profiles/catalog/measurements/data/")]
    assert len(carried) >= 50
    assert sum(item.compress_size for item in carried) < 150_000
    assert wheel.stat().st_size < 1_500_000


def test_wheel_alone_answers_help_and_offline_advice(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    run = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from advisor.cli.main import main; main()",
        str(tmp_path / "site"),
    ]
    shown = subprocess.run([*run, "--version"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "specadvise" in shown.stdout
    advised = subprocess.run(
        [
            *run,
            "advise",
            *advise_flags(),
            "--out",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert advised.returncode in (0, 3), advised.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["record.json", "report.html", "vllm.yaml"]
