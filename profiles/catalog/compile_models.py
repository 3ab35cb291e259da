"""Compiles `models.yaml` and `heads.yaml`: config keys to shapes, listed totals where they say more than the shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiles.catalog.architecture import Count, count_parameters, shape_of
from profiles.catalog.heads import head_shape
from profiles.catalog.models import DraftHead
from profiles.catalog.shapes import ModelShape, MoEShape, TokenizerFingerprint
from profiles.schema import Source

AGREE = 0.05
"""Relative difference up to which a listed total and the one counted from the shape are the same model."""


def model_config(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry's config keys, its attention pattern written out layer by layer."""
    config = dict(entry["config"])
    if entry.get("quantization_config"):
        config["quantization_config"] = entry["quantization_config"]
    pattern = entry.get("attention_pattern")
    if pattern:
        config["layer_types"] = [pattern[number % len(pattern)] for number in range(config["num_hidden_layers"])]
    return config


def _parameters(entry: Mapping[str, Any], count: Count) -> int:
    """Stored parameters without MTP layers: listed or counted, as the entry says.

    A listed total nearer to shape + MTP than to the shape alone includes the MTP layers.
    """
    if entry["params"] == "shape":
        return count.total
    listed = round(float(entry["listed"]["params_b"]) * 1e9)
    with_mtp = count.total + count.mtp
    if count.mtp and abs(listed - with_mtp) < abs(listed - count.total):
        return listed - count.mtp
    return listed


def _active(entry: Mapping[str, Any], shape: ModelShape, params: int, count: Count) -> int:
    """Parameters one token multiplies with: the shape's where it can be trusted, else nominal, else all that is read.

    A dense checkpoint with more in it than the language model's shape (vision tower, tables that are only looked up)
    reads what the shape says; one with less is not what the shape says, and all of it is read.
    """
    nominal = round(float(entry["active"]["params_b"]) * 1e9) if entry.get("active") else None
    agrees = abs(params - count.total) <= AGREE * params
    if nominal is not None and not (agrees and 0.7 <= shape.active_params / nominal <= 1.45):
        return nominal
    if agrees or (count.total < params and not _incomplete(entry)):
        return shape.active_params
    return params - (0 if shape.tie_word_embeddings else count.embedding)


def _incomplete(entry: Mapping[str, Any]) -> bool:
    """Linear layers whose sizes nobody read: the count lacks them."""
    config = entry["config"]
    return "full_attention_interval" in config and "linear_num_value_heads" not in config


def _experts_that_fit(shape: ModelShape, params: int, count: Count) -> MoEShape | None:
    """Where count and listed total disagree (latent experts, unread widths), experts get what the rest leaves over."""
    moe = shape.moe
    if moe is None:
        return None
    left = max(0, params - (count.total - count.experts))
    agrees = abs(params - count.total) <= AGREE * params
    routed = min(count.experts, left) if agrees else left
    return moe.model_copy(update={"expert_params": routed // (moe.moe_layers * moe.num_experts)})


def compile_model(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One model: its shape as `ModelShape` fields, and the other checkpoints that share it."""
    config, where = model_config(entry), f"catalog entry {entry['id']}"
    count = count_parameters(config, where)
    unread_attention = entry.get("attention_read") is False
    doubt = "attention kind not read: taken as the config says, else full in every layer" if unread_attention else ""
    origin = f"catalog ({entry['check']}{': ' + doubt if doubt else ''}), from {entry['sources'][0]}"
    family = entry["tokenizer"]
    shape = shape_of(
        config,
        model_id=entry["id"],
        where=where,
        origin=origin,
        source=Source.ASSUMED if unread_attention else Source.RECORDED,
        tokenizer=TokenizerFingerprint(vocab_size=config["vocab_size"], family=family) if family else None,
    )
    params = _parameters(entry, count)
    shape = shape.model_copy(
        update={
            "params": params,
            "active_params": min(params, _active(entry, shape, params, count)),
            "moe": _experts_that_fit(shape, params, count),
        }
    )
    return {"shape": shape.model_dump(mode="json", exclude_defaults=True), "also": entry.get("also", [])}


_LAYERS = {"dflash": 5, "dspark": 5, "dflare": 5}
"""Layers of a head whose config was not read: what the published ones of that method have most often."""


def _head_from(target: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Config keys of a head that nobody published: one plain layer of the target's width (several for block heads)."""
    heads = target["num_attention_heads"]
    return {
        "model_type": "llama",
        "hidden_size": target["hidden_size"],
        "num_hidden_layers": _LAYERS.get(method, 1),
        "num_attention_heads": heads,
        "num_key_value_heads": min(heads, target["num_key_value_heads"]),
        "head_dim": target.get("head_dim") or target["hidden_size"] // heads,
        "intermediate_size": target.get("intermediate_size") or 3 * target["hidden_size"],
        "vocab_size": target["vocab_size"],
        "tie_word_embeddings": False,
    }


def _head_shape(entry: Mapping[str, Any], target: Mapping[str, Any] | None) -> tuple[ModelShape | None, str]:
    """The head's shape, and whether it is the published one (config) or made after the target's."""
    method, config = entry["method"], dict(entry.get("config") or {})
    needed = {"hidden_size", "vocab_size"}
    if method != "medusa":
        needed |= {"num_hidden_layers", "num_attention_heads"}
    made_up = not needed <= set(config)
    if made_up and target is None:
        return None, "unknown"
    if made_up and target is not None:
        config = {**_head_from(target, method), **config}
    said = "shape after the target's" if made_up else "published shape"
    sure = not made_up and entry["check"] == "ok"
    shape = head_shape(
        config,
        method,
        model_id=entry["id"],
        where=f"catalog entry {entry['id']}",
        source=Source.RECORDED if sure else Source.ASSUMED,
        origin=f"catalog ({entry['check']}; {said})",
    )
    return shape, "target" if made_up else "config"


def compile_models(models: Sequence[Mapping[str, Any]], heads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Both sources as one document: `models` (shape, also) and `heads` (fields of `DraftHead`)."""
    by_id = {name: entry for entry in models for name in (entry["id"], *entry.get("also", ()))}
    compiled_heads = []
    for entry in heads:
        target = next((by_id[name]["config"] for name in entry["targets"] if name in by_id), None)
        shape, origin = _head_shape(entry, target)
        head = DraftHead.model_validate(
            {
                "id": entry["id"],
                "method": entry["method"],
                "settings": entry.get("settings", {}),
                "targets": entry["targets"],
                "shape": shape,
                "shape_from": origin,
                "sources": entry["sources"],
                "check": entry["check"],
                "note": entry.get("note", ""),
            }
        )
        compiled_heads.append(head.model_dump(mode="json", exclude_defaults=True))
    return {"models": [compile_model(entry) for entry in models], "heads": compiled_heads}
