"""Where the command runs: terminals of every width and none, encodings, a home and a working folder that are not there,
full disks, folders that cannot be written to or change meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli import output
from tests.advisor.report import synthetic_record
from tests.cli.shell import ROOT, all_printed, process, specadvise

LLAMA = ["--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--concurrency", "2",
         "--vllm-version", "0.32.0",
         "--method", "ngram", "--offline"]
ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(
        {"timestamp": i, "prompt_tokens": 100, "completion_tokens": 20, "model": "modèle"}) + "\n" for i in range(9)))
    (tmp_path / "recorded.jsonl").write_text(json.dumps(
        {"prompt_token_ids": [1, 2, 3], "output_token_ids": [1, 2, 3, 1]}) + "\n")
    (tmp_path / "record.json").write_text(synthetic_record.enabled().model_dump_json())
    (tmp_path / "page.prom").write_text("vllm:num_requests_running 1\n")
    (tmp_path / "vllm.yaml").write_text("model: org/modèle\n", encoding="utf-8")
    (tmp_path / "deployment.yaml").write_text(
        "target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\nworkload: {concurrency: 2}\n")
    (tmp_path / "cases.jsonl").write_text(json.dumps({"id": "modèle", "gpu": "H100", "method": "ngram", "k": 3,
                                                      "target": "meta-llama/Llama-3.1-8B-Instruct"}) + "\n")
    return tmp_path


COMMANDS = [
    ["advise", *LLAMA], ["check", "vllm.yaml", "--vllm-version", "0.32.0"], ["rules"], ["rules", "SPD104"],
    ["report", "record.json"], ["report", "record.json", "--format", "markdown"], ["init", "--out", "-"],
    ["plan", "deployment.yaml", "--offline", "--effort", "0.25"], ["probe", "requests", "log.jsonl"],
    ["probe", "replay", "recorded.jsonl", "--method", "ngram"], ["probe", "server", "page.prom"],
    ["verify", "record.json", "page.prom"], ["predict", "cases.jsonl"], ["--help"], ["advise", "--help"],
    ["probe", "requests", "log.jsonl", "--format", "json"], ["check", "vllm.yaml", "--format", "json"],
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_reader_of_few_characters_gets_question_marks_and_no_failure(folder: Path, words: list[str]) -> None:
    plain = specadvise(*words, cwd=folder)
    ran = process(*words, cwd=folder, **ASCII)
    assert ran.returncode == plain.returncode, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "internal error" not in ran.stderr
    assert ran.stdout
    if "json" in words:
        assert json.loads(ran.stdout)["models" if words[0] == "probe" else "verdict"] in (["modèle"], "pass")


@pytest.mark.parametrize("words", COMMANDS)
def test_without_a_home_and_any_terminal_everything_runs(folder: Path, words: list[str]) -> None:
    """A container that runs as a user of no name has neither."""
    homeless = {name: value for name, value in os.environ.items()
                if name not in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "TERM", "COLUMNS")}
    script = ("import pwd, sys\n"
              "def nobody(*_): raise KeyError('no such user')\n"
              "pwd.getpwuid = pwd.getpwnam = nobody\n"
              "from advisor.cli.main import main\n"
              f"sys.argv = ['specadvise', *{words!r}]\nmain()\n")
    ran = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False,
                         timeout=300, stdin=subprocess.DEVNULL, start_new_session=True,
                         env={**homeless, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "HF_HUB_OFFLINE": "1"})
    assert ran.returncode == specadvise(*words, cwd=folder).returncode, ran.stderr
    assert "internal error" not in ran.stderr


@pytest.mark.parametrize("name", ["~nobody-at-all/model", "~/model"])
def test_a_home_that_nobody_has_is_a_model_that_is_not_there(folder: Path, name: str) -> None:
    for words in (["--target", name], ["--draft", name]):
        ran = specadvise("advise", *LLAMA, *words, cwd=folder)
        assert ran.returncode == 2
        assert "internal error" not in ran.stderr
    (folder / "d.yaml").write_text(f"target: org/a\ntrial: {{prompts: '{name}'}}\nsources: {{requests: ['{name}'], "
                                   f"server: '{name}'}}\n")
    assert "internal error" not in specadvise("advise", "d.yaml", "--offline", cwd=folder).stderr


def on_a_terminal(words: list[str], folder: Path, **environment: str) -> tuple[int, str]:
    import pty

    main, other = pty.openpty()
    child = subprocess.Popen([sys.executable, "-m", "advisor.cli.main", *words], cwd=folder, stdout=other, stderr=other,
                             stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1",
                                                            "HF_HUB_OFFLINE": "1", **environment})
    os.close(other)
    printed = all_printed(main)
    return child.wait(timeout=300), printed.decode("utf-8", "replace")


@pytest.mark.parametrize("columns", ["1", "20"])
@pytest.mark.parametrize("words", [one for one in COMMANDS if "json" not in one])
def test_a_terminal_as_narrow_as_can_be_is_written_to_all_the_same(folder: Path, words: list[str],
                                                                       columns: str) -> None:
    code, printed = on_a_terminal(words, folder, COLUMNS=columns, TERM="xterm", NO_COLOR="1")
    assert code == specadvise(*words, cwd=folder).returncode
    assert "Traceback" not in printed
    assert "internal error" not in printed
    assert not re.search(r"\x1b\[[34][0-8]", printed), "NO_COLOR"
    assert len(printed) > 20


# --- places ----------------------------------------------------------------------------------------------------------
def test_a_working_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = ("import os, shutil, sys\n"
              "shutil.rmtree(os.getcwd())\n"
              "from advisor.cli.main import main\n"
              "main(sys.argv[1:])\n")
    for words in (["check", "vllm.yaml"], ["advise", *LLAMA], ["init"], ["report", "r.json"],
                  ["probe", "requests", "x"]):
        (tmp_path / "gone").mkdir(exist_ok=True)
        ran = subprocess.run([sys.executable, "-c", script, *words], cwd=tmp_path / "gone", capture_output=True,
                             text=True,
                             check=False, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert ran.returncode == 2, (words, ran.stderr)
        assert ran.stderr.count("\n") == 1, ran.stderr
        assert "internal error" not in ran.stderr


WRITES = [
    (["advise", *LLAMA, "--out", "out"], "out"), (["init", "--out", "out/d.yaml"], "out"),
    (["report", "record.json", "-o", "out/r.html"], "out"),
    (["probe", "requests", "log.jsonl", "--save", "out/e"], "out"),
    (["check", "vllm.yaml", "--vllm-version", "0.32.0", "--also", "json=out/c.json"], "out"),
    (["probe", "requests", "log.jsonl", "--save", "out/new/e"], "out"),
    (["predict", "cases.jsonl", "-o", "out"], "out"),
]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize(("words", "place"), WRITES[:-1])
def test_a_folder_that_cannot_be_written_to_is_one_sentence(folder: Path, words: list[str], place: str) -> None:
    (folder / place).mkdir(mode=0o500)
    ran = specadvise(*words, cwd=folder)
    assert ran.returncode == 2
    assert "Permission denied" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize(("words", "place"), WRITES)
def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(folder: Path, words: list[str], place: str) -> None:
    """A limit on the size of files stands for it: the first byte that is written is refused."""
    ran = subprocess.run([sys.executable, "-m", "advisor.cli.main", *words], cwd=folder, capture_output=True, text=True,
                         check=False, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1",
                                                        "PYTHONDONTWRITEBYTECODE": "1"},
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)))
    assert ran.returncode == 2, ran.stderr
    assert "File too large" in ran.stderr.splitlines()[-1]
    assert "internal error" not in ran.stderr
    left = folder / place
    assert not left.exists() or list(left.iterdir()) == []
    assert not [one for one in folder.iterdir() if one.name.startswith(".")]


def test_an_out_folder_that_a_file_has_replaced_meanwhile_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = output.write_together

    def replaced(*given: object, **more: object) -> None:
        (folder / "out").rmdir()
        (folder / "out").write_text("in the way")
        real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("advisor.cli.advise.write_together", replaced)
    ran = specadvise("advise", *LLAMA, "--out", "out", cwd=folder)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("specadvise: cannot write out/")
    assert (folder / "out").read_text() == "in the way"


@pytest.mark.parametrize("words", COMMANDS)
def test_a_reader_that_is_gone_is_no_failure_of_any_command(folder: Path, words: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        ran = subprocess.run([sys.executable, "-m", "advisor.cli.main", *words], cwd=folder, stdout=writes, text=True,
                             stderr=subprocess.PIPE, check=False, timeout=300,
                             env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"})
    finally:
        os.close(writes)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Broken pipe" not in ran.stderr
