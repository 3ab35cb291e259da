"""What a plan holds: arguments, loads, blocks, prompts in the workload's shares, a digest that notices change."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.trial.estimate import Estimator
from probes.trial.plan import OUTPUT_BLOCK, build_plan, choose_prompts, default_loads
from probes.trial.prompts import Prompt
from profiles.deployment import Deployment
from profiles.workload import Task


def prompts(**counts):
    return [Prompt(Task(task), f"{task}-{i}", text=f"{task} {i}") for task, n in counts.items() for i in range(n)]


@pytest.fixture
def models(tmp_path):
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": "llama", "name": name}))
    return tmp_path


def deployment(models, **changes):
    stated = {
        "target": str(models / "target"),
        "engine": {"max_num_seqs": 16, "max_model_len": 1024, "enforce_eager": True,
                   "extra_args": {"port": 8000, "block-size": 16}},
        "candidates": [{"method": "draft_model", "draft": str(models / "draft"), "k": "1-5"},
                       {"method": "suffix", "k": "1-6"}],
        "workload": {"concurrency": 8, "tasks": {"code": 3, "creative": 1}},
        "hardware": {"gpu": "cpu", "memory_gib": 2},
    }
    stated.update(changes)
    return Deployment.model_validate(stated)


def plan_for(models, on_cpu=True, runner=None, **changes):
    stated = deployment(models, **changes)
    return build_plan(stated, stated.candidates, prompts(code=20, creative=20), on_cpu=on_cpu,
                      runner_of=lambda _: runner)


def test_the_baseline_arm_has_the_deployments_arguments_and_no_speculation(models):
    plan = plan_for(models)
    args = plan.baseline.engine_args
    assert args["model"] == str(models / "target")
    assert (args["max_num_seqs"], args["max_model_len"], args["enforce_eager"]) == (16, 1024, True)
    assert "speculative_config" not in args
    assert plan.env["VLLM_CPU_KVCACHE_SPACE"] == "2"


def test_what_only_a_server_has_is_left_out_and_other_extras_pass_through(models):
    args = plan_for(models).baseline.engine_args
    assert "port" not in args
    assert args["block_size"] == 16


def test_a_draft_model_gets_one_start_at_its_largest_k_with_a_schedule_over_every_seat(models):
    arm = plan_for(models).arms[0]
    assert arm.dynamic
    assert arm.engine_args["speculative_config"] == {
        "method": "draft_model", "model": str(models / "draft"), "num_speculative_tokens": 5,
        "num_speculative_tokens_per_batch_size": [[1, 16, 5]]}


def test_suffix_refuses_a_schedule_and_gets_a_fixed_k(models):
    arm = plan_for(models).arms[1]
    assert not arm.dynamic
    assert "num_speculative_tokens_per_batch_size" not in arm.engine_args["speculative_config"]
    assert {block.k for block in arm.blocks} == {6}


def test_the_newer_gpu_runner_ignores_a_schedule_for_draft_models_so_none_is_given(models):
    arm = plan_for(models, on_cpu=False, runner="v2").arms[0]
    assert not arm.dynamic
    assert plan_for(models, on_cpu=False, runner="v1").arms[0].dynamic


def test_every_arm_answers_the_same_prompts_first_at_the_same_load(models):
    plan = plan_for(models)
    first = [arm.blocks[0] for arm in (plan.baseline, *plan.arms)]
    assert {block.key for block in first} == {OUTPUT_BLOCK}
    assert len({(b.places, b.running, b.max_tokens) for b in first}) == 1
    assert [b.k for b in first] == [0, 5, 6]


def test_a_candidates_cells_cover_k_zero_and_every_load_and_start_at_the_users(models):
    plan = plan_for(models)
    cells = [(b.k, b.running) for b in plan.arms[0].blocks]
    assert {running for _, running in cells} == set(plan.loads) == {1, 3, 8}
    assert {k for k, running in cells if running == 8} == {0, 1, 3, 5}
    assert {k for k, running in cells if running == 1} == {0, 1, 5}
    assert [running for k, running in cells[:3] if k == 5] == [8, 1, 3], "a short budget still sees every load"
    assert len(cells) == len(set(cells))


def test_the_baseline_is_timed_at_every_load_and_a_second_context(models):
    plan = plan_for(models)
    assert {b.running for b in plan.baseline.blocks} == {1, 3, 8}
    assert [b.context_tokens for b in plan.baseline.blocks if b.context_tokens] == [512]


def test_stated_loads_are_measured_beside_the_users(models):
    assert plan_for(models, trial={"loads": [2, 64]}).loads == (2, 8, 16)


def test_the_comparison_on_a_gpu_starts_the_very_k_that_would_be_deployed(models):
    plan = plan_for(models, on_cpu=False, runner="v1")
    config = plan.comparison_args(plan.arms[0], 3)["speculative_config"]
    assert config["num_speculative_tokens"] == 3
    assert "num_speculative_tokens_per_batch_size" not in config
    on_cpu = plan_for(models)
    assert on_cpu.comparison_args(on_cpu.arms[0], 3) == on_cpu.arms[0].engine_args


def test_paired_blocks_take_other_prompts_each_turn_and_wrap_around(models):
    plan = plan_for(models)
    one, two = plan.pair_places(0), plan.pair_places(1)
    assert len(one) == len(two) == 12
    assert one != two or len(plan.prompts) == 12
    assert all(0 <= place < len(plan.prompts) for place in plan.pair_places(99))


def test_the_digest_changes_with_model_prompts_and_settings_but_not_with_the_budget(models):
    before = plan_for(models).digest
    assert plan_for(models).digest == before
    assert plan_for(models, trial={"budget_s": 60}).digest == before
    assert plan_for(models, trial={"max_tokens": 20}).digest != before
    assert plan_for(models, workload={"concurrency": 8, "tasks": ["creative"]}).digest != before
    (models / "target" / "config.json").write_text("{}")
    assert plan_for(models).digest != before


def test_a_hub_id_without_a_folder_is_left_to_the_engine(models):
    assert plan_for(models, target="org/name").baseline.engine_args["model"] == "org/name"


def test_prompts_come_in_the_workloads_shares_interleaved():
    chosen = choose_prompts(prompts(code=20, creative=20), {Task.CODE: 0.75, Task.CREATIVE: 0.25}, 8)
    assert [p.task for p in chosen].count(Task.CODE) == 6
    assert {p.task for p in chosen[:4]} == {Task.CODE, Task.CREATIVE}


def test_prompts_under_other_task_names_keep_their_own_order():
    own = prompts(mixed=5)
    assert choose_prompts(own, {Task.CODE: 1.0}, 3) == own[:3]


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 30), st.floats(0.01, 1), st.floats(0.01, 1))
def test_no_prompt_is_chosen_twice_and_as_many_as_there_are(code, creative, count, a, b):
    every = prompts(code=code, creative=creative)
    chosen = choose_prompts(every, {Task.CODE: a, Task.CREATIVE: b}, count)
    assert len({p.id for p in chosen}) == len(chosen) == min(count, len(every))


@given(st.integers(1, 300), st.integers(1, 300))
def test_default_loads_hold_one_request_and_the_users_load_within_the_seats(load, seats):
    loads = default_loads(min(load, seats), seats)
    assert loads == tuple(sorted(set(loads)))
    assert {1, min(load, seats)} <= set(loads)
    assert max(loads) <= max(seats, 1)


def test_the_estimate_follows_what_was_measured(models):
    plan = plan_for(models)
    estimator = Estimator(plan)
    before = estimator.arm_s(plan.baseline)
    block = plan.baseline.blocks[0]
    guess = estimator.block_s(block)
    assert 0 < guess < before
    estimator.observe("block", guess, 4 * guess)
    assert estimator.block_s(block) == pytest.approx(4 * guess)
    estimator.observe("start", estimator.start_s(), 0.0)
    assert estimator.arm_s(plan.baseline) > before
