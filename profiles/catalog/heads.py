"""Trained draft heads: telling one from a whole model, and the shape of one from its config.json.

A head works on the target's hidden states and usually shares its embedding table and output head. `params` are the
weights it brings itself; `active_params` also count the shared output head, which every draft pass multiplies with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from profiles.catalog.architecture import shape_of
from profiles.catalog.layers import Fields
from profiles.catalog.mixers import text_config
from profiles.catalog.shapes import ModelShape
from profiles.schema import Source

# Width of the input projection in target widths: EAGLE joins embedding and last hidden state; EAGLE-3 and the
# block-diffusion heads join three layers' hidden states.
_JOINED = {"eagle": 2, "eagle3": 3, "dflash": 3, "dspark": 3, "dflare": 3}
_HEAD_TYPES = {"medusa": "medusa", "mlp_speculator": "mlp_speculator", "eagle": "eagle", "eagle3": "eagle3"}
_MARKS = (
    ("eagle3", "eagle3"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("eagle", "eagle"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
)


def head_method(config: Mapping[str, Any], tensor_names: Collection[str] = ()) -> str | None:
    """The method a head's config (and, where its class is a plain model's, its tensors) belong to; None for a model."""
    speculators = config.get("speculators_model_type")
    model_type = config.get("model_type")
    for value in (speculators, model_type):
        if isinstance(value, str) and value.lower().replace("-", "") in _HEAD_TYPES:
            return _HEAD_TYPES[value.lower().replace("-", "")]
    architectures = config.get("architectures")
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    joined = " ".join([*names, str(speculators or "")]).lower().replace("_", "")
    for mark, method in _MARKS:
        if mark in joined:
            return method
    if config.get("draft_vocab_size") is not None or config.get("eagle_config") is not None:
        return "eagle3"
    if config.get("dflash_config") is not None:
        return "dflash"
    if any(name in ("fc.weight", "model.fc.weight", "midlayer.self_attn.q_proj.weight") for name in tensor_names):
        # The first EAGLE heads call themselves plain one-layer Llamas; the projection gives them away.
        return "eagle3" if "d2t" in tensor_names or "midlayer.self_attn.q_proj.weight" in tensor_names else "eagle"
    return None


def head_shape(
    config: Mapping[str, Any],
    method: str,
    *,
    model_id: str,
    where: str,
    revision: str | None = None,
    config_hash: str | None = None,
    origin: str = "",
    source: Source = Source.RECORDED,
) -> ModelShape:
    """The shape of a head.

    Raises:
        InputError: a needed key is missing or of the wrong kind; the sentence names it.
    """
    if method in ("medusa", "mlp_speculator"):
        return _without_attention(config, method, model_id, where, revision, config_hash, origin, source)
    shape = shape_of(
        config, model_id=model_id, where=where, revision=revision, config_hash=config_hash, origin=origin, source=source
    )
    fields = Fields(text_config(config), where)
    width, hidden = shape.hidden_size, fields.integer("target_hidden_size", default=shape.hidden_size)
    tables = shape.embedding_params * (1 if shape.tie_word_embeddings else 2)
    own_vocabulary = shape.draft_vocab_size
    own_head = own_vocabulary * width if own_vocabulary else 0
    own = shape.params - tables + _JOINED.get(method, 2) * hidden * width + own_head
    if method == "eagle3":
        # Its attention reads embedding and hidden state side by side: the three input projections are twice as wide.
        group = next((group for group in shape.attention if group.kind in ("full", "sliding")), None)
        own += width * group.head_dim * (shape.num_attention_heads + 2 * group.kv_heads) if group else 0
    active = own - own_head + (own_vocabulary or shape.vocab_size) * width
    return shape.model_copy(update={"params": own, "active_params": active, "embedding_params": 0})


def _without_attention(
    config: Mapping[str, Any],
    method: str,
    model_id: str,
    where: str,
    revision: str | None,
    config_hash: str | None,
    origin: str,
    source: Source,
) -> ModelShape:
    """Medusa: each head is residual blocks and an output head of its own. MLP speculator: a network a position."""
    fields = Fields(config, where)
    vocabulary = fields.integer("vocab_size", least=1)
    if method == "medusa":
        width = fields.integer("hidden_size", least=1)
        heads = fields.integer("medusa_num_heads", "num_heads", default=4)
        blocks = fields.integer("medusa_num_layers", "num_hidden_layers", default=1)
        own = heads * (blocks * width * width + vocabulary * width)
    else:
        width = fields.integer("emb_dim", "hidden_size", least=1)
        inner = fields.integer("inner_dim", default=width) or width
        heads = fields.integer("n_predict", "num_lookahead_tokens", default=1)
        blocks = 1
        own = heads * (2 * vocabulary * inner + inner * inner) + width * inner
    dtype = config.get("dtype", config.get("torch_dtype"))
    return ModelShape(
        id=model_id,
        revision=revision,
        config_hash=config_hash,
        architectures=fields.strings("architectures") or (),
        model_type=method,
        params=own,
        active_params=own,
        num_layers=blocks,
        hidden_size=width,
        num_attention_heads=1,
        vocab_size=vocabulary,
        attention=(),
        dtype=dtype if isinstance(dtype, str) else "bfloat16",
        source=source,
        origin=origin,
    )
