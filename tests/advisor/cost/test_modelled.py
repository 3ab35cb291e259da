from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.constants import constants
from advisor.cost.modelled import ModelledCost
from advisor.cost.step import runner_for
from advisor.request_time import Tokens
from profiles.catalog.gpus import MeasuredRates
from profiles.catalog.shapes import AttentionGroup
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.schema import Source
from tests.advisor.situations import cpu_situation, gpu_situation

NGRAM = Candidate(method="ngram", k=(1, 2, 3))


def test_the_published_step_time_of_an_h100_is_near() -> None:
    # SpecDecode-Bench, vLLM 0.10.1: 5.886 ms + 0.02101 ms a token + 3.926e-5 ms a KV token, and 1.207 ms of the host.
    cost = ModelledCost.of(gpu_situation("H100", version="0.10.1"))
    for running, context in ((1, 200), (16, 500), (128, 1000)):
        published = 5.886 + 1.207 + 0.02101 * running + 3.926e-5 * running * context
        assert cost.target(running, running, context).ms == pytest.approx(published, rel=0.3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 256), st.integers(1, 8), st.floats(1, 30_000))
def test_more_tokens_and_longer_contexts_never_make_a_step_shorter(running: int, k: int, context: float) -> None:
    cost = ModelledCost.of(gpu_situation())
    candidate = cost.situation.candidates[0]
    step = cost.step(candidate, running, k, k, context)
    assert step.ms > cost.step(NO_SPECULATION, running, 0, 0, context).ms
    assert cost.step(candidate, running, k + 1, k + 1, context).ms > step.ms
    assert cost.step(candidate, running, k, k, context + 1000).ms > step.ms


def test_the_null_candidates_step_is_the_targets_pass_and_certain_in_ratio() -> None:
    cost = ModelledCost.of(gpu_situation())
    step = cost.step(NO_SPECULATION, 4, 0, 0, 500)
    assert (step.draft_ms, step.overhead_ms, step.ratio_log_sd) == (0, 0, 0)
    assert step.ms == pytest.approx(cost.target(4, 4, 500).ms)


def test_steps_of_many_loads_and_contexts_are_those_of_one_each() -> None:
    cost = ModelledCost.of(gpu_situation("H100"))
    candidate = cost.situation.candidates[0]
    table = cost.steps_ms(candidate, (1, 8, 64), 3, 3.0, (100.0, 4000.0))
    assert table.shape == (3, 2)
    for row, running in enumerate((1, 8, 64)):
        for column, context in enumerate((100.0, 4000.0)):
            assert table[row, column] == pytest.approx(cost.step(candidate, running, 3, 3.0, context).ms)


def test_a_draft_model_on_the_v2_runner_pays_for_launching_every_kernel() -> None:
    graphed, eager = (
        ModelledCost.of(gpu_situation("H100")),
        ModelledCost.of(gpu_situation("H100", engine={"runner": "v2"})),
    )
    candidate = graphed.situation.candidates[0]
    assert runner_for(candidate, graphed.situation) == "v1"
    assert runner_for(candidate, eager.situation) == "v2"
    assert eager.draft(candidate, 1, 1, 500).ms > 3 * graphed.draft(candidate, 1, 1, 500).ms
    assert any("without CUDA graphs" in note for note in eager.step(candidate, 1, 1, 1, 500).notes)
    assert not any("without CUDA graphs" in note for note in graphed.step(candidate, 1, 1, 1, 500).notes)


def test_without_graphs_target_and_draft_pay_for_every_launch() -> None:
    plain, eager = (ModelledCost.of(gpu_situation("H100", engine={"enforce_eager": flag})) for flag in (False, True))
    candidate = plain.situation.candidates[0]
    assert eager.target(1, 1, 500).ms > 1.5 * plain.target(1, 1, 500).ms
    assert eager.draft(candidate, 1, 3, 500).ms > 2 * plain.draft(candidate, 1, 3, 500).ms


