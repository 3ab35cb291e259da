"""At one arrival rate fewer requests run where each leaves sooner: what the advice says of it agrees with Little's law
and with its own prices."""

from __future__ import annotations

import math

import pytest

from advisor.advice import advise
from advisor.decision import best_cell
from advisor.prediction import price
from advisor.saturation import at_rate, at_rate_sentence
from profiles.deployment import NO_SPECULATION
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
GAINING = {"prompt_tokens": 300, "output_tokens": 600, "tasks": "json", "sampling": {"temperature": 0}}


@pytest.mark.parametrize("rate", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("replicas", [1, 2])
def test_both_loads_are_those_that_the_rate_keeps_running(rate: float, replicas: int) -> None:
    pricing = price(gpu_situation(arrival_rate_rps=rate, engine={"data_parallel_size": replicas}, **GAINING))
    best = best_cell(pricing, pricing.running)
    assert best is not None
    found = at_rate(pricing, best)
    assert found is not None
    share = rate / replicas
    for running, request in (
        (found.running_without, pricing.request(NO_SPECULATION, 0, found.running_without)),
        (found.running_with, pricing.request(best.candidate, best.k, found.running_with)),
    ):
        if running > 1.0:
            seconds = request.total_ms * math.exp(-request.correction) / 1000.0
            assert running == pytest.approx(share * seconds, rel=0.02)


@pytest.mark.parametrize("workload", [GAINING, {"prompt_tokens": 300, "output_tokens": 600, "tasks": "creative"}])
def test_each_side_at_its_own_load_shows_no_less_than_both_at_one_load(workload: dict[str, object]) -> None:
    """What gains gains more, what loses loses more: the same load on both sides is the careful comparison."""
    pricing = price(gpu_situation(arrival_rate_rps=3.0, **workload))
    for candidate in pricing.candidates:
        for k in candidate.k:
            cell = pricing.at(candidate, k, pricing.running)
            found = at_rate(pricing, cell)
            if found is None or found.running_without <= 1.5:
                continue
            if cell.speedup.value > 1.02:
                assert found.speedup >= cell.speedup.value - 0.01
                assert found.running_with < found.running_without
            elif cell.speedup.value < 0.98:
                assert found.speedup <= cell.speedup.value + 0.01
                assert found.running_with > found.running_without


def test_the_advice_says_why_its_figure_and_the_plans_differ() -> None:
    record = advise(gpu_situation(arrival_rate_rps=4.0, **GAINING), NOW)
    assert record.decision.enable is True
    assert record.at_rate is not None
    assert record.at_rate.running_with < 0.95 * record.at_rate.running_without
    (said,) = [r.sentence for r in record.reasons
               if r.question == "concurrency" and "requests per second" in r.sentence]
    assert f"{record.at_rate.speedup:.2f}x as fast" in said
    assert "compare both at the same load" in said


def test_nothing_is_said_of_a_rate_that_nobody_knows_or_that_is_not_held() -> None:
    for situation in (gpu_situation(concurrency=8, **GAINING), gpu_situation(arrival_rate_rps=5000.0, **GAINING)):
        pricing = price(situation)
        best = best_cell(pricing, pricing.running)
        assert best is not None
        assert at_rate(pricing, best) is None
        assert at_rate_sentence(pricing, best) is None
        assert advise(situation, NOW).at_rate is None
