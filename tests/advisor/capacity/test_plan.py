"""The plan of a situation: what is said, what it rests on, and what it refuses to say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

from advisor.capacity.arms import Arm, within_reason
from advisor.capacity.bounds import MeanRequest, cycle_ms
from advisor.capacity.document import CapacityPlan
from advisor.capacity.engine import accept_row, engine_model
from advisor.capacity.plan import Question, capacity_plan
from advisor.capacity.rates import Effort, Stream
from advisor.capacity.text import render_plan
from advisor.cost.measured import MeasuredCost
from advisor.prediction import price
from advisor.situation import Situation
from profiles.catalog.prices import PriceTable, price_table
from profiles.deployment import NO_SPECULATION
from profiles.evidence import Evidence, PairedBlock, PairedComparison, RequestsEvidence
from profiles.schema import Source
from profiles.workload import Lengths
from tests.advisor.capacity.engines import engine
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

LIGHT = Effort(times=0.5)
QUESTION = Question(prices=price_table(), effort=LIGHT)
ENGINE = {"max_num_seqs": 64}


def planned(situation: Situation, **asked: Any) -> CapacityPlan:
    return capacity_plan(situation, replace(QUESTION, **asked))


@pytest.fixture(scope="module")
def plan() -> CapacityPlan:
    return planned(
        gpu_situation("H100", engine=ENGINE, objective={"tpot_ms": 15}, arrival_rate_rps=6, prompt_tokens=400,
                      output_tokens=200, tasks="code"),
        peak_rate_rps=30.0,
    )


def test_the_null_candidate_comes_first_and_another_beside_it(plan: CapacityPlan) -> None:
    assert next(arm.role for arm in plan.arms) == "null"
    assert plan.arms[0].label == "none"
    assert len(plan.arms) == 2
    assert plan.abstained == ()


def test_the_highest_rate_keeps_the_slo_and_lies_below_saturation(plan: CapacityPlan) -> None:
    for arm in plan.arms:
        assert 0 < arm.highest_rate_rps.value <= arm.saturation_rate_rps
        assert arm.saturation_rate_rps == pytest.approx(arm.saturation_bound_rps, rel=0.15)
        assert arm.highest_rate_rps.low is not None
        assert arm.highest_rate_rps.high is not None
        assert arm.highest_rate_rps.low < arm.highest_rate_rps.value < arm.highest_rate_rps.high
        assert all(point.tpot_ms <= 15 for point in arm.curve if point.arrival_rate_rps <= arm.highest_rate_rps.value)


def test_the_fleet_grows_with_the_peak_and_costs_what_its_gpus_cost(plan: CapacityPlan) -> None:
    listed = price_table().of("H100")
    assert listed is not None
    for arm in plan.arms:
        assert [fleet.growth for fleet in arm.fleets] == list(range(1, 11))
        assert arm.fleets[0].replicas == math.ceil(30 / arm.highest_rate_rps.value - 1e-3)
        replicas = [fleet.replicas for fleet in arm.fleets]
        assert replicas == sorted(replicas)
        assert arm.fleets[0].usd_per_month == pytest.approx(arm.fleets[0].gpus * listed.usd_per_gpu_hour * 730)
        assert arm.at_peak is not None
        assert arm.at_peak.sustained


def test_longer_contexts_leave_room_for_fewer(plan: CapacityPlan) -> None:
    for arm in plan.arms:
        assert [room.percentile for room in arm.contexts] == ["mean", "p50", "p90", "p95", "p99"]
        rooms = [room.max_concurrency for room in arm.contexts[1:]]
        assert all(a is not None and b is not None and a >= b for a, b in itertools.pairwise(rooms))


def test_a_draft_takes_room_from_the_kv_cache(plan: CapacityPlan) -> None:
    without, with_draft = (arm.kv_tokens for arm in plan.arms)
    assert without is not None
    assert with_draft is not None
    assert with_draft < without


def test_the_same_question_gives_the_same_plan() -> None:
    situation = gpu_situation("H100", engine=ENGINE, concurrency=4, output_tokens=64, prompt_tokens=64)
    assert planned(situation) == planned(situation)


def test_a_plan_survives_json(plan: CapacityPlan) -> None:
    assert CapacityPlan.model_validate_json(plan.model_dump_json()) == plan


def test_the_text_leads_with_the_answer_and_names_what_it_rests_on(plan: CapacityPlan) -> None:
    text = render_plan(plan)
    assert text.index("serves the peak" if plan.arms[0].fleets[0].replicas == 1 else "serve the peak") < text.index(
        "One replica")
    assert "TPOT <= 15 ms" in " ".join(text.split())
    assert "runpod.io" in text
    assert "per million" in text
    assert "modelled from facts" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    narrow = render_plan(plan, width=80)
    assert max(len(line) for line in narrow.splitlines()) <= 80
    assert f" {plan.arms[1].label.split()[0]} k={plan.arms[1].k}" in narrow


def test_named_candidates_are_planned_for_at_the_k_asked_for() -> None:
    situation = gpu_situation("H100", engine=ENGINE, concurrency=4, output_tokens=64, prompt_tokens=64, candidates=[
        {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct", "k": "1-5"},
        {"method": "ngram", "k": "1-5"}])
    found = planned(situation, named=(("ngram", 2),))
    assert [(arm.label, arm.k) for arm in found.arms if arm.role == "named"] == [("ngram", 2)]


def test_speculation_that_loses_at_high_load_says_from_where_and_how_to_avoid_it() -> None:
    found = planned(cpu_situation(cpu_trial(), {"vllm_version": "0.32.0"}, concurrency=1, prompt_tokens=60,
                                  output_tokens=48, tasks="code"))
    arm = found.arms[1]
    assert arm.hurts_from_running is not None
    assert 1 < arm.hurts_from_running <= 8
    assert arm.hurts_from_rate_rps is not None
    bands = arm.avoiding_schedule
    assert bands is not None
    assert bands[-1][0] == arm.hurts_from_running
    assert bands[-1][2] == 0
    assert "hurt" in render_plan(found)


# --- what it rests on ----------------------------------------------------------------------------------------------
def test_acceptance_by_position_adds_up_to_the_acceptance_length() -> None:
    pricing = price(cpu_situation(cpu_trial(), tasks={"code": 0.5, "creative": 0.5}))
    candidate = pricing.candidates[0]
    for k in candidate.k:
        row = accept_row(pricing, candidate, k)
        assert len(row) == k
        assert 1 + sum(row) == pytest.approx(pricing.length(candidate, k).value)
        assert list(row) == sorted(row, reverse=True)


def test_what_a_trial_measured_of_the_pair_overrules_the_model_of_its_steps() -> None:
    pairs = tuple(PairedBlock(running=1, baseline_s=10.0, speculative_s=8.0, baseline_tokens=100,
                              speculative_tokens=100) for _ in range(6))
    base = cpu_situation(cpu_trial(), concurrency=1, prompt_tokens=60, output_tokens=48, tasks="code")
    candidate = base.candidates[0]
    trial = cpu_trial(PairedComparison(candidate=candidate, k=3, running=1, mode="alternate_restarts", pairs=pairs,
                                       stopped="clear"))
    compared = cpu_situation(trial, concurrency=1, prompt_tokens=60, output_tokens=48, tasks="code")
    lengths = Lengths(mean=60), Lengths(mean=48)
    before, after = (engine_model(price(s), candidate, 3, None, *lengths) for s in (base, compared))
    shift = price(compared).carried_over(candidate)
    assert shift is not None
    assert after.table.decode_ms[0][1][0] == pytest.approx(before.table.decode_ms[0][1][0] * math.exp(-shift[0]))


def test_a_trial_on_this_machine_drives_the_simulation() -> None:
    situation = cpu_situation(cpu_trial(), concurrency=1, prompt_tokens=60, output_tokens=48)
    pricing = price(situation)
    assert isinstance(pricing.cost, MeasuredCost)
    model = engine_model(pricing, NO_SPECULATION, 0, None, Lengths(mean=60), Lengths(mean=48))
    assert model.table.decode_ms[0][1][1] == pytest.approx(pricing.cost.target(1, 1, model.table.context_step).ms)
    found = planned(situation)
    assert found.arms[0].highest_rate_rps.source is Source.MEASURED
    assert "measured by a trial" in found.cost_source


def test_an_engine_of_the_simulation_takes_the_time_that_prices_are_made_of() -> None:
    pricing = price(gpu_situation("H100", engine=ENGINE, concurrency=8, prompt_tokens=400, output_tokens=200))
    candidate = pricing.candidates[0]
    lengths = Lengths(mean=400), Lengths(mean=200)
    for arm, k in ((NO_SPECULATION, 0), (candidate, 3)):
        model = engine_model(pricing, arm, k, None, *lengths)
        for running in (1, 8, 32):
            assert cycle_ms(model, MeanRequest(400, 0, 200), running) == pytest.approx(
                pricing.request(arm, k, running).total_ms, rel=0.05)


def test_recorded_requests_give_rate_and_peak() -> None:
    recorded = RequestsEvidence(requests=500, duration_s=250.0, arrival_rate_rps=2.0,
                                prompt_tokens=Lengths(mean=100, p95=200), output_tokens=Lengths(mean=50, p95=90),
                                concurrency={"mean": 4.0, "p95": 10.0})
    evidence = Evidence(kind="requests", collected_at="2026-01-01T00:00:00Z", tool_version="0", command="probe",
                        requests=recorded)
    found = planned(gpu_situation("H100", engine=ENGINE, evidence=(evidence,)))
    assert found.traffic.usual_rate_rps == 2.0
    assert found.traffic.peak_rate_rps == pytest.approx(5.0)
    assert found.traffic.prompt_tokens == 100
    assert any("as recorded" in text for text in found.assumptions)


def test_more_requests_than_the_engine_takes_do_not_arrive_any_faster() -> None:
    lengths = {"prompt_tokens": 100, "output_tokens": 50}
    full, beyond = (planned(gpu_situation("H100", engine={"max_num_seqs": 16}, concurrency=n, **lengths))
                    for n in (16, 400))
    assert beyond.traffic.usual_rate_rps == pytest.approx(full.traffic.usual_rate_rps)


# --- what it does not say ------------------------------------------------------------------------------------------
def test_without_any_load_rates_are_planned_and_the_fleet_is_not() -> None:
    found = planned(gpu_situation("H100", engine=ENGINE, prompt_tokens=100, output_tokens=50))
    assert found.arms
    assert all(not arm.fleets for arm in found.arms)
    assert "--peak" in found.abstained[0].would_settle
    assert "not answered" in render_plan(found)


def test_a_target_that_does_not_fit_is_not_planned_for() -> None:
    found = planned(gpu_situation("RTX 3080", concurrency=4))
    assert found.arms == ()
    assert "does not fit" in found.abstained[0].why


def test_unknown_hardware_is_not_planned_for() -> None:
    found = planned(replace(gpu_situation(concurrency=4), gpu=None))
    assert found.arms == ()
    assert "unknown" in found.abstained[0].why


def test_without_a_price_nothing_is_said_of_money() -> None:
    found = planned(gpu_situation("H100", engine=ENGINE, concurrency=4, output_tokens=64, prompt_tokens=64),
                    prices=PriceTable(prices=()))
    assert found.price == "none"
    assert all(fleet.usd_per_month is None for arm in found.arms for fleet in arm.fleets)
    assert any(part.about == "money" for part in found.abstained)


def test_requests_that_the_cache_cannot_hold_are_cut_and_that_is_said() -> None:
    found = planned(gpu_situation("RTX 4090", engine=ENGINE, concurrency=2, prompt_tokens={"mean": 4000, "p95": 20_000},
                                  output_tokens=400))
    assert any("longest requests" in text for text in found.warnings)
    assert all(room.context_tokens <= found.arms[0].kv_tokens for room in found.arms[0].contexts)


def test_an_slo_out_of_reach_is_said_and_gets_no_fleet() -> None:
    found = planned(gpu_situation("H100", engine=ENGINE, objective={"tpot_ms": 0.5}, concurrency=4, output_tokens=64,
                                  prompt_tokens=64))
    null = found.arms[0]
    assert null.limited_by == "slo unreachable"
    assert null.highest_rate_rps.value == 0
    assert null.fleets == ()
    assert "no arrival rate meets the SLOs" in render_plan(found)


def test_plain_python_simulates_less_of_long_outputs_and_the_compiled_loop_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = engine(seqs=64, per_request_ms=0.2)
    arm = Arm(NO_SPECULATION, 0, "null", None, model)
    short, long = (Stream(Lengths(mean=100), Lengths(mean=output)) for output in (100, 20_000))
    monkeypatch.setattr("advisor.capacity.arms.numba_installed", lambda: False)
    assert within_reason(Effort(), [arm], short) == Effort(compiled=False)
    plain = within_reason(Effort(), [arm], long)
    assert 0.2 <= plain.times < 1.0
    monkeypatch.setattr("advisor.capacity.arms.numba_installed", lambda: True)
    assert within_reason(Effort(), [arm], long) == Effort(compiled=True)
