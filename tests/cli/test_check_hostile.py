"""Hostile input to `specadvise check`: one sentence, exit code 2, bounded memory, and never a wait for ever."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from advisor.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 2 * 2**30
"""Address space the command may take in the tests that bound it, libraries included."""
GIVEN = ["check", "--vllm-version", "0.32.0", "--gpu", "H100", "--gpus", "1"]


@dataclass
class Answer:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def specadvise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The command in this process, in a folder."""

    def run(folder: Path, *arguments: str, stdin: bytes = b"") -> Answer:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code: object = 0
        try:
            main([*GIVEN, *arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return Answer(int(str(code or 0)), captured.out, captured.err)

    return run


def bounded(folder: Path, *arguments: str) -> Answer:
    """The command in a process of its own that may not take more than `MEMORY`."""
    done = subprocess.run(
        [sys.executable, "-m", "advisor.cli.main", *GIVEN, *arguments], cwd=folder, capture_output=True, text=True,
        check=False, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def sentence(done: Answer) -> str:
    """The one sentence of a refusal; anything else fails the test."""
    assert done.returncode == 2, (done.returncode, done.stderr[-2000:], done.stdout[-500:])
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("specadvise: ")
    assert len(done.stderr) < 1000
    return done.stderr


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(ord('a') + n)}: &{chr(ord('a') + n)} [{','.join(['*' + chr(ord('a') + n - 1)] * 9)}]\n" for n in range(1, 12)
)
DEEP_JSON = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(("content", "said"), [
    (BOMB.encode(), "once aliases are expanded"),
    (b"a: &a\n  b: *a\n", "contains itself"),
    (b"a: &a [*a]\n", "contains itself"),
    (b"model: a\nmodel: b\n", "stands twice"),
    (b"max-num-seqs: 1\nmax_num_seqs: 2\n", "stands twice"),
    ("model: é\n".encode("utf-16"), "UTF-16"),
    ("model: é\n".encode("latin-1"), "not UTF-8"),
    (b"\x00\x01\x02", "NUL"),
    (b"\x7fELF" + bytes(range(128, 256)), "not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
    (b"a: " * 20_000, "not valid YAML"),
    (b"- " * 100_000, "nested too deeply"),
    (b"{" * 5000 + b"}" * 5000, "nested too deeply"),
    (b"a: !!python/object/apply:os.system [id]\n", "tag"),
    (b"max-num-seqs: " + b"9" * 5000 + b"\n", "not a value"),
    (b"max-num-seqs: " + b"9" * 400 + b"\n", "no number that an option can have"),
    (b"gpu-memory-utilization: .nan\n", "no number that an option can have"),
    (b"gpu-memory-utilization: 1.0e+400\n", "no number that an option can have"),
    (b"speculative-config: {num_speculative_tokens: -.inf}\n", "no number that an option can have"),
    (b"speculative-config.num_speculative_tokens: .inf\n", "no number that an option can have"),
    (b'speculative-config: \'{"k": 1, "k": 2}\'\n', "stands twice"),
    (b'speculative-config: \'{"k": NaN}\'\n', "no JSON number"),
    (b'speculative-config: \'{"k": 1e400}\'\n', "too large a number"),
    (b'speculative-config: \'{"k": ' + b"9" * 6000 + b"}'\n", "a number of 6,000 digits"),
    (b"speculative-config: '" + DEEP_JSON.encode() + b"'\n", "nested too deeply"),
    (b"1: 2\n", "is no text"),
    (b"[a]: b\n", "a key must be plain text"),
    (b"just a sentence\n", "neither a serve config"),
    (b"a: b\n---\nc: d\n", "neither a serve config"),
    (b"vllm serve m --speculative-config.x 1e400\n", "too large a number"),
    (b"vllm serve m " + b"--a.b" + b".c" * 5000 + b" 1\n", "nested too deeply"),
    (b"vllm serve 'm\n", "is not closed"),
    (b"A=xxxxxxxxxxxxxxxx\n" + b"A=$A$A$A$A$A$A$A$A\n" * 20 + b"vllm serve $A\n", "grow a word past"),
    (b"a: " + b"x" * (2 * 2**20), "is larger than 1 MiB"),
])
def test_a_hostile_file_is_refused_in_one_sentence(specadvise, tmp_path: Path, content: bytes, said: str):
    (tmp_path / "vllm.yaml").write_bytes(content)
    assert said in sentence(specadvise(tmp_path, "vllm.yaml"))
    assert said in sentence(specadvise(tmp_path, "-", stdin=content)) or "vllm serve" in content.decode("latin-1")


def _sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(100 * 2**20)


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


@pytest.mark.parametrize(("make", "said"), [
    (_sparse, "is larger than 1 MiB"),
    (Path.mkdir, "is a folder"),
    (os.mkfifo, "is no regular file"),
    (_link("/dev/zero"), "is no regular file"),
    (_link("nowhere"), "a link that leads nowhere"),
    (_link("vllm.yaml"), "cannot read"),
])
def test_what_is_no_small_regular_file_is_refused_without_waiting(
    specadvise, tmp_path: Path, make: Callable[[Path], None], said: str
):
    make(tmp_path / "vllm.yaml")
    assert said in sentence(specadvise(tmp_path, "vllm.yaml"))


@pytest.mark.parametrize("content", [
    BOMB.encode(), b"speculative-config: '" + DEEP_JSON.encode() + b"'\n", b"[" * 900_000,
    b"A=xxxxxxxxxxxxxxxx\n" + b"A=$A$A$A$A\n" * 40 + b"vllm serve $A\n",
])
def test_what_would_fill_the_memory_is_refused_with_little_of_it(tmp_path: Path, content: bytes):
    (tmp_path / "vllm.yaml").write_bytes(content)
    sentence(bounded(tmp_path, "vllm.yaml"))


def test_a_hundred_megabytes_are_not_read(tmp_path: Path):
    _sparse(tmp_path / "vllm.yaml")
    assert "is larger than 1 MiB" in sentence(bounded(tmp_path, "vllm.yaml"))


def test_a_byte_order_mark_is_no_hindrance(specadvise, tmp_path: Path):
    (tmp_path / "vllm.yaml").write_bytes(b"\xef\xbb\xbfmodel: org/a\n")
    assert specadvise(tmp_path, "vllm.yaml").returncode == 0


def test_a_name_no_file_can_have_is_refused(specadvise, tmp_path: Path):
    assert "cannot read" in sentence(specadvise(tmp_path, "x" * 5000))


def test_a_link_out_of_the_folder_to_a_config_is_followed(specadvise, tmp_path: Path):
    (tmp_path / "real.yaml").write_text("model: org/a\n")
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "vllm.yaml").symlink_to("../real.yaml")
    assert specadvise(folder, "vllm.yaml").returncode == 0


# --- model folders
CONFIG = "model: ./m\nspeculative-config: {method: draft_model, model: ./m, num_speculative_tokens: 2}\n"
GOOD = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
        "max_position_embeddings": 512}


