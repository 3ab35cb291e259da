"""`specadvise check` on files: verdicts, exit codes, models beside the config, and what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from advisor.cli.group import cli
from profiles.errors import InputError

PAIR = """\
model: models/target
tensor-parallel-size: 2
max-model-len: 16384
max-num-seqs: 32
speculative-config:
  method: draft_model
  model: models/draft
  num_speculative_tokens: 3
"""
QWEN = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64,
        "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 25600, "vocab_size": 151936,
        "max_position_embeddings": 40960, "head_dim": 128}
SMALL = {**QWEN, "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "intermediate_size": 3072}


def _write(folder: Path, config: str = PAIR, **models: dict[str, Any]) -> Path:
    for name, content in models.items():
        place = folder / "models" / name
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(content), encoding="utf-8")
    path = folder / "vllm.yaml"
    path.write_text(config, encoding="utf-8")
    return path


def _check(path: Path, *more: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(
        cli, ["check", str(path), "--vllm-version", "0.32.0", "--gpu", "H100", "--gpus", "2", "--format", "json",
              *more],
        env={"VLLM_USE_V2_MODEL_RUNNER": "0", **(env or {})}, standalone_mode=False,
    )


def _codes(result: Result, severity: str | None = None) -> set[str]:
    found = json.loads(result.stdout)["findings"]
    return {f["code"] for f in found if severity is None or f["severity"] == severity}


def test_a_healthy_pair_passes(tmp_path: Path) -> None:
    result = _check(_write(tmp_path, target=QWEN, draft=SMALL))
    assert result.return_value == 0
    document = json.loads(result.stdout)
    assert document["verdict"] == "pass"
    assert document["vllm_version"] == "0.32.0"
    assert "SPD201" in document["checked"]
    assert _codes(result, "error") == set()


def test_another_vocabulary_fails_and_points_at_its_line(tmp_path: Path) -> None:
    result = _check(_write(tmp_path, target=QWEN, draft={**SMALL, "vocab_size": 152064}))
    assert result.return_value == 1
    (finding,) = [f for f in json.loads(result.stdout)["findings"] if f["code"] == "SPD201"]
    assert finding["where"] == "speculative-config.model"
    assert finding["line"] == 7
    assert finding["severity"] == "error"


def test_the_shells_variables_count_and_env_overrides_them(tmp_path: Path) -> None:
    path = _write(tmp_path, target=QWEN, draft=SMALL)
    assert "SPD344" in _codes(_check(path, "--env", "VLLM_USE_V2_MODEL_RUNNER=1"))
    assert "SPD344" not in _codes(_check(path))


def test_fail_on_decides_which_severity_fails(tmp_path: Path) -> None:
    path = _write(tmp_path, PAIR + "max-num-batched-tokens: 64\n", target=QWEN, draft=SMALL)
    assert _check(path).return_value == 0
    assert _check(path, "--fail-on", "warn").return_value == 1


def test_a_workload_is_looked_at(tmp_path: Path) -> None:
    workload = tmp_path / "w.json"
    workload.write_text('{"temperature": 0.8, "concurrency": null}')
    assert "SPD506" in _codes(_check(_write(tmp_path, target=QWEN, draft=SMALL), "--workload", str(workload)))


def test_a_model_that_is_not_here_is_a_note_and_rules_about_it_are_passed_over(tmp_path: Path) -> None:
    result = _check(_write(tmp_path, target=QWEN))
    assert result.return_value == 0
    assert any("'models/draft' is not at hand" in note for note in json.loads(result.stdout)["notes"])


def test_a_damaged_model_file_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, target=QWEN, draft=SMALL)
    (tmp_path / "models" / "draft" / "config.json").write_text("{")
    result = _check(path)
    assert isinstance(result.exception, InputError)
    assert "is not JSON" in str(result.exception)


@pytest.mark.parametrize("version", ["nightly", "0.99.0", "0.33.0.dev5+fork"])
def test_an_unknown_release_gets_the_newest_rules_and_says_so(tmp_path: Path, version: str) -> None:
    path = _write(tmp_path, target=QWEN, draft=SMALL)
    result = CliRunner().invoke(cli, ["check", str(path), "--vllm-version", version, "--format", "json"])
    document = json.loads(result.stdout)
    assert document["rules_version"].startswith("0.33")
    assert any("not a release known here" in note for note in document["notes"])


def test_several_configs_give_a_list(tmp_path: Path) -> None:
    path = _write(tmp_path, target=QWEN, draft=SMALL)
    result = CliRunner().invoke(cli, ["check", str(path), str(path), "--vllm-version", "0.32.0", "--format", "json"])
    assert [document["verdict"] for document in json.loads(result.stdout)] == ["pass", "pass"]


def test_a_deployment_file_states_release_and_hardware(tmp_path: Path) -> None:
    path = _write(tmp_path, target=QWEN, draft=SMALL)
    deployment = tmp_path / "deployment.yaml"
    deployment.write_text("target: Qwen/Qwen3-32B\nhardware: {gpu: H100, count: 2}\nengine:\n  vllm_version: 0.10.0\n"
                          "  tensor_parallel_size: 2\nworkload: {concurrency: 8}\n")
    result = CliRunner().invoke(cli, ["check", str(path), "--deployment", str(deployment), "--format", "json"])
    document = json.loads(result.stdout)
    assert document["vllm_version"] == "0.10.0"
    assert "SPD122" in {f["code"] for f in document["findings"]}
