import dataclasses
from typing import Any

import pytest

from advisor.decision import break_even_length, crossover, decide
from advisor.prediction import Pricing, price
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.evidence import PairedBlock, PairedComparison
from profiles.schema import Quantity, Source
from tests.advisor.situations import BASELINE_MS, cpu_situation, cpu_trial, gpu_situation


def cpu_pricing(task: str, running: int, **workload: Any) -> Pricing:
    return price(cpu_situation(cpu_trial(), concurrency=running, tasks=task, **workload))


def best_k_in_decode(pricing: Pricing) -> int:
    candidate = pricing.candidates[0]
    return max(candidate.k, key=lambda k: pricing.at(candidate, k, pricing.running).decode_speedup.value)


# --- the whole decision problem, as measured on the CPU engine -----------------------------------------------------
def test_the_best_k_falls_with_the_load_and_with_less_predictable_text() -> None:
    # Measured tokens/s: code 14.8 at k=5 and 13.7 at k=3 for one request; k=3 best at 4 and 8.
    assert best_k_in_decode(cpu_pricing("code", 1)) == 5
    assert best_k_in_decode(cpu_pricing("code", 4)) == 3
    assert best_k_in_decode(cpu_pricing("code", 8)) <= 3
    # Creative: 10.9 at k=3 and 10.7 at k=5 for one request.
    assert best_k_in_decode(cpu_pricing("creative", 1)) in (3, 4)
    assert best_k_in_decode(cpu_pricing("creative", 4)) in (2, 3)


@pytest.mark.parametrize(
    ("task", "running", "k", "measured"),
    [("code", 1, 1, 1.49), ("code", 1, 3, 2.25), ("code", 1, 5, 2.43), ("code", 4, 1, 1.28), ("code", 4, 3, 1.47),
     ("code", 4, 5, 1.36), ("code", 8, 1, 1.05), ("code", 8, 3, 1.10), ("code", 8, 5, 0.93), ("creative", 1, 3, 1.76),
     ("creative", 4, 3, 1.21), ("creative", 4, 5, 1.07)],
)  # fmt: skip
def test_decode_speedups_agree_with_the_measured_table(task: str, running: int, k: int, measured: float) -> None:
    pricing = cpu_pricing(task, running)
    assert pricing.at(pricing.candidates[0], k, running).decode_speedup.value == pytest.approx(measured, rel=0.13)


def test_a_large_k_turns_into_a_loss_at_eight_requests() -> None:
    for task in ("code", "creative"):
        pricing = cpu_pricing(task, 8)
        assert pricing.at(pricing.candidates[0], 5, 8).decode_speedup.value < 1.0


def test_it_is_on_where_it_gains_and_off_where_it_loses() -> None:
    one = decide(cpu_pricing("code", 1)).decision
    assert one.enable is True
    assert one.k == 5
    assert one.speedup_source is Source.MEASURED
    eight = decide(cpu_pricing("creative", 8)).decision
    assert eight.enable is False
    assert eight.method is None
    assert eight.k is None
    assert eight.speedup is not None
    assert eight.speedup < 1.0


def test_without_a_trial_the_cpu_engine_is_not_decided() -> None:
    decision = decide(price(cpu_situation(concurrency=1, tasks="code"))).decision
    assert decision.enable is None
    assert decision.would_settle is not None
    assert "trial" in decision.would_settle


# --- the public demonstration ----------------------------------------------------------------------------------------
DEMO_ENGINE = {"max_model_len": 8192, "gpu_memory_utilization": 0.45}


def demo(tasks: str, **workload: Any) -> Pricing:
    values = {"concurrency": 1, "prompt_tokens": 200, "output_tokens": 384, **workload}
    return price(gpu_situation(engine=DEMO_ENGINE, tasks=tasks, **values))


def test_structured_output_gains_about_what_the_demonstration_reports() -> None:
    choice = decide(demo("json"))
    assert choice.decision.enable is True
    assert choice.decision.speedup is not None
    assert 1.3 < choice.decision.speedup < 1.9
    assert choice.decision.draft == "meta-llama/Llama-3.2-1B-Instruct"


def test_stories_gain_little_at_the_demonstrations_k() -> None:
    pricing = demo("creative")
    assert pricing.at(pricing.candidates[0], 4, 1).speedup.value < 1.25
    assert decide(pricing).decision.enable is not True


def test_long_prompts_with_short_answers_gain_little() -> None:
    pricing = demo("rag_long_context", prompt_tokens=32_000, output_tokens=128)
    decision = decide(pricing).decision
    assert decision.enable is not True
    assert decision.speedup is not None
    assert decision.speedup < 1.2


def test_at_high_concurrency_speculation_is_not_turned_on() -> None:
    for running in (32, 64, 128):
        assert decide(demo("mixed", concurrency=running)).decision.enable is not True


# --- rules -----------------------------------------------------------------------------------------------------------
def paired(*speedups: float, running: int = 1, k: int = 5) -> PairedComparison:
    pairs = tuple(
        PairedBlock(running=running, baseline_s=s, speculative_s=1.0, baseline_tokens=50, speculative_tokens=50)
        for s in speedups
    )
    return PairedComparison(
        candidate=cpu_trial().arms[1].candidate,
        k=k,
        running=running,
        mode="both_resident",
        pairs=pairs,
        stopped="budget",
    )


