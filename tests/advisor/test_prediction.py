import dataclasses
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.intervals import paired_ratio
from advisor.prediction import Pricing, price
from profiles.deployment import NO_SPECULATION
from profiles.evidence import ArmStatus, PairedBlock, PairedComparison
from profiles.schema import Quantity, Source
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation, llama_8b


def with_length(pricing: Pricing, length: float) -> Pricing:
    """The same pricing with a known acceptance length for its first candidate, whatever the k."""
    label = pricing.candidates[0].label
    old = pricing.acceptance[label]
    known = Quantity(value=length, low=length * 0.97, high=length * 1.03, source=Source.MEASURED)
    pricing.acceptance[label] = dataclasses.replace(old, lengths=(known,) * len(old.lengths))
    pricing._cache.clear()
    return pricing


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 128),
    st.integers(1, 30_000),
    st.integers(2, 2000),
    st.sampled_from(["RTX PRO 6000", "H100", "A100 80GB"]),
)
def test_the_null_candidate_neither_gains_nor_loses(running: int, prompt: int, output: int, gpu: str) -> None:
    pricing = price(gpu_situation(gpu, concurrency=running, prompt_tokens=prompt, output_tokens=output))
    cell = pricing.at(NO_SPECULATION, 0, pricing.running)
    assert cell.speedup.value == cell.decode_speedup.value == 1.0
    assert cell.speedup.low == cell.speedup.high == 1.0
    assert cell.probability_of_gain == 0.0


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 5.5), st.floats(0.01, 1.0), st.integers(1, 64), st.integers(1, 5))
def test_more_acceptance_never_lowers_the_speedup(length: float, more: float, running: int, k: int) -> None:
    pricing = price(gpu_situation(concurrency=running, prompt_tokens=500, output_tokens=200))
    candidate = pricing.candidates[0]
    before = with_length(pricing, length).at(candidate, k, running).speedup.value
    assert with_length(pricing, length + more).at(candidate, k, running).speedup.value >= before


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 64), st.integers(1, 5))
def test_every_interval_holds_its_value(running: int, k: int) -> None:
    pricing = price(gpu_situation(concurrency=running))
    cell = pricing.at(pricing.candidates[0], k, running)
    for quantity in (cell.speedup, cell.decode_speedup, cell.step_ms, cell.tpot_ms, cell.tokens_per_s, cell.ttft_ms):
        assert quantity is not None
        assert quantity.low is not None
        assert quantity.high is not None
        assert quantity.low <= quantity.value <= quantity.high
    assert 0.0 <= cell.probability_of_gain <= 1.0


def test_every_candidate_k_and_load_is_in_the_table_with_the_null_candidate() -> None:
    pricing = price(gpu_situation(concurrency=12))
    loads = set(pricing.loads)
    assert {1, 2, 4, 8, 12, 16, 32, 64} <= loads
    cells = {(cell.label, cell.k, cell.running) for cell in pricing.table}
    label = pricing.candidates[0].label
    assert cells == {("none", 0, n) for n in loads} | {(label, k, n) for k in range(1, 6) for n in loads}


def test_prefill_dilutes_the_gain_of_short_answers_to_long_prompts() -> None:
    speed = []
    for prompt in (500, 8_000, 24_000, 32_000):
        situation = gpu_situation(engine={"max_num_seqs": 1}, concurrency=1, prompt_tokens=prompt, output_tokens=128)
        pricing = price(situation)
        cell = pricing.at(pricing.candidates[0], 3, 1)
        speed.append(cell.speedup.value)
        assert cell.speedup.value < cell.decode_speedup.value
    assert speed == sorted(speed, reverse=True)
    assert speed[-1] < 1.2


