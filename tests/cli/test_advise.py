"""`specadvise advise` on the command line: what it writes, what it refuses and how, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.candidates import heads_to_price
from advisor.cli.advise_flags import candidates_of, flags_of
from advisor.cli.deployment_file import load_deployment
from advisor.cli.number_types import seconds_of
from advisor.record import Record
from benchmarks.readme import advise_flags
from profiles.errors import InputError
from tests.cli.shell import process, specadvise

COMMON = advise_flags()


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("advised")
    return folder, process("advise", *COMMON, "--out", "out/", cwd=folder)


def test_flags_alone_give_advice_and_three_files(advised: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, ran = advised
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["record.json", "report.html", "vllm.yaml"]
    record = Record.model_validate_json((folder / "out" / "record.json").read_text())
    assert record.decision.enable is True
    assert record.emitted.vllm_yaml == (folder / "out" / "vllm.yaml").read_text()
    config = yaml.safe_load(record.emitted.vllm_yaml)
    assert config["speculative-config"]["model"] == "meta-llama/Llama-3.2-1B-Instruct"
    assert config["speculative-config"]["num_speculative_tokens"] == record.decision.k
    assert (folder / "out" / "report.html").read_text().lower().startswith("<!doctype html>")
    assert "Llama-3.2-1B-Instruct" in ran.stdout
    assert "Wrote out/vllm.yaml" in ran.stderr


def test_report_of_the_record_prints_what_the_run_printed(
    advised: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, ran = advised
    assert specadvise("report", "out/record.json", cwd=folder).stdout == ran.stdout


def test_a_file_and_the_same_flags_give_the_same_advice(
    advised: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "d.yaml").write_text(
        "target: meta-llama/Llama-3.1-8B-Instruct\n"
        "candidates: [{method: draft_model, draft: meta-llama/Llama-3.2-1B-Instruct}]\n"
        "engine: {vllm_version: 0.32.0}\nhardware: {gpu: RTX PRO 6000, count: 1}\n"
        "workload: {concurrency: 4, prompt_tokens: 400, output_tokens: 384, tasks: json, sampling: {temperature: 0}}\n"
    )
    ran = specadvise("advise", "d.yaml", "--offline", "--out", "out", "-q", "--format", "json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    first = json.loads((advised[0] / "out" / "record.json").read_text())
    second = json.loads(ran.stdout)
    assert second["decision"] == first["decision"]
    assert second["candidates"] == first["candidates"]


def test_a_flag_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(
        "target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\nworkload: {concurrency: 1}\n"
    )
    ran = specadvise(
        "advise",
        "d.yaml",
        "--concurrency",
        "32",
        "--method",
        "ngram",
        "--k",
        "2,4",
        "--offline",
        "--out",
        "out",
        "--format",
        "json",
        "--vllm-version",
        "0.32",
        cwd=tmp_path,
    )
    stated = json.loads(ran.stdout)["deployment"]
    assert stated["workload"]["concurrency"] == 32
    assert [(c["method"], c["k"]) for c in stated["candidates"]] == [("ngram", [2, 4])]


def test_abstention_is_exit_3_and_still_writes_the_deployment_without_speculation(tmp_path: Path) -> None:
    # A candidate about which nothing is known but its name: the interval is wide on both sides.
    ran = specadvise(
        "advise",
        "--target",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--method",
        "ngram",
        "--gpu",
        "H100",
        "--concurrency",
        "8",
        "--vllm-version",
        "0.32",
        "--offline",
        "--out",
        "out",
        cwd=tmp_path,
    )
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["decision"]["enable"] is None
    assert ran.returncode == 3
    text = (tmp_path / "out" / "vllm.yaml").read_text()
    assert "speculative-config" not in yaml.safe_load(text)
    assert "could not decide" in text


def test_without_candidates_the_catalog_proposes_some(tmp_path: Path) -> None:
    ran = specadvise(
        "advise",
        "--target",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--gpu",
        "H100",
        "--concurrency",
        "2",
        "--offline",
        "--vllm-version",
        "0.32",
        "--format",
        "json",
        "--out",
        "out",
        cwd=tmp_path,
    )
    assert ran.returncode in (0, 3), ran.stderr
    assert len({c["label"] for c in json.loads(ran.stdout)["candidates"]}) > 2


def test_a_second_run_replaces_the_files_and_leaves_nothing_beside(tmp_path: Path) -> None:
    for concurrency in ("1", "2"):
        assert specadvise("advise", *COMMON, "--concurrency", concurrency, cwd=tmp_path).returncode in (0, 3)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["record.json", "report.html", "vllm.yaml"]


# --- wrong use -----------------------------------------------------------------------------------------------------
def _deployment(tmp_path: Path, text: str) -> str:
    path = tmp_path / "d.yaml"
    path.write_text(text)
    return "d.yaml"


GOOD = "target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\n"


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        (
            GOOD + "engine:\n  max_modl_len: 4\n",
            [],
            r"d\.yaml:4: engine has no field 'max_modl_len': did you mean 'max_model_len'\?",
        ),
        ("target: [\n", [], r"d\.yaml:2: not valid YAML"),
        ("target: no-such/model\nhardware: {gpu: H100}\n", [], r"no-such/model"),
        ("target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: RTX PRO 600}\n", [], r"RTX PRO 6000"),
        (GOOD, ["--gpu", "Hopper 9000"], r"Hopper 9000"),
        (GOOD, ["--concurrency", "1", "--rate", "2"], r"both --concurrency and --rate"),
        (
            GOOD + "workload: {concurrency: 1, arrival_rate_rps: 2}\n",
            [],
            r"d\.yaml:3: workload: both concurrency and arrival_rate_rps",
        ),
        (GOOD, ["--concurrency", "0"], r"'--concurrency': '0' is not usable here: expected a number above 0"),
        (GOOD, ["--task", "poetry"], r"--task: workload\.tasks: unknown task 'poetry'"),
        (GOOD, ["--vllm-version", "newest please"], r"newest please"),
        (GOOD, ["--method", "telepathy"], r"--method: unknown method 'telepathy'"),
        (GOOD, ["--method", "draft_model"], r"--method draft_model needs a draft: name it with --draft"),
        (GOOD, ["--evidence", "none.json"], r"none\.json does not exist"),
        (GOOD, ["--budget", "soon"], r"'soon' is not a duration: expected one like 90s, 10m or 1h"),
        (GOOD, ["--emitted", "kubernetes"], r"No such option"),
        (GOOD, ["--k", "0"], r"k must hold numbers between 1 and 64"),
    ],
)
def test_wrong_input_is_exit_2_and_one_sentence(tmp_path: Path, text: str, arguments: list[str], sentence: str) -> None:
    if "--k" in arguments:
        arguments = [*arguments, "--method", "ngram"]
    ran = specadvise("advise", _deployment(tmp_path, text), "--offline", *arguments, cwd=tmp_path)
    assert ran.returncode == 2, (ran.returncode, ran.stderr)
    assert re.search(sentence, ran.stderr), ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_missing_file_folder_and_nothing_at_all_are_exit_2(tmp_path: Path) -> None:
    for arguments, sentence in (
        (["none.yaml"], "none.yaml does not exist"),
        ([str(tmp_path)], "is a folder: expected a YAML file"),
        ([], "no deployment is given: name a file"),
    ):
        ran = specadvise("advise", *arguments, cwd=tmp_path)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert sentence in ran.stderr
        assert len(ran.stderr.strip().splitlines()) == 1


def test_out_that_cannot_be_written_is_exit_2_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = specadvise("advise", _deployment(tmp_path, GOOD), "--offline", "--out", "file/out", cwd=tmp_path)
    assert ran.returncode == 2
    assert "file/out" in ran.stderr
    assert "--out" in ran.stderr


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (0, "collect it again"),
        (99, "update specadvise"),
        ("1", "collect it again"),
        (None, "collect it again"),
        (True, "collect it again"),
    ],
)
def test_evidence_of_another_version_is_refused(tmp_path: Path, version: Any, advice: str) -> None:
    (tmp_path / "e.json").write_text(json.dumps({"schema_version": version, "kind": "gpu"}))
    ran = specadvise("advise", _deployment(tmp_path, GOOD), "--offline", "--evidence", "e.json", cwd=tmp_path)
    assert ran.returncode == 2
    assert "schema_version" in ran.stderr
    assert advice in ran.stderr


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 1, "kind": "gpu"}', "\x00"])
def test_damaged_evidence_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.json").write_text(text)
    ran = specadvise("advise", _deployment(tmp_path, GOOD), "--offline", "--evidence", "e.json", cwd=tmp_path)
    assert ran.returncode == 2
    assert "e.json" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_only_debug_shows_a_traceback(tmp_path: Path) -> None:
    name = _deployment(tmp_path, "target: [\n")
    assert "Traceback" not in specadvise("advise", name, cwd=tmp_path).stderr
    assert "Traceback" in specadvise("advise", name, "--debug", cwd=tmp_path).stderr
    assert "Traceback" in specadvise("--debug", "advise", name, cwd=tmp_path).stderr
    assert "Traceback" in specadvise("advise", name, cwd=tmp_path, SPECADVISE_DEBUG="1").stderr


# --- probes that fail ------------------------------------------------------------------------------------------------
def test_a_server_that_is_down_is_a_warning_where_the_load_is_stated(tmp_path: Path) -> None:
    name = _deployment(
        tmp_path, GOOD + "workload: {concurrency: 4}\nsources: {server: 'http://127.0.0.1:9', server_window_s: 1}\n"
    )
    ran = specadvise("advise", name, "--method", "ngram", "--vllm-version", "0.32", "--offline", cwd=tmp_path)
    assert ran.returncode in (0, 3), ran.stderr
    assert len([line for line in ran.stderr.splitlines() if line.startswith("specadvise: server probe:")]) == 1


def test_a_server_that_is_down_is_exit_4_where_nothing_else_states_the_load(tmp_path: Path) -> None:
    name = _deployment(tmp_path, GOOD + "sources: {server: 'http://127.0.0.1:9', server_window_s: 1}\n")
    ran = specadvise("advise", name, "--method", "ngram", "--vllm-version", "0.32", "--offline", cwd=tmp_path)
    assert ran.returncode == 4, ran.stderr
    assert "--concurrency" in ran.stderr


# --- flags -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("1h30m", 5400), ("45", 45), ("1.5m", 90)]
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_drafts_go_to_the_method_that_needs_them() -> None:
    head = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    assert candidates_of(["ngram"], ["org/small"], None) == [
        {"method": "draft_model", "draft": "org/small"},
        {"method": "ngram"},
    ]
    assert candidates_of(["eagle"], ["org/a", "org/b"], "1-3") == [
        {"method": "eagle", "draft": "org/a", "k": "1-3"},
        {"method": "eagle", "draft": "org/b", "k": "1-3"},
    ]
    assert candidates_of([], [head], None)[0]["method"] == "eagle3"
    with pytest.raises(InputError, match="could go to each of draft_model, eagle3"):
        candidates_of(["draft_model", "eagle3"], ["org/a"], None)


def test_a_method_without_its_draft_is_told_what_the_catalog_has_for_the_target() -> None:
    target = "meta-llama/Llama-3.1-8B-Instruct"
    with pytest.raises(InputError, match=r"the catalog has meta-llama/Llama-3.2-1B-Instruct"):
        candidates_of(["draft_model"], [], None, target)
    assert candidates_of(["eagle3", "ngram"], [], "2", target) == [{"method": "eagle3", "k": "2"},
                                                                   {"method": "ngram", "k": "2"}]


@pytest.mark.parametrize("name", ["eagle3", "eagle", "dflash", "medusa"])
def test_a_method_of_trained_heads_is_filled_from_the_catalog_or_refused_with_what_to_do(name: str) -> None:
    target = "meta-llama/Llama-3.1-8B-Instruct"
    flags = flags_of({"target": target, "method": (name,), "k": "1-3"})
    known = [head.id for head in heads_to_price(target, name)]
    filled: list[str] = []
    if not known:
        with pytest.raises(InputError, match=rf"--method {name} needs a draft: name it with --draft"):
            load_deployment(None, flags, filled)
        return
    loaded = load_deployment(None, flags, filled)
    assert [c.draft.id for c in loaded.candidates if c.draft is not None] == known
    assert {c.k for c in loaded.candidates} == {(1, 2, 3)}
    assert len(filled) == len(known)
    assert all(f"no draft is named for {name}: {head} is taken from the catalog" in said and "source: " in said
               for head, said in zip(known, filled, strict=True))


def test_a_head_that_is_filled_in_is_named_in_the_record(tmp_path: Path) -> None:
    ran = specadvise("advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--method", "eagle3", "--gpu", "H100",
                     "--concurrency", "4", "--offline", "--out", "out", "--format", "json", cwd=tmp_path)
    assert ran.returncode in (0, 3), ran.stderr
    record = json.loads(ran.stdout)
    assert any("no draft is named for eagle3" in text for text in record["assumptions"])
    assert "no draft is named for eagle3" in ran.stderr
