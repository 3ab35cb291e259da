import dataclasses

import pytest
import yaml

from advisor.advice import advise
from advisor.record import Record
from advisor.report import render
from advisor.report.content import crossover_words
from profiles.evidence import ArmStatus
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

NOW = "2026-01-01T00:00:00Z"


def test_the_record_holds_the_decision_its_table_and_its_config() -> None:
    situation = gpu_situation(concurrency=1, prompt_tokens=200, output_tokens=384, tasks="json")
    record = advise(situation, NOW)
    assert record.decision.enable is True
    assert record.decision.reasons == tuple(r.sentence for r in record.reasons)
    assert {cell.label for cell in record.candidates} == {"none", situation.candidates[0].label}
    assert record.per_position.keys() == {situation.candidates[0].label}
    assert record.memory_by_candidate.keys() == {situation.candidates[0].label}
    assert "draft_model" in record.emitted.vllm_yaml
    assert record.provenance.created_at == NOW
    assert record.provenance.runner == "v1"
    assert any("VLLM_USE_V2_MODEL_RUNNER" in warning for warning in record.warnings)


def test_a_report_has_one_wording_for_the_crossover() -> None:
    for situation in (
        gpu_situation(concurrency=1, prompt_tokens=200, output_tokens=384, tasks="json"),
        gpu_situation(concurrency=64, tasks="creative", engine={"runner": "v2"}),
        gpu_situation("RTX 4090", engine={"gpu_memory_utilization": 0.5}),
        cpu_situation(cpu_trial(), concurrency=8, tasks="creative"),
        cpu_situation(cpu_trial(), concurrency=1, tasks="creative"),
    ):
        record = advise(situation, NOW)
        said = [line for line in render(record, "markdown").splitlines() if "Crossover" in line]
        assert len(said) >= (1 if record.memory.target_fits is False else 2)
        assert all(crossover_words(record) in line for line in said)


def test_the_same_situation_gives_the_same_record() -> None:
    situation = cpu_situation(cpu_trial(), concurrency=4, tasks="code")
    assert advise(situation, NOW) == advise(situation, NOW)


def test_a_record_survives_being_written_and_read() -> None:
    record = advise(cpu_situation(cpu_trial(), concurrency=1, tasks="code"), NOW)
    assert Record.model_validate_json(record.model_dump_json()) == record
    assert "measured by a trial" in record.provenance.cost_source


def test_an_abstention_writes_the_config_without_speculation() -> None:
    record = advise(cpu_situation(concurrency=1, tasks="code"), NOW)
    assert record.decision.enable is None
    assert "speculative-config:" not in record.emitted.vllm_yaml.replace("# ", "")


def test_a_failed_arm_is_a_warning_with_the_engines_words() -> None:
    trial = cpu_trial()
    failed = trial.arms[1].model_copy(
        update={"status": ArmStatus.OUT_OF_MEMORY, "error": "no blocks left", "steps": (), "requests": ()}
    )
    record = advise(cpu_situation(trial.model_copy(update={"arms": (trial.arms[0], failed)}), concurrency=1), NOW)
    assert record.decision.enable is False
    assert any("no blocks left" in warning for warning in record.warnings)


def test_acceptance_of_a_cpu_trial_serves_a_gpu_deployment_and_its_times_do_not() -> None:
    on_gpu = gpu_situation(
        concurrency=1, tasks="code", candidates=[{"method": "draft_model", "draft": "draft-135m", "k": "1-5"}]
    )
    evidence = cpu_situation(cpu_trial()).evidence
    record = advise(dataclasses.replace(on_gpu, evidence=evidence), NOW)
    assert record.provenance.cost_source.startswith("modelled from facts")
    assert any("step times were not used" in warning for warning in record.warnings)
    assert record.per_position["draft_model draft-135m"][0].source.value == "measured"


@pytest.mark.parametrize("version", [f"0.{minor}.0" for minor in range(20, 34)])
def test_the_config_runs_the_k_that_was_decided_in_every_release(version: str) -> None:
    heads = [{"method": "eagle3", "draft": "head", "k": "1-5"}]
    record = advise(gpu_situation(candidates=heads, version=version, concurrency=30,
                                  tasks="code"), NOW)
    assert record.decision.enable
    config = yaml.safe_load(record.emitted.vllm_yaml)["speculative-config"]
    bands = [k for _, _, k in record.decision.schedule or ()]
    assert ("num_speculative_tokens_per_batch_size" in config) == bool(bands)
    assert config["num_speculative_tokens"] == max([record.decision.k or 0, *bands])