def test_prompts_found_in_the_prefix_cache_cost_no_prefill() -> None:
    cold, warm = (
        price(gpu_situation(concurrency=1, prompt_tokens=16_000, output_tokens=64, prefix_cache_hit_rate=hits))
        for hits in (0.0, 0.95)
    )
    assert warm.at(warm.candidates[0], 3, 1).speedup.value > cold.at(cold.candidates[0], 3, 1).speedup.value
    base_cold, base_warm = cold.at(NO_SPECULATION, 0, 1), warm.at(NO_SPECULATION, 0, 1)
    assert base_cold.ttft_ms is not None
    assert base_warm.ttft_ms is not None
    assert base_warm.ttft_ms.value < 0.2 * base_cold.ttft_ms.value


def test_time_per_token_and_throughput_agree_where_prefill_is_nothing() -> None:
    pricing = price(gpu_situation(concurrency=1, prompt_tokens=1, output_tokens=2000))
    base = pricing.at(NO_SPECULATION, 0, 1)
    assert base.tokens_per_s.value * base.tpot_ms.value == pytest.approx(1000, rel=0.01)
    assert base.tpot_ms.value == pytest.approx(base.step_ms.value, rel=0.01)


def test_an_arrival_rate_becomes_a_load_by_littles_law() -> None:
    pricing = price(gpu_situation(arrival_rate_rps=2.0, prompt_tokens=500, output_tokens=200))
    latency_s = pricing.request(NO_SPECULATION, 0, pricing.running).total_ms / 1000
    assert pricing.running == pytest.approx(2.0 * latency_s, abs=1)
    assert any("Little" in said for said in pricing.assumptions)


def test_a_rate_beyond_the_engine_is_called_saturated() -> None:
    pricing = price(gpu_situation(arrival_rate_rps=500.0, prompt_tokens=4000, output_tokens=1000))
    assert pricing.saturated


def test_what_nobody_stated_is_listed_as_assumed() -> None:
    pricing = price(gpu_situation())
    assert pricing.running == 8
    for what in ("prompt length", "output length", "load", "temperature", "kind of text"):
        assert sum(said.startswith(f"{what} not stated") for said in pricing.assumptions) == 1


def test_knowing_less_of_the_text_never_narrows_what_is_expected() -> None:
    def length(**workload: object) -> tuple[float, float, float]:
        found = price(gpu_situation(concurrency=8, **workload)).acceptance  # type: ignore[arg-type]
        quantity = next(curve for label, curve in found.items() if label != "none").length(3)
        return quantity.low or 0.0, quantity.value, quantity.high or 0.0

    unknown, chat, code = length(), length(tasks="chat"), length(tasks="code")
    assert unknown[0] < code[0]
    assert unknown[2] > chat[2]
    assert chat[1] < unknown[1] < code[1]
    assert unknown[2] - unknown[0] > max(chat[2] - chat[0], code[2] - code[0])


def test_the_trials_lengths_stand_in_where_none_are_stated() -> None:
    traffic = price(cpu_situation(cpu_trial(), concurrency=1)).traffic
    assert (traffic.prompt_tokens, traffic.output_tokens) == (60.0, 48.0)


def test_replicas_share_the_load() -> None:
    assert price(gpu_situation(concurrency=32, engine={"data_parallel_size": 4})).running == 8


# --- a measured comparison ------------------------------------------------------------------------------------------
def comparison(*speedups: float, k: int = 3, running: int = 8, between: float | None = None) -> PairedComparison:
    pairs = tuple(
        PairedBlock(
            running=running, baseline_s=10.0 * s, speculative_s=10.0, baseline_tokens=400, speculative_tokens=400
        )
        for s in speedups
    )
    return PairedComparison(
        candidate=cpu_trial().arms[1].candidate, k=k, running=running, mode="alternate_restarts", pairs=pairs,
        stopped="budget", between_run_spread=between,
    )  # fmt: skip


