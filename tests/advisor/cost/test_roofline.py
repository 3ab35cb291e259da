from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.constants import constants
from advisor.cost.roofline import RooflineCost
from advisor.cost.shape_bytes import kv_bytes_per_token, kv_bytes_read, weight_bytes_read
from advisor.cost.step import runner_for
from profiles.catalog.gpus import MeasuredRates
from profiles.catalog.shapes import AttentionGroup, MoEShape
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.schema import Source
from tests.advisor.situations import cpu_situation, gpu_situation, llama_1b, llama_8b

NGRAM = Candidate(method="ngram", k=(1, 2, 3))


def test_the_published_step_time_of_an_h100_is_reproduced() -> None:
    # SpecDecode-Bench: 5.886 ms + 0.02101 ms a token + 3.926e-5 ms a KV token, and 1.207 ms a step of the host.
    cost = RooflineCost.of(gpu_situation("H100"))
    for running, context in ((1, 200), (16, 500), (128, 1000)):
        published = 5.886 + 1.207 + 0.02101 * running + 3.926e-5 * running * context
        assert cost.target(running, running, context).ms == pytest.approx(published, rel=0.03)


def test_kv_bytes_of_a_grouped_query_model_are_two_rows_a_layer() -> None:
    assert kv_bytes_per_token(llama_8b()) == 32 * 2 * 8 * 128 * 2
    assert kv_bytes_per_token(llama_8b(), "fp8") == 32 * 2 * 8 * 128
    assert kv_bytes_per_token(llama_8b(), tensor_parallel=4) == 32 * 2 * 2 * 128 * 2
    # More ranks than KV heads: each rank keeps a copy of one head.
    assert kv_bytes_per_token(llama_8b(), tensor_parallel=16) == 32 * 2 * 1 * 128 * 2


def test_attention_kinds_read_what_they_keep() -> None:
    window = llama_1b().model_copy(
        update={"attention": (AttentionGroup(kind="sliding", layers=4, kv_heads=8, head_dim=64, window=1024),)}
    )
    assert kv_bytes_read(window, 100_000) == kv_bytes_read(window, 1024)
    mla = llama_1b().model_copy(update={"attention": (AttentionGroup(kind="mla", layers=10, head_dim=576),)})
    assert kv_bytes_per_token(mla, tensor_parallel=8) == 10 * 576 * 2
    linear = llama_1b().model_copy(update={"attention": (AttentionGroup(kind="linear", layers=6, state_bytes=1000),)})
    assert kv_bytes_read(linear, 10) == kv_bytes_read(linear, 100_000) == 6000
    assert kv_bytes_per_token(linear) == 0


def test_a_mixture_of_experts_reads_more_weights_with_more_tokens_up_to_all_of_them() -> None:
    moe = llama_8b().model_copy(
        update={
            "params": 30_000_000_000,
            "moe": MoEShape(num_experts=128, experts_per_token=8, expert_params=4_700_000, moe_layers=48),
        }
    )
    one, some, many = (weight_bytes_read(moe, tokens, 0.65) for tokens in (1, 16, 100_000))
    assert one < some < many
    assert many == pytest.approx((moe.params - moe.embedding_params) * 2, rel=1e-3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 256), st.integers(1, 8), st.floats(1, 30_000))
def test_more_tokens_and_longer_contexts_never_make_a_step_shorter(running: int, k: int, context: float) -> None:
    cost = RooflineCost.of(gpu_situation())
    candidate = cost.situation.candidates[0]
    step = cost.step(candidate, running, k, k, context)
    assert step.ms > cost.step(NO_SPECULATION, running, 0, 0, context).ms
    assert cost.step(candidate, running, k + 1, k + 1, context).ms > step.ms
    assert cost.step(candidate, running, k, k, context + 1000).ms > step.ms


def test_the_null_candidates_step_is_the_targets_pass_and_certain_in_ratio() -> None:
    cost = RooflineCost.of(gpu_situation())
    step = cost.step(NO_SPECULATION, 4, 0, 0, 500)
    assert (step.draft_ms, step.overhead_ms, step.ratio_log_sd) == (0, 0, 0)
    assert step.ms == cost.target(4, 4, 500).ms


def test_a_draft_model_on_the_v2_runner_pays_for_launching_every_kernel() -> None:
    graphed, eager = (
        RooflineCost.of(gpu_situation("H100")),
        RooflineCost.of(gpu_situation("H100", engine={"runner": "v2"})),
    )
    candidate = graphed.situation.candidates[0]
    assert runner_for(candidate, graphed.situation) == "v1"
    assert runner_for(candidate, eager.situation) == "v2"
    assert eager.draft(candidate, 1, 1, 500).ms > 4 * graphed.draft(candidate, 1, 1, 500).ms
    assert eager.draft(candidate, 1, 1, 500).log_sd > graphed.draft(candidate, 1, 1, 500).log_sd


