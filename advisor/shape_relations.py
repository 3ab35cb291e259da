"""What two shapes have to do with each other: the same tokens, the same build."""

from __future__ import annotations

from profiles.catalog.models import find_model
from profiles.catalog.shapes import ModelShape, TokenizerFingerprint


def tokenizer_of(shape: ModelShape, name: str | None = None) -> TokenizerFingerprint | None:
    """Its own fingerprint, with the family the catalog knows where the files do not say one."""
    known = find_model(name or shape.id)
    catalogued = known.tokenizer if known is not None else None
    if shape.tokenizer is None or catalogued is None or shape.tokenizer.family is not None:
        return shape.tokenizer or catalogued
    return shape.tokenizer.model_copy(update={"family": catalogued.family})


def other_tokens(
    draft: str, one: TokenizerFingerprint | None, target: str, other: TokenizerFingerprint | None
) -> str | None:
    """Equal sizes with different tokens: the engine starts, and every draft is nonsense."""
    if one is None or other is None:
        return None
    if one.vocab_hash is not None and other.vocab_hash is not None:
        differ = one.vocab_hash != other.vocab_hash
    else:
        differ = one.family is not None and other.family is not None and one.family != other.family
    return f"{draft} and {target} have vocabularies of one size but with different tokens" if differ else None


def same_build(one: ModelShape, other: ModelShape) -> bool:
    return (one.hidden_size, one.num_layers, one.vocab_size) == (other.hidden_size, other.num_layers, other.vocab_size)