def test_a_paired_comparison_replaces_the_model_in_its_cell_and_shifts_its_neighbours_alike() -> None:
    situation = cpu_situation(cpu_trial(comparison(1.15, 1.16, 1.14, 1.15)), concurrency=8, tasks="code")
    pricing = price(situation)
    candidate = pricing.candidates[0]
    cell = pricing.at(candidate, 3, 8)
    assert cell.speedup.value == pytest.approx(1.15, abs=0.01)
    assert cell.speedup.source is Source.MEASURED
    assert cell.speedup.n == 4
    unpaired = price(cpu_situation(cpu_trial(), concurrency=8, tasks="code"))
    shift = cell.speedup.value / unpaired.at(candidate, 3, 8).speedup.value
    for k, running in ((5, 8), (1, 8), (3, 1)):
        before = unpaired.at(candidate, k, running).speedup.value
        assert pricing.at(candidate, k, running).speedup.value == pytest.approx(shift * before)
    assert pricing.at(candidate, 5, 8).speedup.n is None


def test_a_comparison_that_refutes_the_model_does_not_send_the_decision_to_an_untried_k() -> None:
    refuted = cpu_trial(comparison(1.2, 1.21, 1.19, 1.2, k=5, running=1))
    pricing = price(cpu_situation(refuted, concurrency=1, tasks="code"))
    candidate = pricing.candidates[0]
    unpaired = price(cpu_situation(cpu_trial(), concurrency=1, tasks="code"))
    gains = {k: unpaired.at(candidate, k, 1).speedup.value for k in (3, 5)}
    assert gains[5] > gains[3] > 1.25
    assert pricing.at(candidate, 3, 1).speedup.value < pricing.at(candidate, 5, 1).speedup.value


def test_a_comparison_on_short_prompts_is_carried_over_to_long_ones_with_a_wider_interval() -> None:
    measured = cpu_trial(comparison(1.5, 1.51, 1.49, 1.5, running=1))
    same = price(cpu_situation(measured, concurrency=1, tasks="code"))
    long = price(cpu_situation(measured, concurrency=1, tasks="code", prompt_tokens=2000, output_tokens=48))
    short_cell, long_cell = (p.at(p.candidates[0], 3, 1) for p in (same, long))
    assert long_cell.speedup.value < short_cell.speedup.value
    assert long_cell.speedup.low is not None
    assert short_cell.speedup.low is not None
    relative = [cell.speedup.low / cell.speedup.value for cell in (long_cell, short_cell) if cell.speedup.low]
    assert relative[0] < relative[1]
    assert any("carried over" in note for note in long_cell.notes)


def test_spread_between_engine_starts_widens_a_comparison() -> None:
    _, near = paired_ratio(comparison(1.2, 1.21, 1.2, between=0.0))
    _, unseen = paired_ratio(comparison(1.2, 1.21, 1.2))
    _, far = paired_ratio(comparison(1.2, 1.21, 1.2, between=0.2))
    assert near < unseen < far
    assert paired_ratio(comparison(1.2))[1] >= 0.05


def test_one_cell_of_two_starts_does_not_outweigh_the_pairs_themselves() -> None:
    """Six steps of a fifth's noise each put two equal starts 10 to 20 % apart."""
    ratio, log_sd = paired_ratio(comparison(1.2, 1.14, 1.25, between=0.146))
    assert ratio * math.exp(-1.28 * log_sd) > 1.05


def test_an_arm_the_engine_refused_does_not_fit() -> None:
    trial = cpu_trial()
    refused = trial.arms[1].model_copy(
        update={"status": ArmStatus.REFUSED, "error": "vocabulary differs", "steps": (), "requests": ()}
    )
    pricing = price(cpu_situation(trial.model_copy(update={"arms": (trial.arms[0], refused)}), concurrency=1))
    cell = pricing.at(pricing.candidates[0], 3, 1)
    assert cell.fits is False
    assert "vocabulary differs" in " ".join(cell.notes)


# --- limits ---------------------------------------------------------------------------------------------------------
def test_memory_that_holds_fewer_requests_with_the_draft_costs_throughput() -> None:
    tight = {"gpu_memory_utilization": 0.3, "max_num_seqs": 512, "max_num_batched_tokens": 2048}
    pricing = price(gpu_situation(engine=tight, concurrency=200, prompt_tokens=2000, output_tokens=500))
    assert pricing.limit(pricing.candidates[0]) < pricing.limit(NO_SPECULATION) < 200
    cell = pricing.at(pricing.candidates[0], 1, 200)
    assert cell.limited_by == "memory"


