"""A KV cache whose size an option states: what fits in it, and whether it is there to be had."""

from __future__ import annotations

import pytest

from advisor.cost.memory import plan_memory
from advisor.cost.stated_kv import BLOCKS, BYTES, stated_kv
from profiles.deployment import NO_SPECULATION, Engine
from tests.advisor.cost.test_window import LENGTHS, plan, small_card
from tests.advisor.situations import cpu_situation, gpu_situation

GIB = 2**30


def test_stated_bytes_are_the_kv_cache_on_both_sides_whatever_is_left() -> None:
    found = plan(gpu_situation(engine={"extra_args": {"kv-cache-memory-bytes": 2 * GIB}}, **LENGTHS))
    assert (found.kv_gib_without, found.kv_gib_with) == (2.0, 2.0)
    assert found.kv_stated_by == BYTES
    assert (found.kv_fits_without, found.kv_fits_with) == (True, True)
    # 128 KiB a token, in blocks of 16.
    assert found.kv_tokens_without == pytest.approx(2 * GIB / 131072, abs=16)


@pytest.mark.parametrize("written", ["2G", "2147483648", 2 * GIB])
def test_bytes_are_read_as_the_engine_reads_a_size(written: object) -> None:
    stated = stated_kv(Engine.model_validate({"extra_args": {"kv_cache_memory_bytes": written}}))
    assert stated is not None
    assert stated.amount == 2 * GIB


def test_stated_blocks_win_over_bytes_and_cost_more_memory_beside_a_draft() -> None:
    both = {"kv-cache-memory-bytes": GIB, "num-gpu-blocks-override": 1024}
    found = plan(gpu_situation(engine={"extra_args": both}, **LENGTHS))
    assert found.kv_stated_by == BLOCKS
    assert found.kv_tokens_without == found.kv_tokens_with == 1024 * 16
    # 32 KiB of draft KV a token beside 128.
    assert found.kv_gib_without is not None
    assert found.kv_gib_with == pytest.approx(1.25 * found.kv_gib_without)


def test_few_blocks_hold_no_request_of_the_stated_window_and_the_engine_does_not_start() -> None:
    found = plan(small_card(engine={"max_model_len": 8192, "extra_args": {"num-gpu-blocks-override": 20}}))
    assert (found.window_fits_without, found.window_fits_with) == (False, False)
    # One block is never handed out.
    assert found.max_model_len_without == 19 * 16
    assert (found.target_fits, found.fits) == (False, False)


def test_a_cache_larger_than_the_memory_beside_the_weights_does_not_fit() -> None:
    found = plan(small_card(engine={"max_model_len": 2048, "extra_args": {"kv-cache-memory-bytes": 20 * GIB}}))
    assert (found.kv_fits_without, found.kv_fits_with) == (False, False)
    assert (found.target_fits, found.fits) == (False, False)


def test_beside_a_stated_cache_the_share_of_the_gpu_counts_for_nothing() -> None:
    def planned(share: float) -> object:
        engine = {"gpu_memory_utilization": share, "max_model_len": 2048, "extra_args": {"kv-cache-memory-bytes": GIB}}
        return plan(small_card(engine=engine)).model_copy(update={"notes": ()})

    assert planned(0.3) == planned(0.9)


def test_on_the_cpu_engine_the_variable_wins_over_the_bytes() -> None:
    def kv_gib(**engine: object) -> float | None:
        situation = cpu_situation(None, engine=engine)
        return plan_memory(situation, NO_SPECULATION, 0).kv_gib_without

    assert kv_gib(extra_args={"kv-cache-memory-bytes": GIB}) == 1.0
    assert kv_gib(extra_args={"kv-cache-memory-bytes": GIB}, env={"VLLM_CPU_KVCACHE_SPACE": "3"}) == 3.0
