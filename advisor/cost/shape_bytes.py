"""Bytes of a model's weights and KV, from its shape alone."""

from __future__ import annotations

from profiles.catalog.shapes import AttentionGroup, ModelShape

_ROTARY, _SCALED = 64, 128
_DTYPE_BYTES = {"float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "fp8": 1.0}


def kv_element_bytes(shape: ModelShape, kv_cache_dtype: str = "auto") -> float:
    """Bytes of one stored KV number: the cache's dtype, or the model's own."""
    if kv_cache_dtype.startswith(("fp8", "int8")):
        return 1.0
    if "4" in kv_cache_dtype and kv_cache_dtype != "auto":
        return 0.5
    return _DTYPE_BYTES.get(kv_cache_dtype if kv_cache_dtype != "auto" else shape.dtype, 2.0)


def group_kv_bytes_per_token(group: AttentionGroup, element_bytes: float, tensor_parallel: int = 1) -> float:
    """KV bytes one more token takes in all layers of a group, on one GPU; linear layers keep none per token."""
    if group.kind == "linear":
        return 0.0
    if group.kind == "mla":
        # One compressed row for all heads: every rank keeps it whole.
        row = group.head_dim * element_bytes
        if group.index_dim:
            if element_bytes == 1.0:
                # Sparse attention's 8-bit rows: a scale for each 128 numbers, the rotary part in 16 bits.
                latent = group.head_dim - _ROTARY
                row = latent + 4.0 * latent / _SCALED + 2.0 * _ROTARY
            row += group.index_dim + 4.0 * group.index_dim / _SCALED
        return group.layers * row
    heads = max(1.0, group.kv_heads / max(1, tensor_parallel))
    return group.layers * 2.0 * heads * group.head_dim * element_bytes


def kv_bytes_per_token(shape: ModelShape, kv_cache_dtype: str = "auto", tensor_parallel: int = 1) -> float:
    """KV bytes of one token in the pool, on one GPU. vLLM's pool gives sliding layers blocks like any other."""
    element = kv_element_bytes(shape, kv_cache_dtype)
    return sum(group_kv_bytes_per_token(group, element, tensor_parallel) for group in shape.attention)


def bytes_per_param(shape: ModelShape) -> float:
    """Mean bytes a stored parameter takes."""
    return shape.weights_bytes / max(1, shape.params)

