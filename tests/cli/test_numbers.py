"""Options of `probe` and `verify` that no run can use: one sentence and exit code 2, whatever is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.main import main
from tests.probes.requests.synthetic_logs import azure

PLAIN = '{"timestamp": 0, "input_length": 5, "output_length": 6}\n'
RECORDED = json.dumps({"prompt_token_ids": [1, 2, 3], "output_token_ids": [1, 2, 3, 1]}) + "\n"
NO_NUMBERS = ("nan", "inf", "-inf", "-1", "", "x", "9" * 400, "1e400", "0x10")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0), capsys.readouterr().err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, said = run(capsys, *arguments)
    assert code == 2, (arguments, said)
    assert "internal error" not in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()[-1]) > 10
    return said


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("option", ["--tpot", "--ttft", "--interval", "--sample-prompts"])
def test_requests_takes_no_number_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str,
                                               value: str) -> None:
    (tmp_path / "m.jsonl").write_text(PLAIN)
    more = ["--out", str(tmp_path / "o")] if option == "--sample-prompts" else []
    refused(capsys, "probe", "requests", str(tmp_path / "m.jsonl"), option, value, *more)


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("option", ["--max-k", "--limit", "--spec-factor", "--min-token-prob", "--concurrency",
                                    "--max-model-len", "--lookup"])
def test_replay_takes_no_number_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str,
                                             value: str) -> None:
    (tmp_path / "r.jsonl").write_text(RECORDED)
    if (option, value) in (("--limit", "9" * 400), ("--max-model-len", "9" * 400)):
        # As large as anyone likes: there are no more records, and no longer context, than there are.
        return
    refused(capsys, "probe", "replay", str(tmp_path / "r.jsonl"), "--method", "ngram", option, value)


@pytest.mark.parametrize("value", [one for one in NO_NUMBERS if one != "-1"])
@pytest.mark.parametrize("option", ["--temperature", "--top-p", "--top-k", "--gpu-memory-utilization",
                                    "--tensor-parallel-size"])
def test_scoring_takes_no_number_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str,
                                              value: str) -> None:
    (tmp_path / "r.jsonl").write_text(RECORDED)
    refused(capsys, "probe", "scoring", str(tmp_path / "r.jsonl"), "--target", "t", "--draft", "d", option, value)


@pytest.mark.parametrize("value", [*NO_NUMBERS, "0", "5x", "10000h"])
@pytest.mark.parametrize("option", ["--window", "--timeout"])
def test_servers_are_watched_for_a_time_that_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str,
                                                    value: str) -> None:
    (tmp_path / "p.prom").write_text("vllm:num_requests_running 1\n")
    for command in (["probe", "server"], ["verify", str(tmp_path / "p.prom")]):
        refused(capsys, *command, str(tmp_path / "p.prom"), option, value)


@pytest.mark.parametrize("key", ["sk-abcdef0123456789", "hf_abcdefghij0123456789", "ABCDEFGHIJKL0", "not a name"])
@pytest.mark.parametrize("command", [["probe", "server", "http://127.0.0.1:9"],
                                     ["verify", "record.json", "http://127.0.0.1:9"]])
def test_a_key_given_in_place_of_a_variables_name_is_never_shown(capsys: pytest.CaptureFixture[str], key: str,
                                                                 command: list[str]) -> None:
    said = refused(capsys, *command, "--token-env", key)
    assert key not in said
    assert "environment variable" in said


@pytest.mark.parametrize("command", [
    ["advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--concurrency", "2", "--offline"],
    ["trial", "deployment.yaml"],
])
def test_prompts_that_are_not_there_are_refused_even_where_no_trial_reads_them(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    out = ["--out", str(tmp_path / "out")] if command[0] == "advise" else []
    said = refused(capsys, *command, *out, "--prompts", str(tmp_path / "none.jsonl"))
    assert "--prompts" in said
    assert not (tmp_path / "out" / "record.json").exists()


DEEP = "[" * 50_000 + "]" * 50_000
OBJECTS = '{"a":' * 50_000 + "1" + "}" * 50_000


@pytest.mark.parametrize("content", [DEEP, OBJECTS, '{"messages": ' + DEEP + "}"])
@pytest.mark.parametrize("command", ["requests", "replay", "server", "verify"])
def test_documents_nested_too_deeply_are_unreadable_input(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                          command: str, content: str) -> None:
    path = tmp_path / "deep.json"
    path.write_text(content)
    words = ["verify", str(path), str(path)] if command == "verify" else ["probe", command, str(path)]
    refused(capsys, *words)


@pytest.mark.parametrize("columns", ["", "prompt", "prompt=", "=a", "arrival=TIMESTAMP:h", "prompt=a,prompt",
                                     "\x00=\x00"])
def test_a_column_mapping_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                  columns: str) -> None:
    refused(capsys, "probe", "requests", azure(tmp_path / "a.csv", [(0.0, 1, 1), (1.0, 1, 1)]), "--columns", columns)


@pytest.mark.parametrize("words", [
    ["probe", "requests", ""], ["probe", "replay", ""], ["probe", "server", ""], ["verify", "", ""],
    ["probe", "requests", "x" * 5000], ["probe", "replay", "x" * 5000], ["probe", "server", "x" * 5000],
    ["verify", "x" * 5000, "x"], ["probe", "requests", "\x00"], ["probe", "server", "\x00"],
])
def test_names_that_are_no_files_are_refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    refused(capsys, *words)
