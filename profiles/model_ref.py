"""The name of a model, an id on the hub or a folder, and what the user knows of its shape."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from profiles.schema import Schema, TokenLimit, number

Billions = Annotated[float, Field(gt=0, le=10**5), number]
"""Parameters in 10^9."""
Width = Annotated[int, Field(ge=1, le=10**8), number]
"""A dimension of a model."""


class ModelFacts(Schema):
    """What you know of a model: over what was found of it, or instead where nobody knows it. Left out is taken as
    found; a model found nowhere needs params_b, num_layers, hidden_size, kv_heads, head_dim and vocab_size."""

    params_b: Billions | None = None
    """Parameters, in 10^9."""
    active_params_b: Billions | None = None
    """Parameters one token multiplies with (mixtures of experts), in 10^9."""
    bits_per_weight: Annotated[float, Field(gt=0, le=64), number] | None = None
    """Mean bits a stored parameter takes, scales included."""
    num_layers: Width | None = None
    hidden_size: Width | None = None
    num_attention_heads: Width | None = None
    kv_heads: Width | None = None
    """Key/value heads of a layer."""
    head_dim: Width | None = None
    intermediate_size: Width | None = None
    vocab_size: Width | None = None
    max_position_embeddings: TokenLimit | None = None
    """Longest request the model was trained for, tokens."""


class ModelRef(Schema):
    """A model: an HF id or a folder. A plain string is taken as `id`."""

    id: str = Field(min_length=1)
    """HF id (org/name) or a folder with config.json; a relative folder is relative to the deployment file."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""
    facts: ModelFacts | None = None
    """What you know of its shape better than its files or the catalog."""

    @model_validator(mode="before")
    @classmethod
    def _string_is_id(cls, value: object) -> object:
        return {"id": value} if isinstance(value, str) else value
