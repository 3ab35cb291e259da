"""What must hold of every plan, whatever the deployment: six that differ in GPU, model, lengths and load."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from advisor.capacity.document import CapacityPlan
from advisor.capacity.plan import Question, capacity_plan
from advisor.capacity.rates import Effort
from advisor.capacity.text import render_plan
from advisor.cli.gathering import gather
from advisor.situation import Situation
from profiles.catalog.prices import StatedPrice
from profiles.deployment import Deployment

PRICE = 2.0
SMALL = {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct", "k": "1-4"}
DEPLOYMENTS: dict[str, dict[str, Any]] = {
    "one consumer card": {
        "target": "meta-llama/Llama-3.1-8B-Instruct", "hardware": {"gpu": "RTX 4090"}, "candidates": [SMALL, "ngram"],
        "engine": {"max_model_len": 8192, "max_num_seqs": 32},
        "workload": {"concurrency": 2, "prompt_tokens": 300, "output_tokens": 120, "tasks": "code"},
    },
    "a large model in 8 bits over four cards": {
        "target": "meta-llama/Llama-3.3-70B-Instruct", "hardware": {"gpu": "H100", "count": 4}, "candidates": [SMALL],
        "engine": {"tensor_parallel_size": 4, "quantization": "fp8", "max_num_seqs": 64},
        "workload": {"arrival_rate_rps": 2, "prompt_tokens": 800, "output_tokens": 200, "tasks": "chat"},
    },
    "a mixture of experts": {
        "target": "Qwen/Qwen3-30B-A3B-Instruct-2507", "hardware": {"gpu": "H100"},
        "candidates": [{"method": "eagle3", "draft": "RedHatAI/Qwen3-30B-A3B-Instruct-2507-speculator.eagle3",
                        "k": "1-3"}],
        "engine": {"max_num_seqs": 64, "max_model_len": 32768},
        "workload": {"concurrency": 8, "concurrency_p95": 20, "prompt_tokens": 500, "output_tokens": 150},
    },
    "long prompts": {
        "target": "meta-llama/Llama-3.1-8B-Instruct", "hardware": {"gpu": "H100"}, "candidates": [SMALL],
        "engine": {"max_model_len": 131072, "max_num_seqs": 32},
        "workload": {"concurrency": 4, "prompt_tokens": {"mean": 24000, "p95": 60000}, "output_tokens": 150,
                     "tasks": "rag_long_context", "prefix_cache_hit_rate": 0.3},
    },
    "short answers": {
        "target": "meta-llama/Llama-3.1-8B-Instruct", "hardware": {"gpu": "L40S"}, "candidates": [SMALL, "ngram"],
        "engine": {"max_num_seqs": 64},
        "workload": {"arrival_rate_rps": 5, "prompt_tokens": 600, "output_tokens": 6, "tasks": "json"},
    },
    "more arrivals than one replica serves": {
        "target": "meta-llama/Llama-3.1-8B-Instruct", "hardware": {"gpu": "RTX 4090"}, "candidates": [SMALL, "ngram"],
        "engine": {"max_model_len": 8192, "max_num_seqs": 16},
        "workload": {"arrival_rate_rps": 60, "prompt_tokens": 500, "output_tokens": 200, "tasks": "chat"},
    },
}
EACH = pytest.mark.parametrize("name", list(DEPLOYMENTS))


@cache
def situation(name: str, tpot_ms: float | None = None, ttft_ms: float | None = None) -> Situation:
    stated = Deployment.model_validate(
        {**DEPLOYMENTS[name], "objective": {"tpot_ms": tpot_ms, "ttft_ms": ttft_ms}})
    stated = stated.model_copy(update={"engine": stated.engine.model_copy(update={"vllm_version": "0.32.0"})})
    return gather(stated, Path.cwd(), offline=True, token=None, warn=lambda _: None)


@cache
def planned(name: str, peak: float | None = None, tpot_ms: float | None = None, ttft_ms: float | None = None,
            seed: int = 0) -> CapacityPlan:
    question = Question(prices=StatedPrice(usd_per_gpu_hour=PRICE), peak_rate_rps=peak,
                        effort=Effort(seed, 0.25, False))
    found = situation(name, tpot_ms, ttft_ms)
    if peak is None:
        return capacity_plan(found, question)
    return capacity_plan(found, replace(question, named=tuple((c.label, None) for c in found.candidates)))


@EACH
def test_nothing_is_served_beyond_what_mean_values_allow(name: str) -> None:
    for arm in planned(name).arms:
        assert 0 < arm.saturation_rate_rps <= 1.06 * arm.saturation_bound_rps
        most = arm.saturation_bound_rps * planned(name).traffic.output_tokens
        for point in arm.curve:
            assert 0 < point.output_tokens_per_s <= 1.12 * most
            if point.sustained:
                offered = point.arrival_rate_rps * planned(name).traffic.output_tokens
                assert point.output_tokens_per_s == pytest.approx(offered, rel=0.35)
        assert 0 < arm.highest_rate_rps.value <= arm.saturation_rate_rps


@EACH
def test_latencies_are_those_of_a_queue(name: str) -> None:
    for arm in planned(name).arms:
        kept = [point for point in arm.curve if point.sustained]
        assert kept
        assert all(a.running <= b.running for a, b in itertools.pairwise(kept))
        assert all(a.tpot_ms <= 1.1 * b.tpot_ms for a, b in itertools.pairwise(kept))
        for point in kept:
            assert point.running == pytest.approx(point.arrival_rate_rps * point.latency_s, rel=0.35)
            assert point.kv_usage is None or 0 <= point.kv_usage <= 1


@EACH
def test_replicas_grow_with_the_peak_and_with_nothing_else(name: str) -> None:
    one, twice = planned(name, peak=37.0), planned(name, peak=74.0)
    assert len(one.arms) >= 2
    for arm, other in zip(one.arms, twice.arms, strict=True):
        assert arm.highest_rate_rps == other.highest_rate_rps
        assert [fleet.growth for fleet in arm.fleets] == list(range(1, 11))
        replicas = [fleet.replicas for fleet in arm.fleets]
        assert replicas == sorted(replicas)
        for fleet in arm.fleets:
            assert fleet.replicas * arm.highest_rate_rps.value >= fleet.peak_rate_rps * (1 - 1e-3)
            assert (fleet.replicas - 1) * arm.highest_rate_rps.value < fleet.peak_rate_rps
            assert fleet.replicas_low <= fleet.replicas <= fleet.replicas_high
            assert fleet.gpus == fleet.replicas * one.gpus_per_replica
            assert 0 <= fleet.headroom + 1e-3 < 1
        for growth in (1, 2, 3, 4, 5):
            assert other.fleets[growth - 1].replicas == arm.fleets[2 * growth - 1].replicas


@EACH
def test_money_is_price_over_throughput(name: str) -> None:
    plan = planned(name)
    for arm in plan.arms:
        tokens_per_hour = 3600 * arm.highest_rate_rps.value * plan.traffic.output_tokens
        assert arm.usd_per_million_output_tokens == pytest.approx(PRICE * plan.gpus_per_replica / tokens_per_hour * 1e6)
        for fleet in arm.fleets:
            assert fleet.usd_per_month == pytest.approx(PRICE * fleet.gpus * 730)


@EACH
def test_speculation_never_makes_room_in_the_kv_cache(name: str) -> None:
    null, *others = planned(name, peak=37.0).arms
    assert null.kv_tokens is not None
    for arm in others:
        assert arm.kv_tokens is not None
        assert arm.kv_tokens <= null.kv_tokens
        for with_it, without in zip(arm.contexts, null.contexts, strict=True):
            assert with_it.max_concurrency is not None
            assert without.max_concurrency is not None
            assert with_it.max_concurrency <= without.max_concurrency


@EACH
def test_a_looser_slo_never_allows_less(name: str) -> None:
    free = planned(name)
    light = free.arms[0].curve[0]
    for what, base in (("tpot_ms", light.tpot_ms), ("ttft_ms", light.ttft_ms)):
        found = [planned(name, **{what: round(factor * base, 3)}) for factor in (0.3, 1.2, 2.5)]
        rates = [plan.arms[0].highest_rate_rps.value for plan in (*found, free)]
        assert rates == sorted(rates), what
        assert rates[0] == 0
        assert found[0].arms[0].limited_by == "slo unreachable"
        assert found[0].arms[0].fleets == ()
        assert rates[1] > 0


@EACH
def test_the_seed_and_nothing_else_decides_a_plan(name: str) -> None:
    planned.cache_clear()
    first = planned(name)
    planned.cache_clear()
    assert planned(name) == first
    other = planned(name, seed=1)
    assert other.arms != first.arms
    for arm, again in zip(first.arms, other.arms, strict=True):
        assert again.saturation_rate_rps == pytest.approx(arm.saturation_rate_rps, rel=0.2)


@EACH
def test_the_text_can_be_read_and_says_where_the_engine_is_full(name: str) -> None:
    plan = planned(name, peak=37.0)
    for width in (80, 100, 120):
        text = render_plan(plan, width=width)
        assert max(map(len, text.splitlines())) <= width
        assert "saturates at" in text
        assert "37 at the peak" in text
    beyond = [arm for arm in plan.arms if any(not point.sustained for point in arm.curve)]
    assert not beyond or "queue" in text


def test_more_than_one_replica_serves_is_more_replicas_and_is_said() -> None:
    plan = planned("more arrivals than one replica serves")
    null = plan.arms[0]
    assert plan.traffic.usual_rate_rps == 60
    assert null.saturation_rate_rps < 60
    assert null.fleets[0].replicas == math.ceil(60 / null.highest_rate_rps.value - 1e-3) > 1
    assert null.at_peak is not None
    assert null.at_peak.arrival_rate_rps <= null.highest_rate_rps.value * 1.001, "no replica gets more than it serves"
    assert f"{null.fleets[0].replicas}" in render_plan(plan)
    assert "replicas serve the peak" in render_plan(plan)


def test_cards_of_one_replica_are_counted_and_paid_for() -> None:
    plan = planned("a large model in 8 bits over four cards")
    assert plan.gpus_per_replica == 4
    assert plan.arms[0].fleets[0].gpus == 4 * plan.arms[0].fleets[0].replicas
    assert "4 x H100" in render_plan(plan)


def test_requests_that_the_target_cannot_take_are_cut_to_its_window() -> None:
    plan = planned("long prompts")
    assert all(room.context_tokens <= 131072 for room in plan.arms[0].contexts)
