"""Tables hold what the cost model says at their points."""

from __future__ import annotations

import pytest

from advisor.capacity.step_table import tabulate
from advisor.prediction import price
from profiles.deployment import NO_SPECULATION
from tests.advisor.situations import gpu_situation


def test_a_step_of_the_table_is_a_step_of_the_cost_model() -> None:
    pricing = price(gpu_situation(concurrency=8))
    candidate = pricing.candidates[0]
    acceptance = pricing.acceptance[candidate.label]
    table = tabulate(pricing.cost, candidate, acceptance, (0, 3), max_num_seqs=64, max_context=8000, max_prompt=4000,
                     token_budget=8192)
    own = pricing.cost.step(candidate, 8, 3, acceptance.drafted_tokens(3), 4000.0).ms
    assert table.decode_ms[1][8][4] == pytest.approx(own)
    assert table.ks == (0, 3)


def test_prefill_and_the_part_every_step_pays_add_up_to_the_cost_model() -> None:
    pricing = price(gpu_situation(concurrency=8))
    table = tabulate(pricing.cost, NO_SPECULATION, pricing.acceptance["none"], (0,), max_num_seqs=8, max_context=8000,
                     max_prompt=6400, token_budget=8192)
    at = table.prefill_ms[16]
    assert table.alone_ms + at == pytest.approx(pricing.cost.prefill(1600.0).ms, rel=0.01)


def test_prompts_beyond_the_token_budget_go_on_growing() -> None:
    pricing = price(gpu_situation(concurrency=8))
    table = tabulate(pricing.cost, NO_SPECULATION, pricing.acceptance["none"], (0,), max_num_seqs=8, max_context=8000,
                     max_prompt=32_000, token_budget=2048)
    steps = [b - a for a, b in zip(table.prefill_ms, table.prefill_ms[1:], strict=False)]
    assert min(steps) > 0
    assert steps[-1] > 0.9 * steps[3]
