"""How vLLM cuts its KV memory into blocks, and how many tokens and requests that leaves.

One pool serves all layers of target and draft. Layers that need the same token slots form one group; a hybrid model has
several, of equally many layers, and every group takes blocks of its own from the pool: a sliding group stops taking
them at its window, a state layer takes one (and one for each speculated token). Rules as read in vLLM 0.32
(v1/core/kv_cache_utils.py, v1/kv_cache_interface.py, platforms/interface.py), compared with start-up lines of 0.9 to
0.25 (docs/accuracy-memory.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from advisor.cost.shape_bytes import group_kv_bytes_per_token, kv_element_bytes
from profiles.catalog.shapes import AttentionKind, ModelShape

BLOCK_TOKENS = 16
"""Tokens of a block where nobody states a block size."""
_MLA_BLOCK = 128
"""Beside state layers, MLA's kernels need blocks of a multiple of this."""
_UNEVEN = 1.5
"""Up to this ratio of layer counts the smaller kind is padded to the larger, instead of the larger being split."""


@dataclass(frozen=True)
class PoolLayers:
    """Layers of one kind that the pool holds, on one GPU."""

    kind: AttentionKind
    layers: int
    bytes_per_token: float
    """KV of one token in ONE of the layers; 0 for state layers."""
    window: int | None = None
    state_bytes: int = 0
    """What a state layer keeps a request (0 for the others)."""


@dataclass(frozen=True)
class PoolGroup:
    """Layers that share a block table."""

    kind: AttentionKind
    tables: int
    """Block tables of this kind: each takes blocks of its own."""
    block_tokens: int
    window: int | None = None

    def blocks(self, tokens: int, step_tokens: int, state_blocks: int) -> int:
        """Blocks that a request of `tokens` holds at most in all tables of the group."""
        if self.kind == "linear":
            return self.tables * state_blocks
        if self.window is None:
            return self.tables * _ceil(tokens, self.block_tokens)
        # Tokens of the running step stay until it is settled, and a window seldom starts at a block's first token.
        held = min(self.window - 1 + step_tokens, tokens)
        return self.tables * (_ceil(held, self.block_tokens) + 1)