def test_an_idle_speculation_costs_the_published_share() -> None:
    cost = ModelledCost.of(gpu_situation())
    share = cost.overhead(NGRAM, 8, 0).ms / cost.target(8, 8, 0).ms
    idle = constants()["idle_share"]
    assert idle["low"] < share < idle["high"]
    assert cost.overhead(NO_SPECULATION, 8, 0).ms == 0


def test_tensor_parallelism_shortens_a_large_step_and_pays_for_talking() -> None:
    one, four = (ModelledCost.of(gpu_situation("H100", engine={"tensor_parallel_size": n})) for n in (1, 4))
    assert four.target(64, 320, 2000).ms < one.target(64, 320, 2000).ms
    assert four.target(64, 320, 2000).ms > one.target(64, 320, 2000).ms / 4


def test_prefill_grows_with_the_prompt_and_is_compute_bound() -> None:
    cost = ModelledCost.of(gpu_situation("H100"))
    assert cost.prefill(16_000).ms > 1.9 * cost.prefill(8_000).ms
    assert 60 < cost.prefill(4_000).ms < 200


def test_eight_bit_kv_shortens_steps_over_long_contexts() -> None:
    kinds = ("auto", "fp8")
    plain, narrow = (ModelledCost.of(gpu_situation("H100", engine={"kv_cache_dtype": kind})) for kind in kinds)
    assert narrow.target(32, 32, 8000).ms < 0.8 * plain.target(32, 32, 8000).ms
    assert narrow.target(1, 1, 0).ms == pytest.approx(plain.target(1, 1, 0).ms)


def test_a_stated_graph_size_decides_which_verify_steps_run_without_one() -> None:
    usual, small = (
        ModelledCost.of(gpu_situation("H100", engine={"extra_args": arguments}))
        for arguments in ({}, {"max-cudagraph-capture-size": 32})
    )
    candidate = usual.situation.candidates[0]
    assert small.step(candidate, 16, 3, 3, 500).verify_ms > usual.step(candidate, 16, 3, 3, 500).verify_ms
    assert small.step(candidate, 4, 3, 3, 500).verify_ms == usual.step(candidate, 4, 3, 3, 500).verify_ms


def test_a_stated_token_budget_changes_how_prompts_share_steps() -> None:
    tokens = Tokens(4000.0, 100.0)
    small, large = (
        ModelledCost.of(gpu_situation("H100", engine={"max_num_batched_tokens": budget}))
        for budget in (2048, 16384)
    )
    one, other = (cost.requests(NO_SPECULATION, (0,), 32.0, (1.0,), tokens)[0].total_ms for cost in (small, large))
    assert one != pytest.approx(other, rel=1e-3)


def test_prompts_found_in_the_cache_take_no_engine_time() -> None:
    cost = ModelledCost.of(gpu_situation("H100"))
    cold, warm = (
        cost.requests(NO_SPECULATION, (0,), 8.0, (1.0,), Tokens(16_000.0, 100.0, share))[0] for share in (0.0, 0.95)
    )
    assert warm.total_ms < 0.5 * cold.total_ms
    assert warm.first_token_ms < 0.3 * cold.first_token_ms
    assert warm.step.ms == cold.step.ms


def test_without_a_gpu_or_a_trial_the_answer_is_assumed_and_wide() -> None:
    cost = ModelledCost.of(cpu_situation())
    step = cost.step(cost.situation.candidates[0], 1, 3, 3, 100)
    assert step.source is Source.ASSUMED
    assert step.ratio_log_sd > 0.3


def test_the_cpu_engines_steps_are_of_the_size_that_was_seen() -> None:
    # 164 ms at one request and 210 ms at eight; 0.011 s a further verified token; loaded and idle 188 ms.
    cost = ModelledCost.of(cpu_situation())
    candidate = cost.situation.candidates[0]
    assert cost.target(1, 1, 84).ms == pytest.approx(164, rel=0.35)
    assert cost.step(candidate, 1, 0, 0, 84).ms == pytest.approx(188, rel=0.35)
    assert cost.step(candidate, 1, 3, 3, 84).ms == pytest.approx(270, rel=0.5)


