"""The borders of the process: closed and full streams, interrupts, overlong values."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`line` in a shell, `specadvise` standing for the command."""
    command = f"{sys.executable} -m advisor.cli.main"
    return subprocess.run(["bash", "-c", line.replace("specadvise", command)], cwd=cwd, capture_output=True, text=True,
                          timeout=120, env=ENVIRONMENT, check=False)


def test_a_closed_stdout_is_no_error(tmp_path: Path) -> None:
    ran = shell("specadvise init --out - >&-", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_closed_streams_leave_the_files_alone(tmp_path: Path) -> None:
    ran = shell("specadvise init >&- 2>&- <&-", tmp_path)
    assert ran.returncode == 0
    assert "target:" in (tmp_path / "deployment.yaml").read_text()
    assert "Wrote" not in (tmp_path / "deployment.yaml").read_text()


def test_a_closed_stderr_keeps_the_exit_code_of_a_mistake(tmp_path: Path) -> None:
    assert shell("specadvise advise none.yaml 2>&-", tmp_path).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_stdout_is_one_sentence_that_names_it(tmp_path: Path) -> None:
    ran = shell("specadvise init --out - > /dev/full", tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.startswith("specadvise: cannot write to stdout: No space left on device")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    script = (
        "import importlib, os, signal, sys\n"
        "from advisor.cli import group, main\n"
        f"importlib.import_module = lambda name: os.kill(os.getpid(), {int(number)})\n"
        "main.main(['init'])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                         env=ENVIRONMENT, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (4, "", "specadvise: interrupted\n")


def test_an_interrupt_that_an_import_turns_into_its_own_error_is_an_interrupt(tmp_path: Path) -> None:
    script = (
        "import importlib, os, signal\n"
        "from advisor.cli import group, main\n"
        "def broken(name):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        raise RuntimeError('half imported')\n"
        "importlib.import_module = broken\n"
        "main.main(['init'])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                         env=ENVIRONMENT, check=False)
    assert (ran.returncode, ran.stderr) == (4, "specadvise: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_command_line_itself_loads_is_an_interrupt(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "click.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    ran = subprocess.run([sys.executable, "-m", "advisor.cli.main", "--help"], cwd=ROOT, capture_output=True, text=True,
                         timeout=120, env={**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ROOT}"}, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (4, "", "specadvise: interrupted\n")


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["report", "none.json"], 2)])
def test_a_signal_after_the_command_leaves_its_exit_code(tmp_path: Path, arguments: list[str], code: int) -> None:
    script = (
        "import atexit, os, signal, sys\n"
        "from advisor.cli import main\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        f"sys.argv = ['specadvise', *{arguments}]\n"
        "main.main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                         env=ENVIRONMENT, check=False)
    assert ran.returncode == code


def test_an_interrupt_while_the_command_line_itself_loads_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    ran = subprocess.run([sys.executable, "-m", "advisor.cli.main", "--help"], cwd=ROOT, capture_output=True, text=True,
                         timeout=120, env={**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ROOT}"}, check=False)
    assert (ran.returncode, ran.stderr) == (4, "specadvise: interrupted\n")


@pytest.mark.parametrize("line", ["advise --target m --goal {}", "advise --target m --task {}", "advise {}.yaml",
                                  "advise --target m --format {}", "probe server {}"])
def test_an_overlong_value_is_shortened(tmp_path: Path, line: str) -> None:
    ran = shell("specadvise " + line.format("x" * 5000), tmp_path)
    assert ran.returncode == 2
    assert "x" * 200 not in ran.stderr
    assert "internal error" not in ran.stderr


@pytest.mark.parametrize("address", ["user:hush@host", "ftp://user:hush@x", "user:hu/hush@host", "http://u:hush@",
                                     "host/metrics?key=hush", "http://u:hush@127.0.0.1:9/?k=hush#hush"])
def test_a_server_that_cannot_be_read_never_shows_its_password(tmp_path: Path, address: str) -> None:
    ran = shell(f"specadvise probe server '{address}' --window 1s --timeout 1s", tmp_path)
    assert ran.returncode in (2, 4)
    assert "hush" not in ran.stdout + ran.stderr
    assert ran.stderr.startswith(("specadvise: ", "scraping "))
    assert "internal error" not in ran.stderr


def test_an_interrupt_inside_code_made_of_text_ends_with_the_contracts_code_too() -> None:
    """CPython ends with SIGINT's own code after a KeyboardInterrupt has been through exec of a string."""
    program = """
import advisor.cli.main as program
def run(_):
    exec("raise KeyboardInterrupt")
program._run = run
program.main()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (4, "specadvise: interrupted\n")