@dataclass(frozen=True)
class Pool:
    """The pool's cut. `groups` is empty for a model that keeps nothing."""

    groups: tuple[PoolGroup, ...]
    bytes_per_block: int
    step_tokens: int
    """Most tokens of one step (max_num_batched_tokens)."""
    state_blocks: int
    """Blocks a state layer takes a request: its state, one for each speculated token, one more with prefix caching."""

    def block_count(self, available_bytes: float) -> int:
        """Blocks that fit in the memory left for KV."""
        return int(max(0.0, available_bytes) // self.bytes_per_block) if self.bytes_per_block else 0

    def blocks_per_request(self, tokens: float) -> int:
        """Blocks one request of so many tokens takes."""
        whole = max(1, math.ceil(tokens))
        return sum(group.blocks(whole, self.step_tokens, self.state_blocks) for group in self.groups)

    def concurrency(self, available_bytes: float, tokens: float) -> float | None:
        """Requests of `tokens` that fit at once; None for a model that keeps nothing."""
        needed = self.blocks_per_request(tokens)
        return self.block_count(available_bytes) / needed if needed else None

    def tokens(self, available_bytes: float, max_model_len: int, *, by_length: bool = True) -> int | None:
        """`GPU KV cache size: N tokens` as the start-up log has it; None for a model that keeps nothing.

        by_length: requests of max_model_len that fit times that length (since 0.20.1). Before, blocks of one table
        times its tokens, as if every table grew for ever.
        """
        if not self.groups or self.bytes_per_block <= 0:
            return None
        if by_length:
            found = self.concurrency(available_bytes, max_model_len)
            return None if found is None else int(found * max_model_len)
        tables = sum(group.tables for group in self.groups)
        slots = [group.block_tokens for group in self.groups if group.kind != "linear"]
        return self.block_count(available_bytes) // tables * min(slots) if slots else None

    def holds(self, available_bytes: float, tokens: int) -> bool:
        """Whether one request of `tokens` fits alone: what vLLM asks at start. One block is never handed out."""
        return not self.groups or self.blocks_per_request(tokens) <= self.block_count(available_bytes) - 1

    def longest_request(self, available_bytes: float, limit: int) -> int:
        """Longest request up to `limit` tokens that fits alone, 0 where not even one token does."""
        if not self.groups:
            return limit
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.holds(available_bytes, middle) else (low, middle - 1)
        return low


def pool_layers(
    shape: ModelShape, kv_cache_dtype: str = "auto", tensor_parallel: int = 1, speculated: int = 0
) -> tuple[PoolLayers, ...]:
    """A model's layers as the pool sees them on one GPU; `speculated` tokens widen the state of convolutions."""
    element = kv_element_bytes(shape, kv_cache_dtype)
    found = []
    for group in shape.attention:
        if group.kind == "linear":
            state = group.state_bytes + speculated * group.state_bytes_per_draft_token
            found.append(PoolLayers("linear", group.layers, 0.0, state_bytes=_ceil(state, tensor_parallel)))
            continue
        per_layer = group_kv_bytes_per_token(group.model_copy(update={"layers": 1}), element, tensor_parallel)
        found.append(PoolLayers(group.kind, group.layers, per_layer, window=group.window))
    return tuple(layers for layers in found if layers.layers > 0)


def cut_pool(
    layers: Iterable[PoolLayers],
    *,
    step_tokens: int,
    speculated: int = 0,
    prefix_caching: bool = True,
    block_tokens: int = BLOCK_TOKENS,
) -> Pool:
    """The pool for the layers of target and draft together.

    Args:
        layers: of both models, the target's first: its page decides the block size of a hybrid model.
        step_tokens: most tokens of one step.
        speculated: k; state layers keep a state for each.
        prefix_caching: state layers then keep one more block.
    """
    every = _merged(layers)
    state_blocks = 1 + speculated + (1 if prefix_caching else 0)
    if not every:
        return Pool((), 0, step_tokens, state_blocks)
    kinds = {("full" if one.kind == "mla" else one.kind, one.window) for one in every}
    if len(kinds) == 1 and every[0].kind != "linear":
        # One table for all: a block holds a page of every layer, whatever its width.
        page = sum(one.layers * one.bytes_per_token for one in every) * block_tokens
        group = PoolGroup(every[0].kind, 1, block_tokens, every[0].window)
        return Pool((group,), math.ceil(page), step_tokens, state_blocks)
    return _hybrid(every, block_tokens, step_tokens, state_blocks)


def _hybrid(every: Sequence[PoolLayers], block_tokens: int, step_tokens: int, state_blocks: int) -> Pool:
    """Several tables of equally many layers and equal pages."""
    states = [one.state_bytes for one in every if one.kind == "linear"]
    attention = [one for one in every if one.kind != "linear"]
    if states and attention:
        # The block grows until a page of attention holds a state.
        block_tokens = max(block_tokens, _MLA_BLOCK) if attention[0].kind == "mla" else block_tokens
        block_tokens = block_tokens * _ceil(max(states), attention[0].bytes_per_token * block_tokens)
    pages = [one.bytes_per_token * block_tokens for one in attention] + [float(state) for state in states]
    page = max(pages)
    fewest, most = min(one.layers for one in every), max(one.layers for one in every)
    together = most if most < fewest * _UNEVEN else fewest
    groups = []
    for one in every:
        own_page = one.bytes_per_token * block_tokens
        # A narrower layer gets longer blocks where its page divides the widest; else its page is padded.
        longer = int(page // own_page) if own_page and page % own_page == 0 else 1
        groups.append(PoolGroup(one.kind, _ceil(one.layers, together), block_tokens * longer, one.window))
    return Pool(tuple(groups), math.ceil(page * together), step_tokens, state_blocks)


def _merged(layers: Iterable[PoolLayers]) -> list[PoolLayers]:
    """Layers that differ in nothing but their number, put together (a draft built like its target)."""
    found: dict[PoolLayers, int] = {}
    for one in layers:
        key = replace(one, layers=0)
        found[key] = found.get(key, 0) + one.layers
    return [replace(key, layers=number) for key, number in found.items()]


def _ceil(value: float, by: float) -> int:
    return math.ceil(value / by)