def test_an_interval_across_the_worthwhile_gain_is_an_abstention_that_names_the_next_measurement() -> None:
    trial = cpu_trial(paired(1.0, 1.12, 0.97, 1.15, running=8, k=3))
    decision = decide(price(cpu_situation(trial, concurrency=8, tasks="code"))).decision
    assert decision.enable is None
    assert decision.would_settle is not None
    assert "paired blocks" in decision.would_settle
    assert decision.method == "draft_model"


def test_the_measured_comparison_overrules_the_model_in_the_decision() -> None:
    trial = cpu_trial(paired(0.9, 0.91, 0.9, 0.9, running=1, k=5))
    pricing = price(cpu_situation(trial, concurrency=1, tasks="code"))
    assert pricing.at(pricing.candidates[0], 5, 1).speedup.value == pytest.approx(0.9, abs=0.01)
    assert decide(pricing).decision.k != 5


def test_a_candidate_that_does_not_fit_is_off() -> None:
    pricing = price(gpu_situation("RTX 4090", engine={"gpu_memory_utilization": 0.72}, concurrency=1, tasks="json"))
    assert pricing.memory[pricing.candidates[0].label].fits is False
    assert decide(pricing).decision.enable is False


def test_a_broken_latency_limit_that_the_baseline_keeps_is_off() -> None:
    lengths = {"concurrency": 1, "tasks": "json", "prompt_tokens": 8000, "output_tokens": 64}
    free = price(gpu_situation(**lengths))
    null, cell = free.at(NO_SPECULATION, 0, 1).ttft_ms, free.at(free.candidates[0], 1, 1).ttft_ms
    assert null is not None
    assert cell is not None
    assert null.value < cell.value
    limit = (null.value + cell.value) / 2
    assert decide(price(gpu_situation(objective={"ttft_ms": limit}, **lengths))).decision.enable is False


def test_a_wide_guess_does_not_beat_a_measured_gain() -> None:
    situation = cpu_situation(cpu_trial(), concurrency=1, tasks="code")
    guessed = Candidate(method="ngram", k=(1, 2, 3, 4, 5))
    pricing = price(dataclasses.replace(situation, candidates=(*situation.candidates, guessed)))
    value = Quantity(value=2.9, low=1.0, high=4.5, source=Source.ASSUMED)
    old = pricing.acceptance[guessed.label]
    pricing.acceptance[guessed.label] = dataclasses.replace(old, lengths=(value,) * 5)
    assert pricing.at(guessed, 5, 1).speedup.value > pricing.at(situation.candidates[0], 5, 1).speedup.value
    assert decide(pricing).decision.method == "draft_model"


def test_nothing_to_consider_is_off() -> None:
    situation = dataclasses.replace(gpu_situation(concurrency=1), candidates=())
    decision = decide(price(situation)).decision
    assert decision.enable is False
    assert decision.speedup == 1.0


def test_throughput_is_chosen_by_tokens_per_second() -> None:
    pricing = price(gpu_situation(concurrency=4, tasks="code", objective={"goal": "throughput"}))
    choice = decide(pricing)
    assert choice.best is not None
    rates = [pricing.at(c, k, 4).tokens_per_s.value for c in pricing.candidates for k in c.k]
    assert choice.best.tokens_per_s.value == pytest.approx(max(rates))


def test_break_even_is_the_acceptance_length_at_which_nothing_is_gained() -> None:
    pricing = price(gpu_situation(concurrency=4, prompt_tokens=1000, output_tokens=300))
    candidate = pricing.candidates[0]
    length = break_even_length(pricing, candidate, 3, 4)
    assert length is not None
    old = pricing.acceptance[candidate.label]
    known = Quantity(value=length, low=length, high=length, source=Source.MEASURED)
    pricing.acceptance[candidate.label] = dataclasses.replace(old, lengths=(known,) * 5)
    pricing._cache.clear()
    assert pricing.at(candidate, 3, 4).speedup.value == pytest.approx(1.0, abs=1e-6)


def test_the_crossover_is_the_first_load_without_a_gain() -> None:
    pricing = price(gpu_situation(concurrency=4, tasks="chat", prompt_tokens=200, output_tokens=384))
    candidate = pricing.candidates[0]
    load = crossover(pricing, candidate)
    assert load is not None
    assert all(pricing.speedup(candidate, k, load) <= 1.0 for k in candidate.k)
    assert any(pricing.speedup(candidate, k, load - 1) > 1.0 for k in candidate.k)


def test_a_candidate_that_never_gains_crosses_over_at_one_request() -> None:
    pricing = price(gpu_situation(concurrency=1, tasks="creative", engine={"runner": "v2"}))
    assert crossover(pricing, pricing.candidates[0]) == 1


def test_the_busy_hour_is_priced_with_the_same_k() -> None:
    choice = decide(cpu_pricing("code", 1, concurrency_p95=8))
    assert choice.busy is not None
    assert choice.busy.running == 8
    assert choice.busy.k == 5
    assert choice.busy.speedup.value < 1.0


def test_baseline_steps_of_the_synthetic_trial_are_those_measured() -> None:
    assert BASELINE_MS == {1: 164.0, 4: 184.0, 8: 210.0}
