"""`specadvise plan` on the command line: answers, refusals and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.plan import parse_candidates
from profiles.errors import InputError
from tests.cli.shell import specadvise

DEPLOYMENT = """
target: meta-llama/Llama-3.1-8B-Instruct
candidates:
  - {method: ngram, k: 1-3}
engine: {vllm_version: 0.32.0, max_num_seqs: 32}
hardware: {gpu: H100}
workload: {arrival_rate_rps: 3, prompt_tokens: 300, output_tokens: 80, tasks: code}
objective: {tpot_ms: 15}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deployment.yaml").write_text(DEPLOYMENT)
    return tmp_path


def test_json_holds_arms_fleets_and_what_ifs(folder: Path) -> None:
    ran = specadvise("plan", "deployment.yaml", "--offline", "--format", "json", "--peak", "20", "--what-if",
                     "gpu=L40S,context=2x", "--candidate", "ngram:2", "--effort", "0.5", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["schema_version"] == 1
    assert found["traffic"]["peak_rate_rps"] == 20
    assert found["arms"][0]["role"] == "null"
    assert any(arm["label"] == "ngram" and arm["k"] == 2 for arm in found["arms"])
    assert len(found["arms"][0]["fleets"]) == 10
    variant = found["what_if"][0]
    assert variant["change"] == "gpu=L40S,context=2x"
    assert variant["arms"][0]["highest_rate_rps"]["value"] < found["arms"][0]["highest_rate_rps"]["value"]


def test_text_says_replicas_and_money(folder: Path) -> None:
    ran = specadvise("plan", "deployment.yaml", "--offline", "--price", "2", "--effort", "0.5", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "serves the peak" in ran.stdout
    assert "$1,460 a month" in ran.stdout
    assert "as stated" in ran.stdout


def test_without_a_load_it_abstains_and_says_what_would_settle_it(folder: Path) -> None:
    path = folder / "deployment.yaml"
    path.write_text(DEPLOYMENT.replace("arrival_rate_rps: 3, ", ""))
    ran = specadvise("plan", "deployment.yaml", "--offline", "--effort", "0.5", cwd=folder)
    assert ran.returncode == 3
    assert "--peak" in ran.stdout
    assert specadvise("plan", "deployment.yaml", "--offline", "--effort", "0.5", "--peak", "5",
                      cwd=folder).returncode == 0


@pytest.mark.parametrize("name", ["trace.csv", "trace.jsonl"])
def test_a_trace_gives_rate_and_lengths(folder: Path, name: str) -> None:
    rows = [(i * 0.5, 100 + i, 20 + i % 7) for i in range(40)]
    lines = (["arrival_s,prompt_tokens,output_tokens"] + [",".join(map(str, row)) for row in rows]
             if name.endswith("csv") else [json.dumps(dict(zip(("arrival_s", "prompt_tokens", "output_tokens"), row,
                                                               strict=True))) for row in rows])
    (folder / name).write_text("\n".join(lines) + "\n")
    path = folder / "deployment.yaml"
    path.write_text(DEPLOYMENT.replace("arrival_rate_rps: 3, ", ""))
    ran = specadvise("plan", "deployment.yaml", "--offline", "--format", "json", "--trace", name, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    traffic = json.loads(ran.stdout)["traffic"]
    assert traffic["source"] == name
    assert traffic["usual_rate_rps"] == pytest.approx(2.0)
    assert traffic["prompt_tokens"] == pytest.approx(119.5)


@pytest.mark.parametrize(("arguments", "part"), [
    (["--what-if", "colour=red"], "expected one of"),
    (["--candidate", "guesswork"], "unknown method"),
    (["--candidate", "draft_model"], "needs a draft"),
    (["--prices", "none.yaml"], "cannot read the price table"),
    (["--price", "2", "--prices", "none.yaml"], "state one"),
    (["--trace", "bad.csv"], "line 2"),
    (["--peak", "0"], "--peak"),
])
def test_wrong_use_is_one_sentence_and_exit_code_2(folder: Path, arguments: list[str], part: str) -> None:
    (folder / "bad.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,x,1\n")
    ran = specadvise("plan", "deployment.yaml", "--offline", *arguments, cwd=folder)
    assert ran.returncode == 2
    assert part in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


def test_candidates_are_named_with_method_draft_and_k() -> None:
    said: list[str] = []
    ((_, alone),) = parse_candidates("ngram", "org/target", said)
    assert alone is None
    ((candidate, k),) = parse_candidates("draft_model:org/name:4", "org/target", said)
    assert (candidate.label, candidate.k, k) == ("draft_model name", (4,), 4)
    with pytest.raises(InputError, match=r"METHOD\[:DRAFT\]\[:K\]"):
        parse_candidates("ngram:org/name", "org/target", said)
    assert said == []
    heads = parse_candidates("eagle3:2", "meta-llama/Llama-3.1-8B-Instruct", said)
    assert {(c.method, k) for c, k in heads} == {("eagle3", 2)}
    assert len(heads) == len(said) >= 1
    with pytest.raises(InputError, match="needs a draft"):
        parse_candidates("eagle3", "nobody/knows-this", said)


def test_advise_keeps_the_plan_in_its_record_where_it_is_asked_for(folder: Path) -> None:
    ran = specadvise("advise", "deployment.yaml", "--offline", "--plan", "--out", "out", "--quiet", cwd=folder)
    assert ran.returncode in (0, 3), ran.stderr
    record = json.loads((folder / "out" / "record.json").read_text())
    planned = json.loads(specadvise("plan", "deployment.yaml", "--offline", "--format", "json", cwd=folder).stdout)
    assert record["capacity"] == planned
    assert 'data-spec="rate-tpot"' in (folder / "out" / "report.html").read_text()
