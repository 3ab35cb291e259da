import pytest

from advisor.cost.memory import plan_memory
from profiles.deployment import NO_SPECULATION
from profiles.evidence import Evidence, GpuDevice, GpuEvidence, GpuProcess
from profiles.schema import Source
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

ENGINE = {"max_model_len": 8192, "gpu_memory_utilization": 0.45, "max_num_seqs": 256}


def test_both_services_of_the_demonstration_fit_on_the_one_card() -> None:
    situation = gpu_situation(engine=ENGINE, prompt_tokens=500, output_tokens=384)
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert plan.fits is True
    # The engine sees half a GiB less than the driver names.
    assert plan.usable_gib == pytest.approx(0.45 * (95.59 - 0.5), rel=1e-3)
    assert plan.target_weights_gib == pytest.approx(15.0, abs=0.1)
    assert plan.draft_weights_gib == pytest.approx(2.3, abs=0.05)


def test_draft_kv_adds_to_every_token_of_the_pool() -> None:
    situation = gpu_situation(engine=ENGINE)
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert plan.kv_bytes_per_token_target == 131072
    assert plan.kv_bytes_per_token_draft == 32768
    assert plan.kv_tokens_with is not None
    assert plan.kv_tokens_without is not None
    assert plan.kv_tokens_with < plan.kv_tokens_without * 131072 / (131072 + 32768)


def test_a_lookup_costs_no_weights_and_no_kv() -> None:
    situation = gpu_situation(engine=ENGINE, candidates=[{"method": "ngram"}])
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert plan.draft_weights_gib == 0
    assert plan.kv_bytes_per_token_draft == 0


def test_the_null_candidate_changes_nothing() -> None:
    plan = plan_memory(gpu_situation(engine=ENGINE), NO_SPECULATION, 0)
    assert plan.kv_tokens_with == plan.kv_tokens_without


def test_a_small_card_does_not_hold_the_model() -> None:
    situation = gpu_situation("RTX 4090", engine={"gpu_memory_utilization": 0.5})
    assert plan_memory(situation, situation.candidates[0], 5).fits is False


def test_requests_that_must_fit_are_held_against_the_pool() -> None:
    situation = gpu_situation(engine=ENGINE, objective={"min_concurrency": 100}, prompt_tokens=4000, output_tokens=1000)
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert plan.fits is False
    assert plan.max_concurrency_with is not None
    assert plan.max_concurrency_with < 100


def test_memory_of_other_processes_is_taken_off() -> None:
    gib = 2**30
    device = GpuDevice(index=0, name="x", total_bytes=96 * gib, processes=(GpuProcess(pid=1, used_bytes=80 * gib),))
    probed = Evidence(
        kind="gpu", collected_at="", tool_version="0", command="probe gpu", gpu=GpuEvidence(devices=(device,))
    )
    situation = gpu_situation(evidence=(probed,), engine={"gpu_memory_utilization": 0.9})
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert plan.usable_gib == pytest.approx(16.0)
    assert plan.fits is False
    assert "80.0 GiB" in plan.notes[0]


def test_what_the_engine_said_of_its_pool_is_used() -> None:
    situation = cpu_situation(cpu_trial())
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert (plan.kv_tokens_without, plan.kv_tokens_with, plan.source) == (40000, 30000, Source.MEASURED)


def test_the_cpu_engines_pool_is_what_its_variable_says() -> None:
    situation = cpu_situation(engine={"env": {"VLLM_CPU_KVCACHE_SPACE": "2"}})
    plan = plan_memory(situation, NO_SPECULATION, 0)
    assert plan.kv_tokens_without == pytest.approx(2 * 2**30 / plan.kv_bytes_per_token_target, abs=32)
    assert plan.gpu_memory_gib is None


def test_a_cpu_engines_pool_that_nobody_stated_is_unknown() -> None:
    situation = cpu_situation()
    plan = plan_memory(situation, situation.candidates[0], 5)
    assert plan.fits is None
    assert plan.kv_tokens_with is None
    assert "not stated" in plan.notes[0]


def test_more_requests_a_step_leave_less_room_for_kv() -> None:
    few, many = (gpu_situation(engine={**ENGINE, "max_num_seqs": n}) for n in (16, 1024))
    plans = [plan_memory(s, s.candidates[0], 5) for s in (few, many)]
    assert plans[0].kv_tokens_with is not None
    assert plans[1].kv_tokens_with is not None
    assert plans[0].kv_tokens_with > plans[1].kv_tokens_with
