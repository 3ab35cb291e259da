"""A model reference to a model shape: a folder, the local Hugging Face cache, the catalog, the hub, in this order.

Reads config.json, safetensors headers and tokenizer files. Never loads weights, never runs a model's own code.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.checkpoint import Tensor, Weights, count_weights, has_weights, read_tensors
from probes.hub import HubError, Published, cache_folder, cached_snapshot, fetch, is_repo_id, offline_by_environment
from probes.tokenizer import fingerprint
from profiles.catalog.architecture import shape_of
from profiles.catalog.heads import head_method, head_shape
from profiles.catalog.mixers import text_config
from profiles.catalog.models import catalog_ids, find_model
from profiles.catalog.mtp import stated_layers
from profiles.catalog.shapes import ModelShape, TokenizerFingerprint
from profiles.errors import InputError, ModelNotFound
from profiles.mistakes import given
from profiles.model_ref import ModelRef

MAX_CONFIG_BYTES = 16 * 2**20
_HUB_ADDRESS = re.compile(r"^(?:https?://)?(?:www\.)?huggingface\.co/|^hf://")


def resolve_model(ref: ModelRef, base: Path, *, offline: bool = False) -> ModelShape:
    """The shape of a target or draft.

    Args:
        ref: an HF id or a folder, as the deployment names it.
        base: folder of the deployment file; relative folders are relative to it.
        offline: never ask the hub; also in force when HF_HUB_OFFLINE is set.

    Raises:
        ModelNotFound: nothing was found; the sentence says where was looked and what to do.
        InputError: config.json, a tokenizer file or a weights file was found and cannot be used, or stated facts are
            not enough for a model that was not found.
    """
    if ref.facts is None:
        return _resolve(ref, base, offline=offline)
    from profiles.overrides import shape_of_facts

    try:
        known = _resolve(ref, base, offline=offline)
    except ModelNotFound:
        known = None
    return shape_of_facts(ref.id, ref.facts, known)


def _resolve(ref: ModelRef, base: Path, *, offline: bool) -> ModelShape:
    """What files, the hub or the catalog say of a model."""
    folder = _folder(ref.id, base)
    if folder is not None:
        return _from_folder(ref, folder, f"folder {folder}")
    if _HUB_ADDRESS.match(ref.id):
        ref = ref.model_copy(update={"id": _HUB_ADDRESS.sub("", ref.id).strip("/")})
    if _is_path(ref.id):
        raise ModelNotFound(_no_folder(ref.id, base))
    snapshot = cached_snapshot(ref.id, ref.revision)
    if snapshot is not None:
        return _from_folder(ref, snapshot, "local Hugging Face cache", revision=snapshot.name)
    known = find_model(ref.id)
    if known is not None:
        return known.model_copy(update={"revision": ref.revision})
    located = _located(ref.id, base)
    looked = [
        f"the folder {located} holds no config.json" if _is_folder(located) else f"no folder {_shown(str(located))}",
        f"not in the local Hugging Face cache ({cache_folder()})",
        f"not among the catalog's {len(catalog_ids())} models",
    ]
    if not is_repo_id(ref.id):
        raise ModelNotFound(_sentence(ref, looked, "the text is no hub id (org/name)"))
    if offline or offline_by_environment():
        why = "HF_HUB_OFFLINE is set" if offline_by_environment() else "offline"
        raise ModelNotFound(_sentence(ref, looked, f"the hub was not asked ({why})"))
    try:
        return _from_hub(ref, fetch(ref.id, ref.revision))
    except HubError as error:
        raise ModelNotFound(_sentence(ref, looked, f"the hub {error}")) from None


def model_path(ref: ModelRef, base: Path) -> Path | None:
    """A local folder an engine can load (config.json and weights): the folder named, or a cached snapshot; or None."""
    folder = _folder(ref.id, base) or (None if _is_path(ref.id) else cached_snapshot(ref.id, ref.revision))
    return folder if folder is not None and has_weights(folder) else None


# --- where
def _is_path(model_id: str) -> bool:
    """Whether the text can only be a path: it starts like one, or has more than one slash."""
    return (
        model_id.startswith((".", "/", "~", "\\"))
        or model_id.count("/") > 1
        or "\\" in model_id
        or model_id.endswith("/")
    )


def _located(model_id: str, base: Path) -> Path:
    try:
        return base / Path(model_id).expanduser()
    except RuntimeError:  # ~somebody, where nobody has that name
        return base / model_id


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _shown(text: str) -> str:
    """A text as an error may print it: nothing that moves the cursor, no more than a line."""
    printable = text if text.isprintable() else repr(text)
    return printable if len(printable) <= 120 else f"{printable[:117]}..."


def _folder(model_id: str, base: Path) -> Path | None:
    """The folder a reference names, where it holds a config.json."""
    try:
        located = _located(model_id, base)
        return located if (located / "config.json").is_file() else None
    except (OSError, ValueError):  # a name too long, a NUL byte
        return None


def _no_folder(model_id: str, base: Path) -> str:
    located = _located(model_id, base)
    try:
        if located.is_dir():
            names = sorted(path.name for path in located.iterdir())[:5]
            return (
                f"{_shown(model_id)}: the folder {located} holds no config.json (but {', '.join(names) or 'nothing'}); "
                "expected a model in Hugging Face form; convert it, or give the folder that has config.json"
            )
        near = difflib.get_close_matches(located.name, os.listdir(located.parent), n=3, cutoff=0.6)
    except (OSError, ValueError):
        near = []
    hint = f"; beside it: {', '.join(near)}" if near else ""
    return (
        f"{_shown(model_id)}: there is no folder {_shown(str(located))}{hint}; expected a folder with config.json; "
        "relative folders are relative to the deployment file"
    )


def _sentence(ref: ModelRef, looked: list[str], hub: str) -> str:
    name = _shown(ref.id) if ref.revision is None else f"{_shown(ref.id)} (revision {_shown(ref.revision)})"
    near = difflib.get_close_matches(
        ref.id.lower(), {known.lower(): known for known in catalog_ids()}, n=3, cutoff=0.75
    )
    hint = f"; near it in the catalog: {', '.join(near)}" if near else ""
    fetching = f", or fetch that where there is network: `hf download {ref.id} config.json`"
    return (
        f"model {name} was not found: {', '.join(looked)}, and {hub}{hint}; give a folder that holds its config.json"
        f"{fetching if is_repo_id(ref.id) else ''}"
    )


# --- reading
def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_CONFIG_BYTES:
            raise InputError(f"{path} is {size >> 20} MiB: expected a config of some kilobytes; fetch it again")
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}): check the file and its permissions"
        ) from error


def _parse(raw: bytes, where: str) -> dict[str, Any]:
    """A JSON object; anything else is one sentence."""
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{where} is not JSON{place}: expected a model's config; fetch it again") from None
    if not isinstance(document, dict):
        raise InputError(f"{where} is {given(document)}: expected a JSON object; fetch it again")
    return document


def _from_folder(ref: ModelRef, folder: Path, origin: str, revision: str | None = None) -> ModelShape:
    path = folder / "config.json"
    raw = _read(path)
    config = _parse(raw, str(path))
    quantization = folder / "hf_quant_config.json"
    if "quantization_config" not in config and quantization.is_file():
        config["quantization_config"] = _parse(_read(quantization), str(quantization))
    return _shape(ref, config, raw, str(path), origin, read_tensors(folder), revision or ref.revision, folder)


def _from_hub(ref: ModelRef, published: Published) -> ModelShape:
    where = f"config.json of {ref.id} on the hub"
    if len(published.config) > MAX_CONFIG_BYTES:
        raise InputError(f"{where} is {len(published.config) >> 20} MiB: expected a config of some kilobytes")
    config = _parse(published.config, where)
    if "quantization_config" not in config and published.quantization:
        config["quantization_config"] = _parse(published.quantization, f"hf_quant_config.json of {ref.id} on the hub")
    return _shape(ref, config, published.config, where, "hub", published.tensors, published.revision, None)


def _shape(
    ref: ModelRef,
    config: dict[str, Any],
    raw: bytes,
    where: str,
    origin: str,
    tensors: list[Tensor],
    revision: str | None,
    folder: Path | None,
) -> ModelShape:
    """Shape from the config, then what the headers know better."""
    names = {tensor.name for tensor in tensors}
    config_hash = hashlib.sha256(raw).hexdigest()
    method = head_method(config, names)
    if method is not None:
        shape = head_shape(
            config, method, model_id=ref.id, where=where, revision=revision, config_hash=config_hash, origin=origin
        )
    else:
        if (
            names
            and not any(name.endswith(("lm_head.weight", "embed_out.weight")) for name in names)
            and _says_nothing_of_tying(config)
        ):
            # No output head is stored and the config is silent: the embedding table is the head.
            config = {**config, "tie_word_embeddings": True}
        shape = shape_of(
            config, model_id=ref.id, where=where, revision=revision, config_hash=config_hash, origin=origin
        )
    known = find_model(ref.id)
    family = known.tokenizer.family if known is not None and known.tokenizer is not None else None
    tokenizer = (
        fingerprint(folder, shape.vocab_size, family)
        if folder is not None
        else TokenizerFingerprint(vocab_size=shape.vocab_size, family=family)
        if family
        else None
    )
    shape = shape.model_copy(update={"tokenizer": tokenizer})
    weights = count_weights(tensors, num_layers=shape.num_layers, tied=shape.tie_word_embeddings)
    if weights is None:
        return shape
    if shape.mtp_layers and not weights.mtp_params and stated_layers(text_config(config)) is None:
        # Layers that only the model type promises, and this checkpoint was saved without.
        shape = shape.model_copy(update={"mtp_layers": 0, "mtp_params": 0})
    return _with_weights(shape, weights, vision=_has_vision(config), head=method is not None)


def _says_nothing_of_tying(config: Mapping[str, Any]) -> bool:
    nested = config.get("text_config")
    return "tie_word_embeddings" not in config and not (isinstance(nested, Mapping) and "tie_word_embeddings" in nested)


def _with_weights(shape: ModelShape, weights: Weights, *, vision: bool, head: bool) -> ModelShape:
    """Exact bytes; exact parameters too, unless weights are packed several to an integer."""
    update: dict[str, Any] = {"weight_bytes": weights.stored_bytes}
    if weights.dtype and shape.quantization is None:
        update["dtype"] = weights.dtype
    params = shape.params
    if not weights.packed:
        params = weights.params
        update["params"] = params
        update["mtp_params"] = weights.mtp_params or shape.mtp_params
        extra = params - shape.params
        if abs(extra) <= 0.05 * params and not vision and not head:
            # What the shape does not count (norms, biases) is read at every step; a vision tower is not.
            update["active_params"] = shape.active_params + extra
        if head and weights.has_embedding:
            # A copy of the target's table in the head's file: stored, and only looked up.
            update["embedding_params"] = shape.vocab_size * shape.hidden_size
    if params > 0:
        update["bits_per_weight"] = round(weights.stored_bytes * 8 / params, 4)
    return shape.model_copy(update=update)


def _has_vision(config: Mapping[str, Any]) -> bool:
    return any(
        isinstance(config.get(name), Mapping) for name in ("vision_config", "audio_config", "vision_tower_config")
    )


# --- the files themselves
def local_files(ref: ModelRef, base: Path) -> dict[str, Mapping[str, Any]]:
    """config.json and its kin of a local model (the folder named, or a cached snapshot) by short name: `config`,
    `generation`, `tokenizer`. What is not there is left out; an empty answer means that the model is not here.

    Raises:
        InputError: a file is there and no JSON object.
    """
    folder = _folder(ref.id, base) or (None if _is_path(ref.id) else cached_snapshot(ref.id, ref.revision))
    if folder is None:
        return {}
    files = {"config": "config.json", "generation": "generation_config.json", "tokenizer": "tokenizer_config.json",
             "quantization": "hf_quant_config.json"}
    found: dict[str, Mapping[str, Any]] = {}
    for name, file_name in files.items():
        path = folder / file_name
        if path.is_file():
            found[name] = _parse(_read(path), str(path))
    return found
