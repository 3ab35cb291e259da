"""`specadvise check` around the rules: what it reads, how it answers, what a team decided, and what changed."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from advisor.checks.finding import CheckResult
from advisor.checks.subject import Subject
from advisor.cli.main import main
from advisor.cli.policy_file import find_policy, load_policy

FAULTY = "model: org/target\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 4\n  no_such_key: 1\n"
"""A key that no release knows: an error whatever else is judged."""


class Answer(SimpleNamespace):
    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs `specadvise check` in a folder of its own; files are given as name=text."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()

    def run(*arguments: str, stdin: bytes | None = None, **files: str) -> Answer:
        find_policy.cache_clear()
        load_policy.cache_clear()
        for name, text in files.items():
            path = tmp_path / name.replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            main(["check", *arguments, "--vllm-version", "0.32.0", "--gpu", "H100", "--gpus", "1"])
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Answer(code=code, out=captured.out, err=captured.err)

    return run


def codes(answer: Answer) -> list[str]:
    document = answer.json
    assert isinstance(document, dict)
    return [finding["code"] for finding in document["findings"] if finding["severity"] == "error"]


def test_the_same_fault_is_found_wherever_the_config_lives(check):
    as_json = json.dumps({"method": "ngram", "num_speculative_tokens": 4, "no_such_key": 1})
    arguments = json.dumps(["--model", "org/target", "--speculative-config", as_json])
    expected = codes(check("a.yaml", "--format", "json", a__yaml=FAULTY))
    assert expected
    for name, text in {
        "run__sh": f"#!/bin/sh\nvllm serve org/target --speculative-config '{as_json}'\n",
        "Dockerfile": f"FROM vllm/vllm-openai\nCMD {arguments}\n",
        "compose__yaml": f"services:\n  s:\n    image: vllm/vllm-openai\n    command: {arguments}\n",
        "pod__yaml": "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai\n"
                     f"    args: {arguments}\n",
        "values__yaml": "modelSpec:\n- name: m\n  modelURL: org/target\n  vllmConfig:\n    extraArgs: "
                        + json.dumps(["--speculative-config", as_json]) + "\n",
    }.items():
        answer = check(name.replace("__", "."), "--format", "json", **{name: text})
        assert answer.code == 1, (name, answer.err)
        assert codes(answer) == expected, name


def test_stdin_and_a_command_line_in_quotes_are_read(check):
    assert check("-", stdin=FAULTY.encode()).out.startswith("stdin:5: error ")
    line = check("vllm serve org/target --speculative-config.no_such_key 1 --speculative-config.method ngram")
    assert (line.code, line.out.split(":")[0]) == (1, "command line")


def test_one_config_is_an_object_and_several_are_a_list_with_their_parts(check):
    one = check("a.yaml", "--format", "json", a__yaml="model: org/target\n").json
    assert isinstance(one, dict)
    two = check("run.sh", "--format", "json", run__sh="vllm serve org/a\nvllm serve org/b\n").json
    assert isinstance(two, list)
    assert [(result["name"], result["part"]) for result in two] == [("run.sh", "line 1"), ("run.sh", "line 2")]


@pytest.mark.parametrize("format", ["text", "json", "github", "sarif", "junit", "markdown"])
def test_every_format_answers_with_the_same_exit_code(check, format: str):
    answer = check("a.yaml", "--format", format, a__yaml=FAULTY)
    assert (answer.code, answer.err) == (1, "")
    assert "no_such_key" in answer.out.replace("\\", "")


def test_fail_on_sets_the_severity_that_fails(check):
    ignored = "model: org/target\n# specadvise: ignore SPD999 a typing mistake\n"
    assert check("a.yaml", a__yaml=ignored).code == 0
    assert check("a.yaml", "--fail-on", "warn", a__yaml=ignored).code == 1


def test_an_ignore_with_a_reason_passes_and_one_without_fails(check):
    (code,) = set(codes(check("a.yaml", "--format", "json", a__yaml=FAULTY)))
    assert check("a.yaml", a__yaml=f"# specadvise: ignore {code} our fork has that key\n{FAULTY}").code == 0
    bare = check("a.yaml", a__yaml=f"# specadvise: ignore {code}\n{FAULTY}")
    assert bare.code == 1
    assert "SPD901" in bare.out


def test_the_policy_above_the_config_counts_and_another_may_be_named(check, tmp_path: Path):
    (code,) = set(codes(check("a.yaml", "--format", "json", a__yaml=FAULTY)))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yaml").write_text(FAULTY)
    policy = f"ignore:\n- code: {code}\n  reason: our fork has that key\n  paths: [deep/*.yaml]\n"
    (tmp_path / ".specadvise.yaml").write_text(policy)
    assert check("deep/a.yaml").code == 0
    assert check("a.yaml").code == 1
    (tmp_path / "strict.yaml").write_text("severities: {}\n")
    assert check("deep/a.yaml", "--policy", "strict.yaml").code == 1


def test_an_expired_decision_no_longer_counts_and_says_so(check, tmp_path: Path):
    (code,) = set(codes(check("a.yaml", "--format", "json", a__yaml=FAULTY)))
    (tmp_path / ".specadvise.yaml").write_text(f"ignore:\n- code: {code}\n  reason: x\n  until: 2020-01-01\n")
    answer = check("a.yaml")
    assert answer.code == 1
    assert ".specadvise.yaml:2 accepted" in answer.out


def test_what_a_file_states_wins_over_the_shell_and_a_flag_over_both(check, monkeypatch: pytest.MonkeyPatch):
    seen: list[str | None] = []
    monkeypatch.setattr("advisor.checks.run.check", lambda subject, fail_on: _record_env(subject, seen))
    monkeypatch.setenv("VLLM_X", "shell")
    script = "VLLM_X=file vllm serve org/a\n"
    check("b.sh", b__sh="vllm serve org/a\n")
    check("a.sh", a__sh=script)
    check("a.sh", "--env", "VLLM_X=flag", a__sh=script)
    assert seen == ["shell", "file", "flag"]


def _record_env(subject: Subject, seen: list[str | None]) -> CheckResult:
    seen.append(subject.env.get("VLLM_X"))
    return CheckResult(name="x", verdict="pass", vllm_version="0.32.0", rules_version="0.32.0")


# --- drift, from the advice to the config it wrote
@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("advised")
    try:
        main(["advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--method", "ngram", "--gpu", "H100",
              "--gpus", "1", "--concurrency", "1", "--prompt-len", "300", "--output-len", "300",
              "--task", "code", "--temperature", "0",
              "--vllm-version", "0.32.0", "--quiet", "--out", str(out)])
    except SystemExit as stop:
        assert stop.code in (0, 3)  # noqa: PT017 - an abstention writes its files too
    return out


def test_what_advise_wrote_has_not_drifted_from_its_own_record(check, advised: Path):
    env = json.loads((advised / "record.json").read_text())["emitted"]["env"]
    flags = [part for key, value in env.items() for part in ("--env", f"{key}={value}")]
    answer = check(str(advised / "vllm.yaml"), "--record", str(advised / "record.json"), "--format", "json", *flags)
    assert isinstance(answer.json, dict)
    assert [f for f in answer.json["findings"] if f["family"] == "drift"] == []


def test_a_changed_limit_is_drift(check, advised: Path, tmp_path: Path):
    (tmp_path / "changed.yaml").write_text((advised / "vllm.yaml").read_text() + "max-num-seqs: 7\n")
    answer = check("changed.yaml", "--record", str(advised / "record.json"), "--format", "json")
    assert isinstance(answer.json, dict)
    assert "SPD916" in [f["code"] for f in answer.json["findings"]]


def test_a_record_that_is_none_is_refused(check):
    answer = check("a.yaml", "--record", "r.json", a__yaml="model: org/a\n", r__json="{}")
    assert answer.code == 2
    assert "r.json is not a record" in answer.err


def test_notices_stand_in_the_list_of_rules_and_can_be_asked_for(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["rules"])
    listed = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["rules", "spd904", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["code"] == "SPD904"
    assert all(code in listed for code in ("SPD901", "SPD905", "SPD911", "SPD101"))


def test_alert_rules_are_called_by_their_name_and_no_chart(check, tmp_path):
    main_code = 0
    try:
        main(["advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--vllm-version", "0.32.0",
              "--draft", "meta-llama/Llama-3.2-1B-Instruct", "--offline", "-q", "--emit", "prometheus",
              "--out", str(tmp_path / "out")])
    except SystemExit as stop:
        main_code = int(stop.code or 0)
    assert main_code in (0, 3)
    rules = (tmp_path / "out" / "alerts.yaml").read_text()
    assert "{{ $value" in rules
    answer = check("out/alerts.yaml")
    assert answer.code == 2
    assert "alerts.yaml is a Prometheus rules file, not a serve config" in answer.err
    assert "helm" not in answer.err


@pytest.mark.parametrize(("document", "said"), [
    ({"schema_version": 1, "decision": {}}, "is a record, not a serve config: give it with `--record f.json`"),
    ({"schema_version": 1, "kind": "requests", "collected_at": ""}, "is evidence, not a serve config"),
])
def test_records_and_evidence_of_any_size_are_called_by_their_name(check, document, said):
    answer = check("f.json", f__json=json.dumps({**document, "candidates": [[i] for i in range(12_000)]}, indent=1))
    assert answer.code == 2
    assert said in answer.err
    assert "values" not in answer.err
