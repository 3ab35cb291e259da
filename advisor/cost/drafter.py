"""What a drafter brings to a GPU, from shapes alone: its weights, and its layers in the KV pool."""

from __future__ import annotations

from advisor.cost.shape_bytes import bytes_per_param
from profiles.catalog.shapes import ModelShape
from profiles.methods import Method


def draft_layers(target: ModelShape, draft: ModelShape | None, described: Method) -> ModelShape | None:
    """What the drafter keeps in the pool, as a shape; None where it keeps nothing.

    A head or native layer whose shape is unknown is built like the target's attention layers, its MTP layers first.
    """
    if not described.draft_has_kv:
        return None
    if draft is not None and draft.attention:
        return draft
    kinds = sorted(target.attention, key=lambda group: ("full", "mla", "sliding", "linear").index(group.kind))
    if not kinds or kinds[0].kind == "linear":
        return None
    layers = max(1, target.mtp_layers)
    group = kinds[0].model_copy(update={"layers": layers})
    return target.model_copy(update={"attention": (group,), "num_layers": layers})


def draft_weights_bytes(target: ModelShape, draft: ModelShape | None, described: Method) -> float:
    """Bytes the drafter brings: its own weights, the target's MTP layers, or one layer's worth where nobody knows."""
    if described.drafter in ("none", "lookup"):
        return 0.0
    if draft is not None:
        return float(draft.weights_bytes)
    if described.drafter == "native" and target.mtp_params:
        return target.mtp_params * bytes_per_param(target)
    layer = max(0.0, target.params - 2.0 * target.embedding_params) / max(1, target.num_layers)
    return max(1, target.mtp_layers) * layer * bytes_per_param(target)
