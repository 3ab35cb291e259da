"""What `probe gpu --target` says is left: the advisor's memory plan on the probe's (synthetic) devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import run
from tests.probes import synthetic_nvml as gpus

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}
SMALL = {**CONFIG, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
         "tie_word_embeddings": True}



@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, config in (("target", CONFIG), ("draft", SMALL)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    import probes.gpu

    machine: list[Any] = [gpus.synthetic_a100()]
    real = probes.gpu.probe_gpu

    def probed(window_s: float = 1.0) -> Any:
        return real(window_s, nvml=gpus.SyntheticNvml(machine), environment={}, sleep=lambda _: None,
                    host_memory=lambda: (120 * 2**30, 30 * 2**30))

    monkeypatch.setattr(probes.gpu, "probe_gpu", probed)
    return machine


def headroom(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    code, out, err = run(capsys, "probe", "gpu", "-q", "--format", "json", *options)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["headroom"]
    return found


def test_weights_graphs_and_kv_leave_headroom_in_gib_and_tokens(capsys: pytest.CaptureFixture[str], folder: Path,
                                                                cards: list[Any]) -> None:
    (alone,) = headroom(capsys, "--target", "target", "--context", "4096")
    assert alone["candidate"] == "alone"
    assert alone["target_weights_gib"] == pytest.approx(8.03e9 * 2 / 2**30, rel=0.01)
    assert alone["kv_bytes_per_token"] == 2 * 2 * 32 * 8 * 128
    assert alone["gpu_memory_gib"] == pytest.approx(80)
    assert alone["kv_need_tokens"] == 4096
    assert alone["kv_need_gib"] == pytest.approx(0.5)
    assert alone["left_tokens"] == alone["kv_tokens"] - 4096
    # Tokens come in whole blocks, GiB do not.
    assert alone["left_gib"] == pytest.approx(alone["left_tokens"] * alone["kv_bytes_per_token"] / 2**30, rel=1e-3)
    assert alone["usable_gib"] == pytest.approx(
        alone["target_weights_gib"] + alone["overhead_gib"] + alone["kv_room_gib"])
    assert alone["fits"]


def test_a_draft_takes_weights_and_makes_every_token_dearer(capsys: pytest.CaptureFixture[str], folder: Path,
                                                            cards: list[Any]) -> None:
    alone, beside = headroom(capsys, "--target", "target", "--draft", "draft", "--context", "4096")
    assert beside["candidate"] == "draft_model draft"
    assert beside["draft_weights_gib"] > 1
    assert beside["kv_bytes_per_token"] == alone["kv_bytes_per_token"] + 2 * 2 * 16 * 8 * 64
    assert beside["kv_tokens"] < alone["kv_tokens"]
    assert beside["usable_gib"] == pytest.approx(sum(
        beside[part] for part in ("target_weights_gib", "draft_weights_gib", "overhead_gib", "kv_room_gib")))


def test_each_mig_instance_is_a_place_of_its_own(capsys: pytest.CaptureFixture[str], folder: Path,
                                                 cards: list[Any]) -> None:
    cards[:] = [gpus.synthetic_h100_mig()]
    found = headroom(capsys, "--target", "target", "--context", "2048")
    assert [one["gpu_memory_gib"] for one in found] == pytest.approx([39.5, 19.625, 9.75, 9.75])
    assert found[0]["fits"] is True
    assert found[3]["fits"] is False
    assert found[3]["left_gib"] < 0
    assert found[0]["usable_gib"] == pytest.approx((40448 - 11091) / 1024)


def test_unified_memory_counts_what_the_host_already_uses(capsys: pytest.CaptureFixture[str], folder: Path,
                                                          cards: list[Any]) -> None:
    cards[:] = [gpus.synthetic_gb10()]
    (alone,) = headroom(capsys, "--target", "target", "--context", "2048")
    assert alone["gpu_memory_gib"] == pytest.approx(120)
    assert alone["usable_gib"] == pytest.approx(30)


def test_a_deployment_supplies_models_and_workload(capsys: pytest.CaptureFixture[str], folder: Path,
                                                   cards: list[Any]) -> None:
    (folder / "deployment.yaml").write_text(
        "target: target\ncandidates:\n  - method: draft_model\n    draft: draft\n    k: 1-3\n"
        "workload: {concurrency: 16, prompt_tokens: 900, output_tokens: 100}\n")
    alone, beside = headroom(capsys, "--deployment", "deployment.yaml")
    assert (alone["requests"], alone["context_tokens"], alone["kv_need_tokens"]) == (16, 1000, 16000)
    assert beside["candidate"] == "draft_model draft"


def test_lengths_nobody_stated_are_assumed_aloud(capsys: pytest.CaptureFixture[str], folder: Path,
                                                 cards: list[Any]) -> None:
    (alone,) = headroom(capsys, "--target", "target")
    assert any("assumed" in note for note in alone["notes"])


def test_a_target_that_cannot_be_found_exits_2(capsys: pytest.CaptureFixture[str], folder: Path,
                                               cards: list[Any]) -> None:
    code, _, err = run(capsys, "probe", "gpu", "-q", "--target", "./nowhere")
    assert code == 2
    assert "nowhere" in err


def test_a_candidate_that_cannot_start_beside_the_target_has_no_row(capsys: pytest.CaptureFixture[str], folder: Path,
                                                                   cards: list[Any]) -> None:
    (folder / "deployment.yaml").write_text(
        "target: target\nhardware: {gpu: A100 80GB}\ncandidates:\n  - {method: mtp, k: 1}\n  - ngram\n")
    rows = headroom(capsys, "--deployment", "deployment.yaml", "--context", "4096")
    assert [row["candidate"] for row in rows] == ["alone", "ngram"]
    assert any("mtp is left out" in note for note in rows[0]["notes"])
