"""What rules ask of a model, read from its config.json where there is one, else from the catalog's shape.

Every function answers None (or False) where nothing is known: a rule then says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from advisor.checks.subject import KnownModel, Subject
from profiles.catalog.heads import head_method
from profiles.catalog.models import find_head, find_model
from profiles.catalog.mtp import mtp_family, refused_mtp, stated_layers
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.methods import full_settings

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_VISION = ("vision_config", "audio_config", "vision_tower_config", "visual", "mm_vision_tower")
_LINEAR_LAYERS = frozenset({"linear_attention", "mamba", "mamba2", "gdn", "kda", "recurrent"})
_LINEAR_KEYS = ("linear_num_key_heads", "mamba_num_heads", "mamba_d_state", "mamba_n_heads", "ssm_state_size",
                "linear_conv_kernel_dim", "hybrid_override_pattern")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
            "max_target_positions", "max_sequence_length")


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's own part of a multimodal config, laid over the outer one."""
    for name in (*_NESTED, "model"):
        inner = config.get(name)
        if isinstance(inner, Mapping) and ("hidden_size" in inner or "num_hidden_layers" in inner):
            return {**{key: value for key, value in config.items() if not isinstance(value, Mapping)}, **inner}
    return config


def architectures(model: KnownModel | None) -> tuple[str, ...]:
    """Class names, as the config or the catalog has them."""
    if model is None:
        return ()
    named = model.config.get("architectures")
    if isinstance(named, list):
        return tuple(str(name) for name in named)
    return model.shape.architectures if model.shape is not None else ()


def model_type(model: KnownModel | None) -> str:
    """model_type of the language model; empty where unknown."""
    if model is None:
        return ""
    found = text_part(model.config).get("model_type")
    if isinstance(found, str) and found:
        return found
    return model.shape.model_type if model.shape is not None else ""


def is_multimodal(model: KnownModel | None) -> bool:
    """Whether it takes images, audio or video."""
    return model is not None and any(isinstance(model.config.get(name), Mapping) for name in _VISION)


def uses_mrope(model: KnownModel | None) -> bool:
    """Whether positions are three-dimensional."""
    if model is None:
        return False
    return any("mrope_section" in rope for rope in _ropes(text_part(model.config)))


def is_hybrid(model: KnownModel | None) -> bool:
    """Whether some layers keep a recurrent state instead of KV: Mamba, gated DeltaNet and their kin."""
    if model is None:
        return False
    if model.shape is not None and any(group.kind == "linear" for group in model.shape.attention):
        return True
    text = text_part(model.config)
    layers = text.get("layer_types")
    if isinstance(layers, list) and any(str(layer) in _LINEAR_LAYERS for layer in layers):
        return True
    return any(text.get(key) is not None for key in _LINEAR_KEYS)


def mixes_windows(model: KnownModel | None) -> bool:
    """Whether some layers see a sliding window only and others the whole text."""
    named = text_part(model.config).get("layer_types") if model is not None else None
    return isinstance(named, list) and {"sliding_attention", "full_attention"} <= {str(layer) for layer in named}


def experts(model: KnownModel | None) -> int:
    """Routed experts of a layer; 0 for a dense model."""
    if model is None:
        return 0
    if model.shape is not None and model.shape.moe is not None:
        return model.shape.moe.num_experts
    text = text_part(model.config)
    found = [text[name] for name in _EXPERTS if isinstance(text.get(name), int)]
    return max(found, default=0) if max(found, default=0) > 1 else 0


def quantization(model: KnownModel | None) -> Mapping[str, Any]:
    """quantization_config; empty where there is none."""
    if model is None:
        return {}
    for part in (model.config, text_part(model.config)):
        for name in ("quantization_config", "compression_config"):
            found = part.get(name)
            if isinstance(found, Mapping):
                return found
    return {}


def is_quantized(model: KnownModel | None) -> bool:
    """Whether the weights are stored in fewer bits than computed in."""
    return bool(quantization(model)) or bool(model and model.shape is not None and model.shape.quantization)


def vocab_size(model: KnownModel | None) -> int | None:
    """Rows of the embedding table, which is what vLLM compares."""
    if model is None:
        return None
    found = text_part(model.config).get("vocab_size")
    if isinstance(found, int):
        return found
    return model.shape.vocab_size if model.shape is not None and model.shape.vocab_size else None


def hidden_size(model: KnownModel | None) -> int | None:
    """Width of the hidden states."""
    if model is None:
        return None
    found = text_part(model.config).get("hidden_size")
    if isinstance(found, int):
        return found
    return model.shape.hidden_size if model.shape is not None and model.shape.hidden_size else None


def attention_heads(model: KnownModel | None) -> int | None:
    """Query heads of a layer."""
    if model is None:
        return None
    found = text_part(model.config).get("num_attention_heads")
    if isinstance(found, int):
        return found
    return model.shape.num_attention_heads if model.shape is not None and model.shape.num_attention_heads else None


def layers(model: KnownModel | None) -> int | None:
    """Decoder layers."""
    if model is None:
        return None
    found = text_part(model.config).get("num_hidden_layers")
    if isinstance(found, int):
        return found
    return model.shape.num_layers if model.shape is not None and model.shape.num_layers else None


def mtp_layers(model: KnownModel | None) -> int | None:
    """Multi-token-prediction layers in the checkpoint; None where the model is not known."""
    if model is None or (model.shape is None and not model.config):
        return None
    family, stated = mtp_family(_model_types(model), architectures(model)), _stated_mtp(model)
    if family is None:
        # No release serves them, whatever the config states; a type nobody knows is believed.
        return (stated or 0) if not any(_model_types(model)) else 0
    return family.layers(stated)


