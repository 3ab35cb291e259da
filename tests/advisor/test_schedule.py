import itertools

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.advice import advise
from advisor.decision import decide
from advisor.prediction import price
from advisor.schedule import Band, build_schedule, clear_of, crossover, k_at, schedule_honoured
from profiles.deployment import NO_SPECULATION
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

EAGLE = [{"method": "eagle3", "draft": "head", "k": "1-5"}]


def follows_vllms_rules(bands: tuple[Band, ...] | list[Band], last: int, most: int) -> bool:
    """First start 1, sorted, inclusive, not overlapping, no gap, k within 0..most, the last end covers max_num_seqs."""
    return (
        bands[0][0] == 1
        and bands[-1][1] >= last
        and all(start <= end and 0 <= k <= most for start, end, k in bands)
        and all(a[1] + 1 == b[0] for a, b in itertools.pairwise(bands))
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 90), st.integers(0, 5)), min_size=1, max_size=8), st.data())
def test_bands_of_any_choice_follow_vllms_rules(pieces: list[tuple[int, int]], data: st.DataObject) -> None:
    bands: list[Band] = []
    for width, k in pieces:
        start = bands[-1][1] + 1 if bands else 1
        bands.append((start, start + width - 1, k))
    last = bands[-1][1]
    usual = data.draw(st.integers(1, last))
    calm = clear_of(bands, usual, last)
    assert follows_vllms_rules(calm, last, 5)
    assert k_at(calm, usual) == k_at(bands, usual)


@given(st.integers(2, 512), st.data())
def test_no_threshold_lies_near_the_usual_load(last: int, data: st.DataObject) -> None:
    usual = data.draw(st.integers(1, last))
    bands = clear_of([(1, usual, 3), (usual + 1, last, 1)] if usual < last else [(1, last, 3)], usual, last)
    for _, end, _ in bands[:-1]:
        assert end >= usual * 1.25 or end < usual / 1.25


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 200), st.integers(1, 512))
def test_schedules_of_a_priced_candidate_follow_vllms_rules(running: int, seqs: int) -> None:
    pricing = price(gpu_situation(candidates=EAGLE, concurrency=running, engine={"max_num_seqs": seqs}, tasks="chat"))
    for k in (1, 5):
        cross = crossover(pricing, pricing.candidates[0])
        bands = build_schedule(pricing, pricing.candidates[0], k, cross)
        if bands is not None:
            assert [start for start, _, value in bands if value == 0] == ([] if cross is None else [cross])
            ks = [value for _, _, value in bands]
            assert ks == sorted(ks, reverse=True)
            assert follows_vllms_rules(bands, seqs, 5)
            assert k_at(bands, pricing.running) == k
            assert all(a[2] != b[2] for a, b in itertools.pairwise(bands))


def test_k_falls_with_the_load_where_verifying_is_compute_bound() -> None:
    pricing = price(gpu_situation(candidates=EAGLE, concurrency=1, engine={"max_num_seqs": 512}, tasks="chat"))
    bands = build_schedule(pricing, pricing.candidates[0], 4, None)
    assert bands is not None
    ks = [k for _, _, k in bands]
    assert ks == sorted(ks, reverse=True)


def test_the_trials_schedule_on_the_cpu_engine_has_the_best_k_of_each_load() -> None:
    decision = decide(price(cpu_situation(cpu_trial(), concurrency=1, tasks="code"))).decision
    assert decision.schedule is not None
    assert k_at(decision.schedule, 1) == 5
    assert k_at(decision.schedule, 4) == 3
    assert decision.k == 5


def test_the_decision_has_the_k_of_the_load_decided_for_and_the_config_the_largest() -> None:
    record = advise(cpu_situation(cpu_trial(), concurrency=4, tasks="code"), "2026-01-01T00:00:00Z")
    decision = record.decision
    assert decision.schedule is not None
    assert decision.k == k_at(decision.schedule, 4) == 3
    cell = next(c for c in record.candidates if (c.label != "none") and (c.k, c.running) == (3, 4))
    assert decision.speedup == cell.speedup.value
    written = yaml.safe_load(record.emitted.vllm_yaml)["speculative-config"]
    assert written["num_speculative_tokens"] == max(k for _, _, k in decision.schedule) == 5
    assert any("k=3 at the 4 decided for" in reason for reason in decision.reasons)


def test_from_the_crossover_on_nothing_is_drafted_and_the_cost_of_idling_is_told() -> None:
    decision = advise(cpu_situation(cpu_trial(), concurrency=1, tasks="creative"), "2026-01-01T00:00:00Z").decision
    assert decision.schedule is not None
    assert decision.crossover_load is not None
    assert decision.schedule[-1] == (decision.crossover_load, 16, 0)
    text = " ".join(decision.reasons)
    assert f"for loads that stay at {decision.crossover_load} or more, leave it off" in text


def test_a_schedule_never_stands_in_for_off() -> None:
    # At 8 requests no k gains, and an idle speculation would cost a fifth: no speculation at all is the advice.
    decision = decide(price(cpu_situation(cpu_trial(), concurrency=8, tasks="creative"))).decision
    assert decision.enable is False
    assert decision.schedule is None


def test_the_idle_band_is_priced_with_what_idling_costs() -> None:
    pricing = price(cpu_situation(cpu_trial(), concurrency=8, tasks="creative"))
    candidate = pricing.candidates[0]

    def decode(k: int) -> float:
        own = pricing.request(candidate, k, 8)
        return own.acceptance_length * pricing.request(NO_SPECULATION, 0, 8).step.ms / own.step.ms

    assert decode(0) == pytest.approx(210 / 264, rel=0.01)
    # Drafting one token loses less than idling, so the schedule does not idle at 8.
    assert decode(1) > decode(0)


@pytest.mark.parametrize(
    ("candidates", "version", "engine", "why"),
    [
        (EAGLE, "0.23.0", {}, "0.24"),
        (EAGLE, "0.31.0", {"runner": "v2"}, "does not follow it"),
        (EAGLE, "0.32.0", {"data_parallel_size": 2}, "data parallel"),
        ([{"method": "suffix"}], "0.32.0", {}, "does not honour"),
        ([{"method": "draft_model", "draft": "d"}], "0.32.0", {"runner": "v2"}, "does not honour"),
        ([{"method": "draft_model", "draft": "d"}], "0.32.0", {}, "piecewise"),
    ],
)
def test_a_schedule_is_only_given_where_it_is_honoured(
    candidates: list[dict[str, str]], version: str, engine: dict[str, object], why: str
) -> None:
    pricing = price(gpu_situation(candidates=candidates, version=version, engine=engine))  # type: ignore[arg-type]
    honoured, note = schedule_honoured(pricing, pricing.candidates[0])
    assert not honoured
    assert why in note


def test_heads_on_the_v2_runner_and_drafts_on_the_cpu_engine_honour_one() -> None:
    eagle = price(gpu_situation(candidates=EAGLE))
    assert schedule_honoured(eagle, eagle.candidates[0])[0]
    cpu = price(cpu_situation(cpu_trial()))
    assert schedule_honoured(cpu, cpu.candidates[0])[0]
