"""What an engine start takes of a GPU beside weights and KV: activations of one step, sampling, graphs, the runtime."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from profiles.catalog.shapes import ModelShape

GIB = float(2**30)
_ACTIVATION_BYTES = 2.0
_LOGIT_BYTES = 4.0
# The engine's fused expert kernels work through longer steps in pieces of this many tokens.
_EXPERT_CHUNK = 32768


@lru_cache(maxsize=1)
def memory_constants() -> dict[str, Any]:
    """advisor/cost/memory_constants.json: every constant with its source, release and hardware."""
    text = files("advisor.cost").joinpath("memory_constants.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def memory_constant(name: str) -> float:
    """One constant's value."""
    return float(memory_constants()[name]["value"])


@dataclass(frozen=True)
class EngineStart:
    """What decides the memory of a start, per GPU."""

    runner: Literal["v1", "v2", "cpu"]
    batched_tokens: int
    """Most tokens of a step."""
    seqs: int
    """Most requests of a step."""
    captured_tokens: int
    """Largest step, in tokens, that graphs are captured for; 0 without graphs."""
    graphs_from_kv: bool
    """Whether this release takes the graphs' estimate off the KV memory."""
    tensor_parallel: int = 1
    unified: bool = False
    """Memory shared with the host."""


def visible_gib(total_gib: float, *, unified: bool, from_driver: bool) -> float:
    """GiB the engine sees of a GPU: the driver keeps some, and of unified memory the box names more than there is."""
    if unified and not from_driver:
        return total_gib * memory_constant("unified_share")
    return max(0.0, total_gib - memory_constant("reserved_gib"))


def activation_rows(shape: ModelShape, tensor_parallel: int = 1) -> float:
    """Numbers one batched token holds at the peak of a pass: hidden rows and the feed-forward between them."""
    hidden = memory_constant("hidden_rows") * shape.hidden_size
    # Gate and up projection side by side, and their product.
    dense = 3.0 * shape.intermediate_size / tensor_parallel
    if shape.moe is None:
        return hidden + dense
    width = shape.moe.expert_params / (3.0 * shape.hidden_size) / tensor_parallel
    routed = shape.moe.experts_per_token * (max(2.0 * width, float(shape.hidden_size)) + width)
    return hidden + max(routed, dense if shape.moe.shared_params else 0.0)


def overhead_parts_gib(shape: ModelShape, start: EngineStart, draft: ModelShape | None, k: int) -> dict[str, float]:
    """GiB by cause. The drafter's parts are there with k > 0 and a `draft` only."""
    tokens = float(start.batched_tokens)
    if shape.moe is not None:
        tokens = min(tokens, float(_EXPERT_CHUNK))
    copies = float(memory_constants()["logits_copies"]["v2" if start.runner == "v2" else "v1"])
    multimodal = any("ForConditionalGeneration" in name for name in shape.architectures)
    graphs = 0.0
    if start.captured_tokens and start.graphs_from_kv:
        facts = memory_constants()["graphs_gib"]
        graphs = float(facts["value"]) + float(facts["per_captured_token_gib"]) * start.captured_tokens
    drafting = 0.0
    if draft is not None and k > 0:
        drafting = start.batched_tokens * memory_constant("draft_rows") * draft.hidden_size * _ACTIVATION_BYTES / GIB
    return {
        "runtime": memory_constant("runtime_gib") * (1.0 + 0.5 * (start.tensor_parallel > 1)),
        "compile": memory_constant("compile_gib") if start.captured_tokens else 0.0,
        "activations": tokens * activation_rows(shape, start.tensor_parallel) * _ACTIVATION_BYTES / GIB,
        "sampling": copies * start.seqs * shape.vocab_size * _LOGIT_BYTES / GIB,
        "drafting": drafting,
        "graphs": graphs,
        "multimodal": memory_constant("multimodal_gib") if multimodal else 0.0,
        "unified": memory_constant("unified_gib") if start.unified else 0.0,
    }