def model(tmp_path: Path, config: bytes) -> Path:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_bytes(config)
    (tmp_path / "vllm.yaml").write_text(CONFIG)
    return tmp_path


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"\xff\xfe", b"\x00" * 50, b'{"a":' * 50_000, b"[" * 200_000,
    b'{"hidden_size": ' + b"9" * 6000 + b"}",
])
def test_a_config_json_that_is_none_is_refused_in_one_sentence(specadvise, tmp_path: Path, content: bytes):
    assert "config.json" in sentence(specadvise(model(tmp_path, content), "vllm.yaml"))


@pytest.mark.parametrize("change", [
    {"hidden_size": 10**400}, {"hidden_size": -64}, {"hidden_size": 0}, {"hidden_size": float("nan")},
    {"hidden_size": float("inf")}, {"hidden_size": "64"}, {"hidden_size": None}, {"hidden_size": [1]},
    {"num_hidden_layers": 10**30}, {"num_attention_heads": 0}, {"vocab_size": -1}, {"max_position_embeddings": "x"},
    {"rope_scaling": "yarn"}, {"rope_scaling": {"factor": float("nan")}}, {"architectures": "Llama"},
    {"architectures": [7]}, {"model_type": 7}, {"text_config": 7}, {"quantization_config": "fp8"},
    {"quantization_config": {"quant_method": 7}}, {"layer_types": [1, 2]}, {"num_key_value_heads": 1e400},
    {"sliding_window": -5}, {"head_dim": 10**20}, {"num_experts": -3}, {"torch_dtype": 16},
])
def test_absurd_values_in_a_model_are_judged_or_refused_but_never_crash(
    specadvise, tmp_path: Path, change: dict[str, object]
):
    done = specadvise(model(tmp_path, json.dumps({**GOOD, **change}).encode()), "vllm.yaml")
    error = done.stderr
    assert done.returncode in (0, 1, 2), error
    assert "Traceback" not in error
    assert "internal error" not in error