def mtp_refusal(model: KnownModel | None, release: Release) -> str | None:
    """Why the release runs no MTP layers of this target, without a full stop; None where it does or nobody knows."""
    if model is None:
        return None
    return refused_mtp(release, _model_types(model), architectures(model), stated=_stated_mtp(model), name="the target")


def _stated_mtp(model: KnownModel) -> int | None:
    parts = [text_part(model.config), model.config]
    family = mtp_family(_model_types(model), architectures(model))
    if family is not None and family.states_in is not None:
        own = model.config.get(family.states_in)
        parts = [own] if isinstance(own, Mapping) else []
    found = next((count for count in map(stated_layers, parts) if count is not None), None)
    return (model.shape.mtp_layers or None) if found is None and model.shape is not None else found


def _model_types(model: KnownModel) -> tuple[str, ...]:
    outer = model.config.get("model_type")
    return (outer if isinstance(outer, str) else "", model_type(model))


def window(model: KnownModel | None, overrides: Mapping[str, Any] | None = None) -> int | None:
    """Tokens the model takes: its positions, stretched by rope scaling as vLLM does it. None where nothing says so.

    `overrides` are `hf-overrides` laid over the config.
    """
    if model is None:
        return None
    text: Mapping[str, Any] = text_part(model.config)
    if overrides:
        text = {**text, **overrides}
        inner = overrides.get("text_config")
        if isinstance(inner, Mapping):
            text = {**text, **inner}
    found = [text[name] for name in _LENGTHS if isinstance(text.get(name), int) and text[name] > 0]
    length = min(found, default=None)
    if length is None:
        length = model.shape.max_position_embeddings if model.shape is not None else None
    if length is None:
        return None
    for rope in _ropes(text):
        kind = str(rope.get("rope_type", rope.get("type", "")))
        factor = rope.get("factor")
        if kind in ("", "default", "llama3", "longrope", "su", "mrope") or not isinstance(factor, (int, float)):
            continue
        original = rope.get("original_max_position_embeddings")
        length = int(float(original if kind == "yarn" and isinstance(original, int) else length) * float(factor))
    return length


def _ropes(text: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("rope_scaling", "rope_parameters"):
        rope = text.get(name)
        if isinstance(rope, Mapping):
            yield rope
            yield from (inner for inner in rope.values() if isinstance(inner, Mapping))


def rope_base(model: KnownModel | None) -> float | None:
    """rope_theta, where the config says one."""
    if model is None:
        return None
    text = text_part(model.config)
    found = text.get("rope_theta")
    if found is None:
        found = next((rope["rope_theta"] for rope in _ropes(text) if "rope_theta" in rope), None)
    return float(found) if isinstance(found, (int, float)) else None


# --- heads --------------------------------------------------------------------------------------------------------
def ids(reference: str) -> Iterator[str]:
    """Hub ids a reference may stand for: itself, and what folders made from ids look like (`org__name`,
    `models--org--name`)."""
    yield reference
    last = reference.rstrip("/").rsplit("/", 1)[-1]
    for separator in ("__", "--"):
        parts = last.removeprefix("models--").split(separator)
        if len(parts) == 2:
            yield "/".join(parts)


def catalogued(reference: str) -> ModelShape | None:
    """The catalog's shape of a model, whichever way its folder is called."""
    return next((shape for shape in map(find_model, ids(reference)) if shape is not None), None)


def head_of(model: KnownModel | None) -> str | None:
    """Method of a draft head, by its config, by the catalog, or by a name that says so; None for an ordinary model."""
    if model is None:
        return None
    found = head_method(model.config) if model.config else None
    if found is not None:
        return found
    for name in ids(model.reference):
        entry = find_head(name)
        if entry is not None:
            return entry.method
    last = model.reference.rstrip("/").rsplit("/", 1)[-1].lower()
    shallow = layers(model)
    for mark, method in (("eagle3", "eagle3"), ("eagle-", "eagle"), ("dflash", "dflash"), ("dspark", "dspark"),
                         ("medusa", "medusa")):
        if mark in last and (shallow is None or shallow < 12):
            return method
    return None


def matched_share(subject: Subject) -> float | None:
    """Share of the steps for which this very lookup found a draft, as a trial measured it, else as a replay of recorded
    outputs gave it; None where neither did."""
    speculation = subject.speculation
    if speculation is None:
        return None
    trials = [evidence.trial for evidence in subject.evidence if evidence.trial is not None]
    requests = [request for trial in trials for arm in trial.arms if arm.candidate.method == speculation.method
                and _same_settings(speculation.method, arm.candidate.settings, speculation.settings)
                for request in arm.requests if request.drafted and request.steps]
    if requests:
        return sum(request.drafted[0] for request in requests) / sum(request.steps for request in requests)
    task = subject.workload.task if subject.workload is not None else None
    for evidence in reversed(subject.evidence):
        for curve in evidence.replay.curves if evidence.replay is not None else ():
            own = next((points for name, points in curve.by_task.items() if name.value == task and points), curve.by_k)
            if own and curve.method == speculation.method and _same_settings(
                    speculation.method, curve.settings, speculation.settings):
                # Of the deepest k, as the advice takes it: the share hardly depends on k.
                return own[-1].matched_share.value
    return None


def _same_settings(name: str, stated: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether two ways to look up find the same drafts, defaults written out."""
    one = full_settings(name, stated)
    return one == full_settings(name, {key: asked[key] for key in one if key in asked})
