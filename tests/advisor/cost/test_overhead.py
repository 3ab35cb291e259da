"""What a start takes beside weights and KV grows with what causes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.cost.overhead import EngineStart, activation_rows, memory_constants, overhead_parts_gib, visible_gib
from profiles.catalog.models import find_model
from profiles.catalog.shapes import ModelShape

START = EngineStart(
    runner="v1", batched_tokens=8192, seqs=256, captured_tokens=512, graphs_from_kv=True, tensor_parallel=1
)


def model(name: str = "Qwen/Qwen3-8B") -> ModelShape:
    found = find_model(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("part", "more"), [("activations", {"batched_tokens": 16384}), ("sampling", {"seqs": 1024}), ("graphs", {
        "captured_tokens": 1024}), ("runtime", {"tensor_parallel": 2}), ("unified", {"unified": True})])  # fmt: skip
def test_each_part_grows_with_its_cause(part: str, more: dict[str, int]) -> None:
    before = overhead_parts_gib(model(), START, None, 0)
    after = overhead_parts_gib(model(), replace(START, **more), None, 0)  # type: ignore[arg-type]
    assert after[part] > before[part]


def test_graphs_cost_kv_only_where_the_release_takes_them_off_it() -> None:
    assert overhead_parts_gib(model(), replace(START, graphs_from_kv=False), None, 0)["graphs"] == 0
    assert overhead_parts_gib(model(), replace(START, captured_tokens=0), None, 0)["graphs"] == 0


def test_drafting_costs_nothing_without_a_drafter_or_without_tokens_to_draft() -> None:
    assert overhead_parts_gib(model(), START, None, 3)["drafting"] == 0
    assert overhead_parts_gib(model(), START, model(), 0)["drafting"] == 0
    assert overhead_parts_gib(model(), START, model(), 3)["drafting"] > 0


def test_the_newer_runners_sampler_needs_fewer_copies_of_the_logits() -> None:
    v1, v2 = (overhead_parts_gib(model(), replace(START, runner=name), None, 0) for name in ("v1", "v2"))  # type: ignore[arg-type]
    assert v2["sampling"] < v1["sampling"]


def test_a_mixture_holds_the_experts_of_one_token_not_all() -> None:
    moe = model("Qwen/Qwen3-30B-A3B-Instruct-2507")
    assert moe.moe is not None
    assert activation_rows(moe) < 3 * moe.hidden_size + moe.moe.num_experts * moe.hidden_size


def test_unified_memory_is_less_than_its_box_says_and_a_drivers_total_nearly_whole() -> None:
    assert visible_gib(128.0, unified=True, from_driver=False) == pytest.approx(120.3, abs=0.5)
    assert visible_gib(79.65, unified=False, from_driver=True) == pytest.approx(79.18, abs=0.1)


def test_every_constant_says_where_it_is_from() -> None:
    facts = memory_constants()
    assert "python -m benchmarks.memory_logs" in facts["command"]
    assert all(entry["source"] for name, entry in facts.items() if name not in ("about", "command"))