@pytest.mark.parametrize(("make", "said"), [
    (_sparse, "config.json"), (Path.mkdir, "m"), (os.mkfifo, "m"), (_link("/dev/zero"), "m"), (_link("nowhere"), "m"),
    (_link("config.json"), "m"),
])
def test_a_config_json_that_is_no_small_regular_file_never_hangs(
    specadvise, tmp_path: Path, make: Callable[[Path], None], said: str
):
    (tmp_path / "m").mkdir()
    make(tmp_path / "m" / "config.json")
    (tmp_path / "vllm.yaml").write_text(CONFIG)
    done = specadvise(tmp_path, "vllm.yaml")
    assert done.returncode in (0, 1, 2), done.stderr
    assert "internal error" not in done.stderr
    assert said in done.stdout + done.stderr


def test_a_linked_model_folder_is_followed_and_a_loop_of_links_is_no_model(specadvise, tmp_path: Path):
    model(tmp_path, json.dumps(GOOD).encode())
    (tmp_path / "linked").symlink_to("m")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "vllm.yaml").write_text("model: ./linked\n")
    followed = specadvise(tmp_path, "vllm.yaml")
    assert (followed.returncode, "not at hand" in followed.stdout) == (0, False)
    (tmp_path / "vllm.yaml").write_text("model: ./loop\n")
    looped = specadvise(tmp_path, "vllm.yaml")
    assert (looped.returncode, "not at hand" in looped.stdout) == (0, True)


# --- the other files it is given
@pytest.mark.parametrize("option", ["--policy", "--record", "--workload"])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[" * 100_000, b"", b'{"a": NaN}', b"a: &a [*a]\n", b"7"])
def test_other_files_are_refused_or_read_as_empty(specadvise, tmp_path: Path, option: str, content: bytes):
    (tmp_path / "vllm.yaml").write_text("model: org/a\n")
    (tmp_path / "other").write_bytes(content)
    done = specadvise(tmp_path, "vllm.yaml", option, "other")
    if content == b"" and option != "--record":
        assert done.returncode == 0
    else:
        assert "other" in sentence(done)


# --- files that are something else
@pytest.mark.parametrize(("content", "said"), [
    ("", "holds no options: expected `option: value` lines"), ("# only a comment\n", "holds no options"),
    ("{}\n", "holds no options"), ("---\n", "holds no options"),
    ("target: org/a\nhardware: {gpu: H100}\n", "specadvise advise vllm.yaml"),
    ("target: org/a\n", "is a deployment file"),
    ("severities: {SPD101: off}\n", "--policy vllm.yaml"), ("ignore: []\n", "is a policy"),
    ('{"schema_version": 1, "decision": {}}\n', "--record vllm.yaml"),
    ("image: nginx\nports: [80]\n", "has no option of vLLM among its 2 keys (image, ports)"),
])
def test_a_file_that_is_no_serve_config_says_what_it_is_and_what_was_expected(
    specadvise, tmp_path: Path, content: str, said: str
):
    (tmp_path / "vllm.yaml").write_text(content)
    assert said in sentence(specadvise(tmp_path, "vllm.yaml"))


def test_one_option_of_vllm_makes_a_file_a_serve_config(specadvise, tmp_path: Path):
    (tmp_path / "vllm.yaml").write_text("max-num-seqs: 4\nimage: nginx\n")
    done = specadvise(tmp_path, "vllm.yaml", "--format", "json")
    assert done.returncode == 1
    assert [f["where"] for f in json.loads(done.stdout)["findings"] if f["code"] == "SPD111"] == ["image"]
