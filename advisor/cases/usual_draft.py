"""The draft model that is most likely meant where nobody names one."""

from __future__ import annotations

import math
from functools import lru_cache

from profiles.catalog.models import catalog_ids, find_model
from profiles.catalog.shapes import ModelShape

_PADDING = 128
"""Tokens that vocabularies of one tokenizer differ by in what they are padded to (vllm-project/vllm pull request 13849,
of Qwen2.5's)."""
_NEAR_SIZE = math.log(3.0)
"""How far a model's size may be off the usual one for it to be taken."""


@lru_cache(maxsize=1024)
def usual_draft(vocabulary: float, params: float) -> ModelShape | None:
    """The catalog's dense model with the target's vocabulary that is nearest to the usual size of a draft (`params`,
    a count). None where none is within a factor of three of it.

    Engines refuse a draft of another vocabulary (`verify_equal_vocab_size_if_draft_model` in vLLM's
    config/speculative.py; SGLang's since its pull request 23838), so few models can be meant, and those have layers of
    their own number: 1.24 B beside a Llama 3 are 16, 0.5 and 0.6 B beside a Qwen 24 and 28.
    """
    near = [
        (abs(math.log(shape.params / params)), shape.id, shape)
        for shape in _dense_shapes() if abs(shape.vocab_size - vocabulary) <= _PADDING
    ]
    off, _, nearest = min(near, default=(math.inf, "", None))
    return nearest if off <= _NEAR_SIZE else None


@lru_cache(maxsize=1)
def _dense_shapes() -> tuple[ModelShape, ...]:
    known = (find_model(name) for name in catalog_ids())
    return tuple(shape for shape in known if shape is not None and shape.moe is None)
