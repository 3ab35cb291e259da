"""KV bytes of a token by the kinds of attention a model has."""

from __future__ import annotations

from advisor.cost.shape_bytes import kv_bytes_per_token
from profiles.catalog.shapes import AttentionGroup
from tests.advisor.situations import llama_1b, llama_8b


def test_kv_bytes_of_a_grouped_query_model_are_two_rows_a_layer() -> None:
    assert kv_bytes_per_token(llama_8b()) == 32 * 2 * 8 * 128 * 2
    assert kv_bytes_per_token(llama_8b(), "fp8") == 32 * 2 * 8 * 128
    assert kv_bytes_per_token(llama_8b(), tensor_parallel=4) == 32 * 2 * 2 * 128 * 2
    # More ranks than KV heads: each rank keeps a copy of one head.
    assert kv_bytes_per_token(llama_8b(), tensor_parallel=16) == 32 * 2 * 1 * 128 * 2


def test_attention_kinds_keep_what_they_need() -> None:
    mla = llama_1b().model_copy(update={"attention": (AttentionGroup(kind="mla", layers=10, head_dim=576),)})
    assert kv_bytes_per_token(mla, tensor_parallel=8) == 10 * 576 * 2
    linear = llama_1b().model_copy(update={"attention": (AttentionGroup(kind="linear", layers=6, state_bytes=1000),)})
    assert kv_bytes_per_token(linear) == 0


def test_a_sparse_attentions_index_keys_are_cached_beside_the_latent_rows() -> None:
    sparse = AttentionGroup(kind="mla", layers=61, kv_heads=1, head_dim=576, index_dim=128)
    shape = llama_8b().model_copy(update={"attention": (sparse,)})
    # vLLM 0.32: an index row is 128 bytes and a 4-byte scale; an 8-bit latent row 656 bytes.
    assert kv_bytes_per_token(shape, tensor_parallel=8) == 61 * (576 * 2 + 132)
    assert kv_bytes_per_token(shape, "fp8") == 61 * (656 + 132)