def test_every_assumed_number_says_where_it_comes_from() -> None:
    for name, entry in constants().items():
        if name != "about":
            assert entry["source"], name


def test_a_card_that_somebody_timed_is_priced_at_its_timed_rates() -> None:
    situation = gpu_situation("H100")
    assert situation.gpu is not None
    timed = MeasuredRates(
        weights_gbs=0.5 * situation.gpu.memory_bandwidth_gbs, kv_gbs=None, bf16_tflops=None, step_launch_ms=0.1,
        median_error=0.02, p90_error=0.05, cells=100, device="x", driver=None, torch=None, command="x",
    )  # fmt: skip
    slow = ModelledCost.of(replace(situation, gpu=situation.gpu.model_copy(update={"measured": timed})))
    fast = ModelledCost.of(situation)
    assert slow.target(1, 1, 500).ms > 1.4 * fast.target(1, 1, 500).ms


def test_a_verify_step_costs_more_on_cards_that_capture_it_in_pieces() -> None:
    # Llama has no recurrent layers: newer cards run its verify step as one graph, an A100 launches pieces of it.
    gained = {}
    for gpu in ("H100", "A100 80GB"):
        cost = ModelledCost.of(gpu_situation(gpu))
        step = cost.step(cost.situation.candidates[0], 4, 3, 3, 500)
        gained[gpu] = step.verify_ms - cost.target(4, 16, 500).ms
    assert gained["A100 80GB"] > gained["H100"] + 1.0


def test_a_hybrid_targets_verify_step_loses_its_graph() -> None:
    situation = gpu_situation("H100")
    recurrent = AttentionGroup(kind="linear", layers=24, state_bytes=1_000_000)
    hybrid = replace(situation, target=situation.target.model_copy(
        update={"attention": (*situation.target.attention, recurrent)}))
    candidate = situation.candidates[0]
    plain, other = (ModelledCost.of(s) for s in (situation, hybrid))
    one, more = (cost.step(candidate, 1, 3, 3, 500).verify_ms - cost.target(1, 4, 500).ms for cost in (plain, other))
    assert more > one + 0.5


def test_what_a_lookups_step_pays_for_requests_that_differ_is_explained_where_it_is_priced() -> None:
    cost = ModelledCost.of(gpu_situation("H100", version="0.32.0"))
    one, two = (cost.step(NGRAM, running, 3, 3.0, 500) for running in (1, 2))
    (note,) = [note for note in two.notes if "whole CUDA graphs" in note]
    ms = float(note.split()[2])
    # One request that always has a draft of k tokens runs as one graph; where some have none, steps run in pieces.
    assert cost.step(NGRAM, 1, 3, 0.3, 500).verify_ms > one.verify_ms + 0.5 * ms > 0
    assert 0 < ms < two.verify_ms
    eager = ModelledCost.of(gpu_situation("H100", version="0.32.0", engine={"enforce_eager": True}))
    assert not any("whole CUDA graphs" in said for said in eager.step(NGRAM, 2, 3, 3.0, 500).notes)


def test_a_lookup_pays_for_whole_graphs_only_where_the_release_captures_them() -> None:
    shares = {}
    for version in ("0.10.2", "0.11.0", "0.32.0"):
        cost = ModelledCost.of(gpu_situation("H100", version=version))
        step = cost.step(NGRAM, 1, 3, 0.3, 500)
        shares[version] = step.verify_ms - cost.target(1, 1.3, 500).ms
    assert shares["0.10.2"] < 0.5
    assert shares["0.11.0"] > shares["0.10.2"] + 0.3
    assert shares["0.32.0"] == pytest.approx(shares["0.11.0"], abs=0.1)
