"""What stops `advise` before a price is made, and what it goes on without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli.advise import advise
from advisor.cli.advise_flags import candidates_of, ks_of
from advisor.cli.gathering import find_hardware, gather
from advisor.cli.trial import most_promising_first
from advisor.cli.trial_stage import run_stage
from advisor.record import Record
from advisor.situation import Situation
from profiles.deployment import Deployment
from profiles.errors import InputError
from profiles.evidence import GpuDevice, GpuEvidence, TrialEvidence
from tests.advisor.situations import cpu_trial

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SMALL = "meta-llama/Llama-3.2-1B-Instruct"
COMMON = ["--target", LLAMA, "--gpu", "H100", "--concurrency", "2", "--vllm-version", "0.32", "--offline", "--quiet"]


def gathered(said: list[str], **stated: Any) -> Situation:
    deployment = Deployment.model_validate(
        {"target": LLAMA, "hardware": {"gpu": "H100"}, "engine": {"vllm_version": "0.32"},
         "workload": {"concurrency": 2}, **stated})
    return gather(deployment, Path.cwd(), offline=True, token=None, warn=said.append)


def record_of(folder: Path, *arguments: str, code: int = 0) -> Record:
    ran = CliRunner().invoke(advise, [*COMMON, "--out", str(folder), *arguments], standalone_mode=False)
    assert ran.return_value == code, ran.output
    return Record.model_validate_json((folder / "record.json").read_text())


def test_k_alone_is_the_k_of_every_proposed_candidate(tmp_path: Path) -> None:
    record = record_of(tmp_path, "-k", "2")
    assert {cell.k for cell in record.candidates if cell.candidate.method != "none"} == {2}
    assert record.deployment.k == (2,)
    again = gathered([], k="2")
    assert {c.k for c in again.candidates} == {(2,)}
    with pytest.raises(InputError, match="1 to 64"):
        ks_of("0")
    assert ks_of("1,3") == (1, 3)


def test_k_alone_replaces_the_k_of_the_files_candidates(tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text("target: x\ncandidates: [ngram]\n")
    record = record_of(tmp_path, "-k", "2", str(tmp_path / "d.yaml"), code=3)
    assert {(cell.label, cell.k) for cell in record.candidates} == {("none", 0), ("ngram", 2)}


def test_method_none_prices_no_speculation_only(tmp_path: Path) -> None:
    assert candidates_of(["none"], [], None) == [{"method": "none"}]
    record = record_of(tmp_path, "--method", "none")
    assert {cell.label for cell in record.candidates} == {"none"}
    assert record.decision.enable is False


def test_candidates_that_all_cannot_run_are_off_and_exit_0(tmp_path: Path) -> None:
    record = record_of(tmp_path, "--method", "mtp", "--method", "ngram_gpu", "--vllm-version", "0.17")
    assert record.decision.enable is False
    said = " ".join(record.decision.reasons)
    assert "no multi-token-prediction layers" in said
    assert "no method ngram_gpu" in said


def test_arms_that_cannot_run_are_not_started_in_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    situation = gathered(said, candidates=["mtp", {"method": "draft_model", "draft": SMALL}])
    assert any("mtp is left out" in sentence for sentence in said)
    assert [candidate.method for candidate in most_promising_first(situation)[0]] == ["draft_model"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    only = gathered(said, candidates=["mtp"])
    assert run_stage(only, tmp_path, tmp_path, resume=False, quiet=True, warn=said.append) == (None, False)
    assert "no candidate can run" in said[-1]


@pytest.mark.parametrize(("kept", "sentence"), [(True, "--resume goes on from it"), (False, "a larger --budget")])
def test_a_trial_that_stops_promises_to_go_on_only_from_what_it_kept(
    kept: bool, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())

    def measure(_: Situation, __: Path, checkpoint: Path, **___: Any) -> TrialEvidence:
        if kept:
            checkpoint.write_text("{}")
        measured = cpu_trial()
        return measured.model_copy(update={"stopped": "budget", "arms": measured.arms[: 1 + kept]})

    monkeypatch.setattr("advisor.cli.trial.measure", measure)
    _, failed_not = run_stage(gathered(said, candidates=["ngram"]), tmp_path, tmp_path, resume=False, quiet=True,
                              warn=said.append)
    assert failed_not, "a budget that ends decides nothing, and is no failure of the engine"
    assert sentence in said[-1]


@pytest.mark.parametrize(("stated", "sentence"), [
    ({"engine": {"tensor_parallel_size": 3}}, "attention heads"),
    ({"engine": {"tensor_parallel_size": 2}, "hardware": {"gpu": "H100", "count": 1}}, "need 2 GPUs"),
    ({"hardware": {"gpu": "TPU v6e"}}, "plugin"),
    ({"hardware": {"gpu": "H100 MIG 1g.10gb"}}, "MIG slice"),
])
def test_an_engine_that_would_not_start_is_refused(stated: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        gathered([], **stated)


def test_a_card_cut_into_slices_is_not_taken_for_the_whole_card(monkeypatch: pytest.MonkeyPatch) -> None:
    card = GpuDevice(index=0, name="NVIDIA H100 80GB HBM3", mig_enabled=True)
    found = GpuEvidence(driver="synthetic", devices=(card,))
    monkeypatch.setattr("probes.gpu.probe_gpu", lambda *_, **__: found)
    with pytest.raises(InputError, match="MIG slices"):
        find_hardware(Deployment.model_validate({"target": LLAMA}), [], pytest.fail)
