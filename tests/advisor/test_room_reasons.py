"""What a draft takes of the memory that the workload needs is a warning with the figures of both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.advice import advise
from advisor.decision import Choice, decide
from advisor.prediction import Pricing, price
from advisor.reasons import write_reasons
from advisor.record import Decision, Memory, Priced, whole_requests
from advisor.report import render
from advisor.room_reasons import room_warnings
from profiles.catalog.shapes import AttentionGroup
from tests.advisor.cost.test_window import small_card
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
LENGTHS = {"prompt_tokens": 500, "output_tokens": 300}


def on(pricing: Pricing, k: int = 3, enable: bool | None = True) -> tuple[Choice, Priced, Memory]:
    """The first candidate decided for, and its plan."""
    candidate = pricing.candidates[0]
    best = pricing.at(candidate, k, pricing.running)
    choice = Choice(Decision.without_figures(enable=enable, running=pricing.running), best)
    return choice, best, pricing.plan(candidate, k)


def crowded(**stated: Any) -> Pricing:
    """More requests than fit beside the draft, and fewer than fit without it."""
    _, _, plan = on(price(small_card(**LENGTHS)))
    assert plan.requests_with is not None
    assert plan.requests_without is not None
    assert plan.requests_with + 1 < plan.requests_without
    running = (plan.requests_with + plan.requests_without) // 2
    return price(small_card(**{**LENGTHS, "concurrency": running, **stated}))


def test_a_load_that_no_longer_fits_beside_the_draft_is_warned_of_with_the_figures_of_both_sides() -> None:
    pricing = crowded()
    choice, best, plan = on(pricing)
    said = room_warnings(pricing, choice, plan)[0]
    assert f"memory holds {plan.requests_with} requests at once, and {pricing.running} run at the usual load" in said
    assert f"{plan.kv_tokens_with:,} KV tokens of {plan.kv_tokens_without:,} are left" in said
    assert f"without speculation {plan.requests_without} fit" in said
    memory = next(r for r in write_reasons(pricing, choice) if r.sentence.startswith("The draft takes"))
    assert memory.for_or_against == "against"
    assert best.label in said


def test_the_busy_hour_counts_as_the_usual_load_does() -> None:
    busy = crowded().running
    pricing = crowded(concurrency=1, concurrency_p95=busy)
    choice, _, plan = on(pricing)
    assert f"and {busy} run in the busy hour" in room_warnings(pricing, choice, plan)[0]


def test_a_load_that_fits_on_both_sides_and_a_card_with_room_are_no_warning() -> None:
    pricing = price(small_card(gpu="H200", **{**LENGTHS, "concurrency": 4}))
    choice, _, plan = on(pricing)
    assert room_warnings(pricing, choice, plan) == ()


def test_where_speculation_is_left_off_nothing_is_taken() -> None:
    pricing = crowded()
    choice, _, plan = on(pricing, enable=False)
    assert room_warnings(pricing, choice, plan) == ()


def test_a_draft_that_shortens_the_longest_request_is_warned_of() -> None:
    pricing = price(small_card(**LENGTHS))
    choice, best, plan = on(pricing)
    assert plan.write_max_model_len_with is not None
    (said,) = room_warnings(pricing, choice, plan)
    assert said.startswith(f"{best.label} shortens the longest request")
    assert f"max-model-len {plan.write_max_model_len_with:,} is written" in said
    assert f"could be {plan.write_max_model_len_without:,}" in said


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_report_says_it_before_the_reasons(form: str) -> None:
    record = advise(small_card(**LENGTHS, concurrency=1, tasks="json", sampling={"temperature": 0}), NOW)
    assert record.decision.enable is not False
    text = " ".join(render(record, form).split())
    assert "KV tokens of" in text
    assert any("KV tokens of" in warning for warning in record.warnings)


def test_every_page_names_the_same_whole_requests() -> None:
    """`requests at once` is one number: what runs are whole requests, never a rounded one more."""
    assert [whole_requests(value) for value in (None, 0.0, 443.5, 443.999, 444.0)] == [None, 0, 443, 443, 444]
    record = advise(small_card(**{**LENGTHS, "tasks": "code", "concurrency": 2}), NOW)
    plan = record.memory
    sentence = next(r.sentence for r in record.reasons if r.sentence.startswith("The draft takes"))
    assert f"enough for {plan.requests_with} request" in sentence
    row = next(line for line in render(record, "markdown").splitlines() if "requests of mean length at once" in line)
    assert row.split("|")[2:4] == [f" {plan.requests_without:,} ", f" {plan.requests_with:,} "]


def test_a_lookup_that_costs_kv_room_says_what_takes_it() -> None:
    pricing = price(gpu_situation(candidates=[{"method": "suffix"}], concurrency=4, **LENGTHS))
    choice, _, plan = on(pricing)
    said = next(r.sentence for r in write_reasons(pricing, choice) if r.question == "memory")
    assert said.startswith("Suffix decoding needs no weights and no KV of its own")
    assert (plan.kv_tokens_with or 0) < (plan.kv_tokens_without or 0)
    more = (plan.overhead_with_gib or 0.0) - (plan.overhead_gib or 0.0)
    assert f"{more:.1f} GiB more for graphs, sampling and activations on the V1 runner than on V2 without it" in said


def test_state_layers_are_named_where_they_keep_a_state_for_each_drafted_token() -> None:
    states = (AttentionGroup(kind="full", layers=8, kv_heads=8, head_dim=128),
              AttentionGroup(kind="linear", layers=24, state_bytes=2**20))
    situation = gpu_situation(candidates=[{"method": "ngram"}], concurrency=4, **LENGTHS)
    situation = replace(situation, target=situation.target.model_copy(update={"attention": states}))
    pricing = price(situation)
    choice, _, _ = on(pricing)
    said = next(r.sentence for r in write_reasons(pricing, choice) if r.question == "memory")
    assert "a state for each drafted token in 24 layers" in said


def test_a_kv_cache_of_a_stated_size_that_does_not_fit_is_blamed_and_not_the_draft() -> None:
    stated = {"max_model_len": 2048, "extra_args": {"kv-cache-memory-bytes": "20G"}}
    pricing = price(small_card(**{**LENGTHS, "engine": stated}))
    (reason,) = write_reasons(pricing, decide(pricing))
    assert "kv-cache-memory-bytes asks for 20.0 GiB" in reason.sentence
    assert "state less" in reason.sentence
