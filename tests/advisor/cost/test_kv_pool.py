"""The KV pool is cut as vLLM cuts it; expected block counts are worked out by hand beside each case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cost.kv_pool import Pool, PoolLayers, cut_pool, pool_layers
from profiles.catalog.models import find_model
from profiles.catalog.shapes import AttentionGroup, ModelShape

GIB = 2**30


def shape(*groups: AttentionGroup) -> ModelShape:
    return ModelShape(
        id="synthetic", params=10**9, active_params=10**9, num_layers=sum(g.layers for g in groups), hidden_size=1024,
        num_attention_heads=8, vocab_size=32000, attention=groups,
    )  # fmt: skip


FULL = PoolLayers("full", 32, 4096.0)


def test_plain_attention_is_one_table_of_sixteen_token_blocks() -> None:
    pool = cut_pool([FULL], step_tokens=8192)
    assert pool.bytes_per_block == 32 * 4096 * 16
    assert pool.tokens(10 * GIB, 8192) == 10 * GIB // (32 * 4096 * 16) * 16
    assert pool.concurrency(10 * GIB, 8192) == pytest.approx(10 * GIB / (32 * 4096 * 8192))


def test_a_drafts_layers_of_another_width_share_the_one_table() -> None:
    pool = cut_pool([FULL, PoolLayers("full", 16, 2048.0)], step_tokens=8192, speculated=5)
    assert len(pool.groups) == 1
    assert pool.bytes_per_block == (32 * 4096 + 16 * 2048) * 16


def test_mla_beside_plain_attention_is_one_table_too() -> None:
    pool = cut_pool([PoolLayers("mla", 61, 1152.0), PoolLayers("full", 1, 4096.0)], step_tokens=8192)
    assert pool.bytes_per_block == (61 * 1152 + 4096) * 16


def test_sliding_layers_take_blocks_up_to_their_window_and_the_running_step() -> None:
    # Gemma-like: 5 full layers of half the width get blocks of 32; 25 sliding ones stand in 5 tables.
    pool = cut_pool([PoolLayers("sliding", 25, 8192.0, window=1024), PoolLayers("full", 5, 4096.0)], step_tokens=4096)
    assert pool.bytes_per_block == 5 * 8192 * 16
    assert [(g.kind, g.tables, g.block_tokens) for g in pool.groups] == [("sliding", 5, 16), ("full", 1, 32)]
    # 8192/32 for the full table; ceil((1023 + 4096) / 16) + 1 for each sliding one.
    assert pool.blocks_per_request(8192) == 256 + 5 * 321
    # Short requests never reach the window.
    assert pool.blocks_per_request(100) == 4 + 5 * 8


def test_older_releases_count_tokens_as_if_every_table_grew() -> None:
    pool = cut_pool([PoolLayers("sliding", 25, 8192.0, window=1024), PoolLayers("full", 5, 4096.0)], step_tokens=4096)
    available = 600 * pool.bytes_per_block
    assert pool.tokens(available, 8192, by_length=False) == 600 // 6 * 16
    assert pool.tokens(available, 8192) == int(600 / 1861 * 8192)


def test_state_layers_stretch_the_block_until_a_page_holds_a_state() -> None:
    # Qwen3.6-35B-A3B with its MTP layer at k=3: state 2,195,456 bytes = 1072 tokens of 2048 bytes.
    target = find_model("Qwen/Qwen3.6-35B-A3B")
    assert target is not None
    mtp = shape(AttentionGroup(kind="full", layers=1, kv_heads=2, head_dim=256))
    layers = pool_layers(target, speculated=3) + pool_layers(mtp, speculated=3)
    pool = cut_pool(layers, step_tokens=2048, speculated=3, prefix_caching=False)
    assert pool.bytes_per_block == 11 * 1072 * 2048
    # 245 blocks of attention; three tables of states, a state and three speculated ones each.
    assert pool.blocks_per_request(262144) == 245 + 3 * 4
    assert cut_pool(layers, step_tokens=2048, speculated=3).blocks_per_request(262144) == 245 + 3 * 5


def test_nearly_even_kinds_are_padded_instead_of_split() -> None:
    # 13 full (12 and a head's one) beside 12 sliding: two tables of 13, not 13 tables of one.
    pool = cut_pool([PoolLayers("sliding", 12, 2048.0, window=128), PoolLayers("full", 13, 2048.0)], step_tokens=2048)
    assert [g.tables for g in pool.groups] == [1, 1]
    assert pool.bytes_per_block == 13 * 2048 * 16


def test_tensor_parallel_shares_kv_up_to_the_number_of_heads_and_mla_not_at_all() -> None:
    plain = shape(AttentionGroup(kind="full", layers=10, kv_heads=8, head_dim=128))
    per_token = [pool_layers(plain, tensor_parallel=tp)[0].bytes_per_token for tp in (1, 2, 8, 16)]
    assert per_token == [4096, 2048, 512, 512]
    latent = shape(AttentionGroup(kind="mla", layers=10, kv_heads=1, head_dim=576))
    assert {pool_layers(latent, tensor_parallel=tp)[0].bytes_per_token for tp in (1, 8)} == {1152}


def test_fp8_kv_doubles_the_tokens() -> None:
    model = shape(AttentionGroup(kind="full", layers=32, kv_heads=8, head_dim=128))
    wide, narrow = (cut_pool(pool_layers(model, dtype), step_tokens=2048) for dtype in ("auto", "fp8"))
    assert narrow.block_count(GIB) == 2 * wide.block_count(GIB)


def test_a_model_without_layers_in_the_pool_keeps_nothing() -> None:
    pool = cut_pool([], step_tokens=2048)
    assert pool.tokens(GIB, 4096) is None
    assert pool.concurrency(GIB, 4096) is None
    assert pool.longest_request(GIB, 4096) == 4096


def test_the_longest_request_leaves_one_block_that_is_never_handed_out() -> None:
    pool = cut_pool([FULL], step_tokens=8192)
    assert pool.longest_request(100 * pool.bytes_per_block, 10**6) == 99 * 16
    assert pool.longest_request(100 * pool.bytes_per_block, 1000) == 1000
    assert pool.longest_request(0, 1000) == 0


layer_sets = st.lists(
    st.one_of(
        st.builds(PoolLayers, st.just("full"), st.integers(1, 80), st.sampled_from([512.0, 1024.0, 2048.0, 4096.0])),
        st.builds(PoolLayers, st.just("sliding"), st.integers(1, 80), st.sampled_from([1024.0, 2048.0, 3072.0]),
                  st.integers(64, 4096)),
        st.builds(PoolLayers, st.just("linear"), st.integers(1, 80), st.just(0.0), st.none(),
                  st.integers(1000, 5_000_000)),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@given(layer_sets, st.integers(0, 8), st.integers(1, 100_000))
def test_longer_requests_take_no_fewer_blocks_and_more_memory_holds_more(
    layers: list[PoolLayers], k: int, tokens: int
) -> None:
    pool: Pool = cut_pool(layers, step_tokens=2048, speculated=k)
    assert pool.blocks_per_request(tokens) <= pool.blocks_per_request(tokens + 100)
    assert pool.bytes_per_block > 0
    few, many = pool.concurrency(10 * GIB, tokens), pool.concurrency(20 * GIB, tokens)
    assert few is not None
    assert many is not None
    assert few <= many


@given(st.integers(1, 80), st.sampled_from([512.0, 2048.0]), st.integers(1, 40), st.integers(16, 10**5))
def test_a_drafts_layers_take_room_from_plain_attention(layers: int, width: float, own: int, tokens: int) -> None:
    target = PoolLayers("full", layers, width)
    alone, both = (cut_pool(set_, step_tokens=2048) for set_ in ([target], [target, PoolLayers("full", own, 1024.0)]))
    without, beside = alone.concurrency(50 * GIB, tokens), both.concurrency(50 * GIB, tokens)
    assert without is not None
    assert beside is not None
    assert beside < without
