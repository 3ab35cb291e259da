"""An arrival rate is the whole deployment's; one that its replicas do not hold is decided for full ones, aloud."""

from __future__ import annotations

import math

import pytest

from advisor.advice import advise
from advisor.emit.heading import cautions_of
from advisor.prediction import price
from advisor.report import render
from advisor.saturation import full_replica_sentence, saturation_of, saturation_sentence
from profiles.deployment import NO_SPECULATION
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
LENGTHS = {"prompt_tokens": 4000, "output_tokens": 1000}


def test_a_rate_that_is_held_is_no_saturation() -> None:
    pricing = price(gpu_situation(arrival_rate_rps=0.5, **LENGTHS))
    assert saturation_of(pricing, None) is None
    assert saturation_sentence(pricing, None) is None
    assert full_replica_sentence(pricing) is None
    assert any("all on one replica" in said for said in pricing.assumptions)


def test_a_concurrency_is_never_called_a_saturating_rate() -> None:
    assert saturation_of(price(gpu_situation(concurrency=100_000, **LENGTHS)), None) is None


def test_what_a_full_replica_holds_and_how_many_it_takes_follow_from_its_prices() -> None:
    pricing = price(gpu_situation(arrival_rate_rps=50.0, **LENGTHS))
    best = pricing.at(pricing.candidates[0], 2, pricing.running)
    found = saturation_of(pricing, best)
    assert found is not None
    full = pricing.request(NO_SPECULATION, 0, pricing.limit(NO_SPECULATION))
    assert found.held_rps_without == pytest.approx(full.tokens_per_s / LENGTHS["output_tokens"])
    assert found.held_rps_with == pytest.approx(found.held_rps_without * best.speedup.value)
    assert found.replicas_without == math.ceil(50.0 / found.held_rps_without)
    assert found.replicas_with is not None
    assert found.replicas == 1
    # Nobody's Little's law: the load is what the replica takes.
    assert pricing.running == math.floor(pricing.limit(NO_SPECULATION))
    # What they share evenly is a load that settles.
    assert 1 <= found.shared_running <= pricing.running
    share_s = pricing.request(NO_SPECULATION, 0, found.shared_running).total_ms / 1000.0
    assert found.shared_running == pytest.approx(50.0 / found.replicas_without * share_s, abs=1)
    assert not any("Little" in said for said in pricing.assumptions)


def test_data_parallel_replicas_share_the_rate() -> None:
    alone = price(gpu_situation(arrival_rate_rps=1.0, **LENGTHS))
    shared = price(gpu_situation(arrival_rate_rps=2.0, engine={"data_parallel_size": 2}, **LENGTHS))
    assert alone.running == shared.running
    full = saturation_of(price(gpu_situation(arrival_rate_rps=50.0, engine={"data_parallel_size": 2}, **LENGTHS)), None)
    assert full is not None
    assert full.replicas == 2


def test_the_advice_says_it_in_every_form() -> None:
    record = advise(gpu_situation(arrival_rate_rps=50.0, **LENGTHS), NOW)
    assert record.saturation is not None
    (said,) = [w for w in record.warnings if "more than one replica holds" in w]
    assert f"decided for a full one, {record.decision.running} running requests" in said
    assert f"takes {record.saturation.replicas_without} replicas without it" in said
    assert "50 requests per second are more than one replica holds" in " ".join(
        line.lstrip("# ") for line in record.emitted.vllm_yaml.splitlines())
    for form in ("text", "markdown", "html"):
        text = " ".join(render(record, form).split())
        assert "a full replica" in text
        assert f"{record.saturation.replicas_without} without speculation" in text


def test_what_one_file_warns_of_is_said_once() -> None:
    record = advise(gpu_situation(arrival_rate_rps=50.0, **LENGTHS), NOW)
    assert list(cautions_of((*record.warnings, *record.warnings), None)) == list(dict.fromkeys(
        w.rstrip(".") for w in record.warnings))


def test_the_load_of_replicas_that_share_the_rate_is_named_with_its_speed_up() -> None:
    pricing = price(gpu_situation("L40S", arrival_rate_rps=12.0, prompt_tokens=1500, output_tokens=384))
    best = pricing.at(pricing.candidates[0], 2, pricing.running)
    found = saturation_of(pricing, best)
    assert found is not None
    there = pricing.at(pricing.candidates[0], 2, found.shared_running).speedup.value
    said = saturation_sentence(pricing, best)
    assert said is not None
    assert f"about {found.shared_running} run on each, where it gives {there:.2f}x" in said