def test_the_runner_is_the_one_the_release_can_use() -> None:
    draft = gpu_situation(version="0.30.0", engine={"runner": "v2"})
    assert runner_for(draft.candidates[0], draft) == "v1"  # draft models came to V2 with 0.31
    suffix = gpu_situation(candidates=[{"method": "suffix"}])
    assert runner_for(suffix.candidates[0], suffix) == "v1"
    assert runner_for(NGRAM, gpu_situation()) == "v2"
    assert runner_for(NGRAM, cpu_situation()) == "cpu"


def test_an_idle_speculation_costs_the_published_share() -> None:
    cost = RooflineCost.of(gpu_situation())
    share = cost.overhead(NGRAM, 8, 0).ms / cost.target(8, 8, 0).ms
    idle = constants()["idle_share"]
    assert idle["low"] < share < idle["high"]


def test_tensor_parallelism_shortens_a_large_step_and_pays_for_talking() -> None:
    one, four = (RooflineCost.of(gpu_situation("H100", engine={"tensor_parallel_size": n})) for n in (1, 4))
    assert four.target(64, 320, 2000).ms < one.target(64, 320, 2000).ms
    assert four.target(64, 320, 2000).ms > one.target(64, 320, 2000).ms / 4


def test_prefill_grows_with_the_prompt_and_is_compute_bound() -> None:
    cost = RooflineCost.of(gpu_situation("H100"))
    assert cost.prefill(16_000).ms > 1.9 * cost.prefill(8_000).ms
    assert 60 < cost.prefill(4_000).ms < 200


def test_without_a_gpu_or_a_trial_the_answer_is_assumed_and_wide() -> None:
    cost = RooflineCost.of(cpu_situation())
    step = cost.step(cost.situation.candidates[0], 1, 3, 3, 100)
    assert step.source is Source.ASSUMED
    assert step.ratio_log_sd > 0.3


def test_every_constant_says_where_it_comes_from() -> None:
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
    slow = RooflineCost.of(replace(situation, gpu=situation.gpu.model_copy(update={"measured": timed})))
    fast = RooflineCost.of(situation)
    assert slow.machine.bandwidth_gbs == pytest.approx(0.5 / 0.9 * fast.machine.bandwidth_gbs)
    assert slow.machine.tflops == fast.machine.tflops
    assert slow.target(1, 1, 500).ms > 1.5 * fast.target(1, 1, 500).ms


def test_a_sparse_attentions_index_keys_are_cached_beside_the_latent_rows() -> None:
    sparse = AttentionGroup(kind="mla", layers=61, kv_heads=1, head_dim=576, index_dim=128)
    shape = llama_8b().model_copy(update={"attention": (sparse,)})
    # vLLM 0.32: an index row is 128 bytes and a 4-byte scale; an 8-bit latent row 656 bytes.
    assert kv_bytes_per_token(shape, tensor_parallel=8) == 61 * (576 * 2 + 132)
    assert kv_bytes_per_token(shape, "fp8") == 61 * (656 + 132)


def test_a_verify_step_costs_more_on_cards_that_capture_it_in_pieces() -> None:
    # Llama has no recurrent layers: newer cards run its verify step as one graph, an A100 launches pieces of it.
    for gpu, dearer in (("H100", False), ("A100 80GB", True)):
        cost = RooflineCost.of(gpu_situation(gpu))
        candidate = cost.situation.candidates[0]
        step = cost.step(candidate, 4, 3, 3, 500)
        assert (step.verify_ms > cost.target(4, 16, 500).ms) is dearer


def test_a_hybrid_targets_verify_step_loses_its_graph() -> None:
    situation = gpu_situation("H100")
    recurrent = AttentionGroup(kind="linear", layers=24, state_bytes=1_000_000)
    hybrid = replace(situation, target=situation.target.model_copy(
        update={"attention": (*situation.target.attention, recurrent)}))
    candidate = situation.candidates[0]
    plain, other = (RooflineCost.of(s) for s in (situation, hybrid))
    gained = other.step(candidate, 1, 3, 3, 500).verify_ms - other.target(1, 4, 500).ms
    assert gained > 0
    assert plain.step(candidate, 1, 3, 3, 500).verify_ms == plain.target(1, 4, 500).ms
