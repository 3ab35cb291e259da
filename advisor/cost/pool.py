"""The arithmetic of one GPU's memory, from shapes and sizes alone: weights, KV per token, what the runtime takes."""

from __future__ import annotations

from advisor.cost.constants import constants
from advisor.cost.shape_bytes import bytes_per_param, kv_bytes_per_token
from profiles.catalog.shapes import ModelShape
from profiles.methods import DrafterKind

GIB = float(2**30)


def drafter_kv_bytes(target: ModelShape, draft: ModelShape | None, kv_dtype: str, tensor_parallel: int) -> float:
    """KV bytes one token takes in a drafter's layers, on one GPU."""
    if draft is not None and draft.attention:
        return kv_bytes_per_token(draft, kv_dtype, tensor_parallel)
    # A head or native layer whose shape is unknown is built like one layer of the target.
    layers = max(1, target.mtp_layers)
    return layers * kv_bytes_per_token(target, kv_dtype, tensor_parallel) / max(1, target.num_layers)


def draft_weights_bytes(kind: DrafterKind, target: ModelShape, draft: ModelShape | None) -> float:
    """Bytes a drafter adds to the target's weights, over all GPUs."""
    if kind in ("none", "lookup"):
        return 0.0
    if draft is not None:
        return float(draft.weights_bytes)
    if kind == "native" and target.mtp_params:
        return target.mtp_params * bytes_per_param(target)
    layer = max(0.0, target.params - 2.0 * target.embedding_params) / max(1, target.num_layers)
    return max(1, target.mtp_layers) * layer * bytes_per_param(target)


def overhead_gib(
    target: ModelShape, k: int, tensor_parallel: int, max_num_batched_tokens: int, max_num_seqs: int, *, eager: bool
) -> float:
    """Activations, logits, graphs and the runtime's own share of one GPU, in GiB."""
    facts = constants()["memory"]
    activations = max_num_batched_tokens * target.hidden_size * float(facts["activation_bytes_per_token_hidden"])
    activations = max(activations, max_num_batched_tokens * max(1, target.intermediate_size) * 4.0 / tensor_parallel)
    logits = max_num_seqs * (1 + k) * target.vocab_size * float(facts["logits_bytes"])
    graphs = 0.0 if eager else float(facts["graphs_gib"])
    return float(facts["runtime_gib"]) + graphs + (activations + logits) / GIB


def tokens_in(pool_bytes: float | None, bytes_per_token: float) -> int | None:
    """KV tokens a pool holds; None where the pool is unknown or the model keeps nothing per token."""
    if pool_bytes is None or bytes_per_token <= 0:
        return None
    return int(max(0.0, pool_bytes) / bytes_per_token)
