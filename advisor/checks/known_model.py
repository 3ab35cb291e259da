"""From the files of a model to what rules may look at; pure, so that examples need no folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.checks import traits
from advisor.checks.subject import KnownModel
from profiles.catalog.architecture import shape_of
from profiles.catalog.heads import head_method, head_shape
from profiles.catalog.shapes import ModelShape
from profiles.errors import InputError

_SPECIAL = ("bos_token_id", "eos_token_id", "unk_token_id")


def facts_of(
    reference: str, files: Mapping[str, Mapping[str, Any]], shape: ModelShape | None = None, problem: str | None = None
) -> KnownModel:
    """Facts of one model.

    Args:
        reference: as the config names it.
        files: `config`, `generation`, `tokenizer`, `quantization`: contents of the JSON files that are at hand.
        shape: where it is known already; else it is counted from the config, or taken from the catalog.
        problem: why the model could not be found.
    """
    config = dict(files.get("config", {}))
    if "quantization_config" not in config and files.get("quantization"):
        config["quantization_config"] = files["quantization"]
    if shape is None and config:
        shape = _counted(reference, config)
    if shape is None and not config:
        shape = traits.catalogued(reference)
    tokenizer = files.get("tokenizer", {})
    special = {name: value for name in _SPECIAL if (value := config.get(name)) is not None}
    special |= {name: tokenizer[name] for name in ("bos_token", "eos_token", "unk_token") if tokenizer.get(name)}
    return KnownModel(
        reference=reference,
        shape=shape,
        config=config,
        generation=dict(files.get("generation", {})),
        special_ids=special,
        problem=None if shape is not None or config else problem,
    )


def _counted(reference: str, config: Mapping[str, Any]) -> ModelShape | None:
    """The shape of a config; None where it leaves out what counting needs (rules then read the config itself)."""
    method = head_method(config)
    try:
        if method is not None:
            return head_shape(config, method, model_id=reference, where="config.json")
        return shape_of(config, model_id=reference, where="config.json")
    except InputError:
        return None
