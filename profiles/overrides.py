"""What a deployment states of its GPU and models itself: over the catalog's facts, or instead of them."""

from __future__ import annotations

from profiles.catalog.gpus import Gpu, find_gpu
from profiles.catalog.shapes import AttentionGroup, ModelShape
from profiles.deployment import Hardware
from profiles.errors import InputError
from profiles.model_ref import ModelFacts
from profiles.schema import Source

_GPU_NEEDS = ("memory_gib", "memory_bandwidth_gbs", "dense_tflops")
_MODEL_NEEDS = ("params_b", "num_layers", "hidden_size", "kv_heads", "head_dim", "vocab_size")


def gpu_of(name: str, stated: Hardware) -> Gpu:
    """The accelerator by its name, with what the deployment states over the catalog's facts.

    An accelerator the catalog has not is one where memory, bandwidth and rates are all stated.

    Raises:
        InputError: the name is unknown and a fact is missing; the sentence says which.
    """
    own = {
        key: value
        for key, value in (
            ("memory_gib", stated.memory_gib),
            ("memory_bandwidth_gbs", stated.memory_bandwidth_gbs),
            ("link_gbs", stated.link_gbs),
            ("nvlink_gbs", stated.link_gbs),
        )
        if value is not None
    }
    rates: dict[str, float | None] = {str(name): rate for name, rate in stated.dense_tflops.items()}
    try:
        known = find_gpu(name)
    except InputError as error:
        lacking = [key for key in _GPU_NEEDS if not getattr(stated, key)]
        if len(lacking) == len(_GPU_NEEDS):
            raise
        if lacking:
            fields = ", ".join(f"hardware.{key}" for key in lacking)
            raise InputError(f"{str(error).rstrip('.')}; to use it from your own figures state {fields} too") from None
        return Gpu.model_validate(
            {
                "name": name.strip(),
                "vendor": "nvidia",
                "architecture": "unknown",
                "dense_tflops": rates,
                "link": "as stated",
                "sources": {"all": "stated in the deployment"},
                "check": "unsure",
                "notes": (f"{name.strip()!r} is not in the catalog: its facts are the deployment's",),
                **own,
            }
        )
    said = [*(key for key in own if key != "nvlink_gbs"), *(["dense_tflops"] if rates else [])]
    if not said:
        return known
    note = f"stated in the deployment instead of the catalog's: {', '.join(said)}"
    merged = {**known.dense_tflops, **rates}
    return known.model_copy(update={**own, "dense_tflops": merged, "notes": (*known.notes, note)})


def shape_of_facts(model_id: str, facts: ModelFacts, known: ModelShape | None) -> ModelShape:
    """A model's shape with the stated facts over what was found, or made of them alone.

    Raises:
        InputError: nothing was found and a fact is missing; the sentence says which.
    """
    if known is None:
        return _from_facts(model_id, facts)
    update: dict[str, object] = {
        key: value
        for key in ("num_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size",
                    "bits_per_weight", "max_position_embeddings")
        if (value := getattr(facts, key)) is not None
    }  # fmt: skip
    if facts.params_b is not None:
        update["params"] = round(facts.params_b * 1e9)
        share = known.active_params / max(1, known.params)
        update["active_params"] = round(facts.params_b * 1e9 * share)
    if facts.active_params_b is not None:
        update["active_params"] = round(facts.active_params_b * 1e9)
    if facts.params_b is not None or facts.bits_per_weight is not None:
        # Bytes read from headers are of the checkpoint that was found, not of the one stated.
        update["weight_bytes"] = None
    if facts.kv_heads is not None or facts.head_dim is not None or facts.num_layers is not None:
        update["attention"] = _attention(known, facts)
    note = f"stated in the deployment: {', '.join(sorted(facts.model_dump(exclude_none=True)))}"
    return known.model_copy(update={**update, "origin": f"{known.origin}; {note}"})


def _attention(known: ModelShape, facts: ModelFacts) -> tuple[AttentionGroup, ...]:
    """Stated heads hold for every layer with keys and values; a stated depth for a model of one kind of layer."""
    changed = {
        key: value for key, value in (("kv_heads", facts.kv_heads), ("head_dim", facts.head_dim)) if value is not None
    }
    groups = [group if group.kind == "linear" else group.model_copy(update=changed) for group in known.attention]
    if facts.num_layers is not None:
        if len(groups) != 1:
            raise InputError(
                f"facts.num_layers is stated for {known.id}, whose layers are of {len(groups)} kinds: expected a model "
                "of one kind; leave num_layers out, or name a folder with its config.json"
            )
        groups = [groups[0].model_copy(update={"layers": facts.num_layers})]
    return tuple(groups)


def _from_facts(model_id: str, facts: ModelFacts) -> ModelShape:
    lacking = [key for key in _MODEL_NEEDS if getattr(facts, key) is None]
    if lacking:
        raise InputError(
            f"model {model_id!r} was not found, and its stated facts lack {', '.join(lacking)}: expected "
            f"{', '.join(_MODEL_NEEDS)}; state them, or name a folder with its config.json"
        )
    assert facts.params_b is not None  # noqa: S101 - looked at above, as are the next ones
    assert facts.num_layers is not None  # noqa: S101
    assert facts.hidden_size is not None  # noqa: S101
    assert facts.kv_heads is not None  # noqa: S101
    assert facts.head_dim is not None  # noqa: S101
    assert facts.vocab_size is not None  # noqa: S101
    params = round(facts.params_b * 1e9)
    table = facts.vocab_size * facts.hidden_size
    heads = facts.num_attention_heads or max(1, facts.hidden_size // facts.head_dim)
    group = AttentionGroup(kind="full", layers=facts.num_layers, kv_heads=facts.kv_heads, head_dim=facts.head_dim)
    active = round(facts.active_params_b * 1e9) if facts.active_params_b is not None else max(1, params - table)
    return ModelShape(
        id=model_id,
        params=params,
        active_params=min(params, active),
        embedding_params=min(table, params),
        num_layers=facts.num_layers,
        hidden_size=facts.hidden_size,
        num_attention_heads=heads,
        intermediate_size=facts.intermediate_size or 3 * facts.hidden_size,
        vocab_size=facts.vocab_size,
        attention=(group,),
        bits_per_weight=facts.bits_per_weight or 16.0,
        max_position_embeddings=facts.max_position_embeddings,
        source=Source.ASSUMED,
        origin="stated in the deployment: full attention in every layer is taken",
    )
