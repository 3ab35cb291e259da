"""The texts that people's tools write, and those that nobody means: each file is read, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import specadvise
from tests.cli.test_check_hostile import BOMB

GOOD = ("target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\nworkload: {concurrency: 2}\n"
        "candidates: [ngram]\n")
READERS = {
    "advise": ["advise", "f", "--offline", "-q"], "plan": ["plan", "f", "--offline", "-q", "--effort", "0.25"],
    "trial": ["trial", "f", "--offline", "-q"], "check --deployment": ["check", "v.yaml", "--deployment", "f"],
    "probe gpu": ["probe", "gpu", "--deployment", "f", "-q"],
}


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize(("content", "said"), [
    (GOOD.encode() + b"target: b\n", "'target' stands twice"),
    (b"engine: {dtype: a, dtype: b}\n", "'dtype' stands twice"),
    (BOMB.encode(), "once aliases are expanded"), (b"target: &a [*a]\n", "contains itself"),
    (b"[" * 100_000, "nested too deeply"), (b"a: " + b"[" * 90 + b"]" * 90, "nested too deeply"),
    (GOOD.encode("utf-16"), "is UTF-16 text"), (b"target: \xe9\n", "is not UTF-8 text"), (b"target: a\0b\n", "NUL"),
    (b"target: !!python/name:os.system x\n", "tag"),
    (b"a: x" * 400_000, "is larger than 1 MiB"),
    (b"\x1f\x8b\x08\x00", "is a gzip file"), (b"\tkey: x\n", "not valid YAML"), (b"", "is empty"), (b"- a\n", "a list"),
    (b"7\n", "the document is 7"), (b"2027-01-31\n", "the document is 2027-01-31"),
    (b"target: 2027-01-31\n", "2027-01-31"),
    (b"target: !!binary aGk=\n", "binary data"), (b"target: 2027-13-45\n", "is not a value"),
])
def test_an_odd_deployment_is_refused_in_one_sentence(tmp_path: Path, reader: str, content: bytes, said: str) -> None:
    (tmp_path / "f").write_bytes(content)
    (tmp_path / "v.yaml").write_text("model: org/a\n")
    ran = specadvise(*READERS[reader], cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert said in ran.stderr
    assert "internal error" not in ran.stderr
    assert len(ran.stderr) < 700


@pytest.mark.parametrize("reader", [one for one in READERS if one not in ("trial", "probe gpu")])
@pytest.mark.parametrize("content", [GOOD.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + GOOD.encode(),
                                     GOOD.replace("\n", "\r").encode(),
                                     b"# a comment\n---\n" + GOOD.encode() + b"...\n"])
def test_what_an_editor_of_another_system_writes_is_read(tmp_path: Path, reader: str, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    (tmp_path / "v.yaml").write_text("model: org/a\n")
    ran = specadvise(*READERS[reader], cwd=tmp_path)
    assert ran.returncode in (0, 3), ran.stderr


def test_a_config_whose_model_is_no_name_fails_the_check(tmp_path: Path) -> None:
    for model in ("{a: b}", "[a, b]"):
        (tmp_path / "v.yaml").write_text(f"model: {model}\n")
        ran = specadvise("check", "v.yaml", "--vllm-version", "0.32.0", cwd=tmp_path)
        assert ran.returncode == 1, ran.stdout
        assert "SPD112" in ran.stdout


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("name", ["a\\0b", "a\\eb", "\\u202eb", "a\\nb", "x" * 5000])
def test_a_name_that_no_file_can_have_is_no_failure_of_the_tool(tmp_path: Path, reader: str, name: str) -> None:
    (tmp_path / "f").write_text(
        f'target: "{name}"\nsources: {{requests: ["{name}"], files: ["{name}"], server: "{name}"}}\n'
        f'trial: {{prompts: "{name}"}}\nhardware: {{gpu: "{name}"}}\n')
    (tmp_path / "v.yaml").write_text("model: org/a\n")
    ran = specadvise(*READERS[reader], cwd=tmp_path)
    assert "internal error" not in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr) < 1500
