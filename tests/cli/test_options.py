"""What no option may be given: nothing at all, `-` for a file, or a value that nothing would read."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from advisor.cli.group import cli
from advisor.cli.reference_pages import commands
from tests.advisor.report import synthetic_record
from tests.cli.shell import specadvise

VALUED = [(name, max(option.opts, key=len)) for name, command in commands(cli) for option in command.params
          if isinstance(option, click.Option) and not option.is_flag and not option.count]
LLAMA = ["--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--concurrency", "2",
         "--vllm-version", "0.32.0",
         "--method", "ngram", "--offline"]
LINE = {"timestamp": 1000, "input_length": 100, "output_length": 20}
RECORDED = {"prompt_token_ids": [1, 2, 3], "output_token_ids": [1, 2, 3, 1]}


@pytest.mark.parametrize("value", ["", " \t"])
@pytest.mark.parametrize(("command", "option"), VALUED)
def test_an_empty_value_is_refused_by_every_option_of_every_command(tmp_path: Path, command: str, option: str,
                                                                    value: str) -> None:
    ran = specadvise(*command.split(), option, value, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (f"specadvise: {option} is empty (a variable that is not set?): give it a value, or leave it "
                          "out\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["check", ""], ["probe", "requests", "a", ""], ["verify", "record.json", " "],
                                   ["advise", ""], ["predict", "--out", "x", ""]])
def test_an_empty_argument_is_refused_too(tmp_path: Path, words: list[str]) -> None:
    ran = specadvise(*words, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.endswith(" is empty (a variable that is not set?): give it a value\n")


def test_an_empty_variable_of_the_server_is_a_value(tmp_path: Path) -> None:
    (tmp_path / "vllm.yaml").write_text("model: org/a\n")
    ran = specadvise("check", "vllm.yaml", "--vllm-version", "0.32.0", "--env", "VLLM_LOGGING_LEVEL=", cwd=tmp_path)
    assert ran.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps({**LINE, "timestamp": i}) + "\n" for i in range(9)))
    (tmp_path / "recorded.jsonl").write_text(json.dumps(RECORDED) + "\n")
    (tmp_path / "record.json").write_text(synthetic_record.enabled().model_dump_json())
    (tmp_path / "page.prom").write_text("vllm:num_requests_running 1\n")
    (tmp_path / "vllm.yaml").write_text("model: org/a\n")
    (tmp_path / "deployment.yaml").write_text("target: org/a\n")
    return tmp_path


@pytest.mark.parametrize("words", [
    ["probe", "requests", "log.jsonl", "--save", "-"], ["probe", "replay", "recorded.jsonl", "--save", "-"],
    ["probe", "server", "page.prom", "--save", "-"], ["probe", "gpu", "--save", "-"],
    ["verify", "record.json", "page.prom", "--save", "-"], ["trial", "deployment.yaml", "--save", "-"],
    ["probe", "scoring", "recorded.jsonl", "--target", "t", "--draft", "d", "--save", "-"],
    ["probe", "requests", "log.jsonl", "--sample-prompts", "2", "--out", "-"],
    ["check", "vllm.yaml", "--vllm-version", "0.32.0", "--also", "json=-"], ["advise", *LLAMA, "--out", "-"],
])
def test_no_file_or_folder_is_called_as_stdout_is(folder: Path, words: list[str]) -> None:
    before = sorted(folder.iterdir())
    ran = specadvise(*words, cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'-'" in ran.stderr or " -:" in ran.stderr
    assert "stdout" in ran.stderr
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("words", [["report", "record.json", "-o", "-"], ["init", "--out", "-"]])
def test_where_the_result_is_all_there_is_a_dash_is_stdout(folder: Path, words: list[str]) -> None:
    before = sorted(folder.iterdir())
    ran = specadvise(*words, cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout) > 100
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(("words", "option", "when"), [
    (["advise", *LLAMA, "--budget", "5m"], "--budget", "with --trial"),
    (["advise", *LLAMA, "--resume"], "--resume", "with --trial"),
    (["advise", *LLAMA, "--prompts", "log.jsonl"], "--prompts", "with --trial"),
    (["advise", *LLAMA, "--no-trial", "--budget", "5m"], "--budget", "with --trial"),
    (["probe", "requests", "log.jsonl", "--interval", "0.1"], "--interval", "with --sample-prompts"),
    (["probe", "gpu", "--target", "org/a", "--method", "eagle3"], "--method", "with --draft"),
    (["probe", "replay", "recorded.jsonl", "--method", "ngram", "--spec-factor", "2"],
     "--spec-factor", "with --method"),
    (["plan", "deployment.yaml", "--trace", "log.jsonl", "--burstiness", "2"], "--burstiness", "without --trace"),
])
def test_an_option_that_nothing_reads_is_refused(folder: Path, words: list[str], option: str, when: str) -> None:
    ran = specadvise(*words, cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"specadvise: {option} is read {when}")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("key", ["hf_abcdefghij0123456789ABCDEF", "sk-abcdef0123456789abcdef",
                                 "ghp_abcdefghij0123456789"])
@pytest.mark.parametrize("words", [
    ["advise", *LLAMA, "--gpu"], ["advise", *LLAMA, "--target"], ["advise", *LLAMA, "--method"],
    ["advise", *LLAMA, "--goal"],
    ["advise", *LLAMA, "--task"], ["advise", *LLAMA, "--vllm-version"], ["advise", *LLAMA, "-k"],
    ["advise", *LLAMA, "--draft"], ["advise", *LLAMA, "--evidence"], ["advise", *LLAMA, "--trial", "--prompts"],
    ["advise", *LLAMA, "--concurrency"], ["advise", *LLAMA, "--emit"], ["advise"], ["check"],
    ["check", "vllm.yaml", "--gpu"],
    ["check", "vllm.yaml", "--env"], ["check", "vllm.yaml", "--also"], ["check", "vllm.yaml", "--workload"],
    ["check", "vllm.yaml", "--policy"], ["check", "vllm.yaml", "--vllm-version"], ["check", "vllm.yaml", "--gpus"],
    ["plan"], ["plan", "deployment.yaml", "--what-if"], ["plan", "deployment.yaml", "--candidate"],
    ["rules"], ["report"],
    ["probe", "server"], ["probe", "requests"], ["probe", "requests", "log.jsonl", "--columns"],
    ["probe", "requests", "log.jsonl", "--as"], ["probe", "requests", "log.jsonl", "--tokenizer"], ["predict"],
    ["probe", "replay", "recorded.jsonl", "--task"], ["probe", "replay", "recorded.jsonl", "--method"], ["fit"],
    ["probe", "replay", "recorded.jsonl", "--lookup"], ["trial"], ["verify"], ["probe", "gpu", "--window"], [],
])
def test_a_key_that_was_given_in_place_of_another_value_is_not_shown(folder: Path, words: list[str], key: str) -> None:
    ran = specadvise(*words, key, cwd=folder)
    assert key not in ran.stdout + ran.stderr
    assert "internal error" not in ran.stderr


def test_two_results_of_one_run_are_not_put_into_one_file(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps(LINE) + "\n")
    (tmp_path / "link").symlink_to("x.json")
    ran = specadvise("probe", "requests", "log.jsonl", "--sample-prompts", "1", "--out", "x.json", "--save", "link",
                     cwd=tmp_path)
    assert ran.returncode == 2
    assert "--out and --save name one file" in ran.stderr or "--save and --out name one file" in ran.stderr
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("words", [["init", "--out", "new/"], ["predict", "-", "-o", "new/"],
                                   ["probe", "requests", "log.jsonl", "--save", "new/"]])
def test_a_name_that_ends_as_a_folders_does_is_no_file(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps(LINE) + "\n")
    ran = specadvise(*words, cwd=tmp_path)
    assert ran.returncode == 2
    assert "names a folder" in ran.stderr
    assert not (tmp_path / "new").exists()