def test_latency_limits_are_held_against_each_cell() -> None:
    pricing = price(gpu_situation(concurrency=1, objective={"tpot_ms": 9.0}, prompt_tokens=100, output_tokens=400))
    assert pricing.at(NO_SPECULATION, 0, 1).meets_slo is False
    assert with_length(pricing, 4.0).at(pricing.candidates[0], 4, 1).meets_slo is True


def test_what_limits_a_cell_is_named() -> None:
    pricing = price(gpu_situation(concurrency=1, prompt_tokens=100, output_tokens=400))
    assert pricing.at(NO_SPECULATION, 0, 1).limited_by == "nothing"
    assert with_length(pricing, 1.1).at(pricing.candidates[0], 1, 1).limited_by == "acceptance"
    crowded = price(gpu_situation(concurrency=256, prompt_tokens=100, output_tokens=400, engine={"max_num_seqs": 256}))
    assert with_length(crowded, 5.5).at(crowded.candidates[0], 5, 256).limited_by == "verify_compute"
    eager = price(gpu_situation(concurrency=1, engine={"runner": "v2"}))
    assert with_length(eager, 5.9).at(eager.candidates[0], 5, 1).limited_by == "draft_time"


def test_intervals_of_measured_times_combine_acceptance_and_step_time_in_logarithms() -> None:
    trial = cpu_trial()
    pricing = price(cpu_situation(trial, concurrency=1, tasks="code", prompt_tokens=1, output_tokens=2000))
    candidate = pricing.candidates[0]
    cell = pricing.at(candidate, 3, 1)
    step = pricing.request(candidate, 3, 1).step
    expected = math.hypot(pricing.acceptance[candidate.label].log_sd(3), step.ratio_log_sd)
    assert cell.decode_speedup.low is not None
    assert math.log(cell.decode_speedup.value / cell.decode_speedup.low) / 1.2816 == pytest.approx(expected, rel=1e-3)


def test_a_target_that_does_not_fit_at_all_is_said() -> None:
    small = gpu_situation("RTX 4090", engine={"gpu_memory_utilization": 0.5})
    pricing = price(small)
    assert pricing.at(NO_SPECULATION, 0, 1).fits is False
    assert small.target == llama_8b()


def test_who_finds_no_place_waits_for_the_first_token() -> None:
    """More users than memory holds: the time to the first token has the wait in it, on both sides alike."""
    lengths = {"prompt_tokens": 500, "output_tokens": 300}
    free, full = (price(gpu_situation("RTX 4090", concurrency=n, **lengths)) for n in (4, 400))
    room = full.limit(NO_SPECULATION)
    assert room < full.running
    few, many = (p.at(NO_SPECULATION, 0, p.running).ttft_ms for p in (free, full))
    assert few is not None
    assert many is not None
    whole = full.request(NO_SPECULATION, 0, room)
    assert many.value == pytest.approx(whole.first_token_ms + (full.running / room - 1.0) * whole.total_ms)
    assert few.value == pytest.approx(free.request(NO_SPECULATION, 0, 4.0).first_token_ms)


def test_memory_is_what_limits_a_cell_only_where_it_costs_more_than_everything_else() -> None:
    """One request of many that no longer fits is no reason for a loss that rejected drafts make."""
    pricing = price(gpu_situation("L40S", concurrency=200, prompt_tokens=1500, output_tokens=384, tasks="chat"))
    cell = pricing.at(pricing.candidates[0], 2, 200)
    assert cell.limited_by == "memory"
    assert any(re.fullmatch(r"memory holds \d+ of the \d+ that run at once without it", note) for note in cell.notes)
    lookup = price(gpu_situation("L40S", candidates=[{"method": "suffix", "k": 3}], concurrency=200, prompt_tokens=1500,
                                 output_tokens=384, tasks="chat"))
    own = lookup.at(lookup.candidates[0], 3, 200)
    assert lookup.limit(lookup.candidates[0], 3) < lookup.limit(NO_SPECULATION)
    assert own.limited_by == "acceptance"
