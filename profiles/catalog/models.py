"""Published models by id: their shapes, the draft heads trained for them, and smaller models that could draft."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from profiles.catalog.compiled import compiled
from profiles.catalog.quantization import Quantization, quantization_of_name
from profiles.catalog.shapes import ModelShape
from profiles.schema import Schema, Setting


class DraftHead(Schema):
    """A published head: the method that runs it, the targets it was trained for, and its shape."""

    id: str
    """HF id of the head."""
    method: str
    """vLLM's name of the method; a method that vLLM has not (dflare) keeps its own."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Further speculative-config keys the head needs (P-EAGLE: parallel_drafting)."""
    targets: tuple[str, ...]
    """HF ids of the targets it was trained for; it is worth nothing on any other."""
    shape: ModelShape | None = None
    """Its shape: published, or built from the target's (then `shape_from` says target). None where neither is known.

    `params` are the weights it brings itself; `active_params` also count the output head it shares with the target.
    """
    shape_from: Literal["config", "target", "unknown"] = "config"
    sources: tuple[str, ...]
    check: Literal["ok", "unsure"]
    note: str = ""


# Organisations that publish copies and quantized versions of others' models under the same or nearly the same name.
MIRRORS = (
    "unsloth",
    "nousresearch",
    "redhatai",
    "neuralmagic",
    "nvidia",
    "hugging-quants",
    "casperhansen",
    "thebloke",
    "lmstudio-community",
    "mlx-community",
    "amd",
    "intel",
    "modelcloud",
    "second-state",
    "cognitivecomputations",
)


def normal_id(model_id: str) -> str:
    """The form under which ids are compared: lower case, without hub address, revision or trailing slash."""
    text = model_id.strip().lower().replace("\\", "/")
    text = re.sub(r"^(?:https?://)?(?:www\.)?huggingface\.co/|^hf://", "", text)
    text = text.split("@", 1)[0].split("/tree/", 1)[0].strip("/")
    return re.sub(r"\s+", "-", text)


@lru_cache(maxsize=1)
def _by_id() -> dict[str, tuple[dict[str, Any], bool]]:
    """Entry by comparable id, and whether the id is the entry's own (True) or one of its other checkpoints'."""
    index: dict[str, tuple[dict[str, Any], bool]] = {}
    for entry in compiled("models")["models"]:
        for name in entry["also"]:
            index[normal_id(name)] = entry, False
    for entry in compiled("models")["models"]:
        index[normal_id(entry["shape"]["id"])] = entry, True
    return index


@lru_cache(maxsize=1)
def _by_name() -> dict[str, str | None]:
    """Comparable id by its last part; None where two organisations use the name for different models."""
    names: dict[str, str | None] = {}
    for model_id in _by_id():
        name = model_id.rsplit("/", 1)[-1]
        names[name] = None if name in names and names[name] != model_id else model_id
    return names


def _lookup(key: str) -> tuple[dict[str, Any], bool] | None:
    """By full id; without an organisation, or under a mirror's, by the name alone."""
    found = _by_id().get(key)
    if found is not None:
        return found
    organisation, slash, name = key.rpartition("/")
    if slash and organisation not in MIRRORS:
        return None
    original = _by_name().get(name)
    if original is None and name.startswith("meta-llama-"):
        original = _by_name().get(name.removeprefix("meta-"))
    entry = _by_id().get(original) if original else None
    return (entry[0], False) if entry else None


def _lookup_by_name(key: str) -> tuple[dict[str, Any], bool] | None:
    """Whoever published it: a checkpoint whose name is a known model's and a format has that model's shape."""
    name = key.rsplit("/", 1)[-1].removesuffix("-qat")
    original = _by_name().get(name)
    entry = _by_id().get(original) if original else None
    return (entry[0], False) if entry else None


def quantized(shape: ModelShape, quantization: Quantization) -> ModelShape:
    """The same model with its matrices stored in another format; tables keep 16 bits. What its files weigh as they are
    says nothing of that, so it is forgotten.

    Of a mixture the 4-bit formats usually take the experts alone: what two such checkpoints loaded (Gemma 4 26B AWQ,
    Qwen3.6 35B NVFP4; docs/accuracy-memory.md) is within 3 % of that, and 14 to 19 % above a count of every matrix.
    """
    tables = shape.embedding_params * (1 if shape.tie_word_embeddings else 2)
    taken = shape.params - tables
    if shape.moe is not None and quantization.bits < 6:
        taken = shape.moe.moe_layers * shape.moe.num_experts * shape.moe.expert_params
    share = min(1.0, max(0.0, taken) / shape.params)
    bits = share * quantization.bits + (1 - share) * 16.0
    return shape.model_copy(update={"quantization": quantization.name, "bits_per_weight": round(bits, 4),
                                    "weight_bytes": None})


def find_model(model_id: str) -> ModelShape | None:
    """The shape of a published model or draft head; None where the catalog has none.

    Case and hub address do not matter; a mirror's copy (`unsloth/...`), a tuned checkpoint of the same shape and the
    usual endings of quantized checkpoints (`-FP8`, `-AWQ`, `-NVFP4`) find the original's shape, and `origin` says so.
    """
    key = normal_id(model_id)
    if not key:
        return None
    found = _lookup(key)
    if found is not None:
        shape = ModelShape.model_validate(found[0]["shape"])
        return shape if found[1] else _as_called(shape, model_id)
    head = _heads().get(key)
    if head is not None:
        return DraftHead.model_validate(head).shape
    ending = quantization_of_name(key)
    base = _lookup(ending[0]) or _lookup_by_name(ending[0]) if ending else _sister(key)
    if base is None and ending is not None:
        base = _sister(ending[0])
    if base is None:
        return None
    original = ModelShape.model_validate(base[0]["shape"])
    if ending is None:
        return _as_called(original, model_id)
    note = "its format read from the name's ending"
    return _as_called(quantized(original, ending[1]), model_id, original.id, note)


def _as_called(shape: ModelShape, model_id: str, original: str | None = None, note: str = "") -> ModelShape:
    """The shape under the id that was asked for, and whose it is."""
    origin = f"{shape.origin}; shape of {original or shape.id}{f', {note}' if note else ''}"
    return shape.model_copy(update={"id": model_id, "origin": origin})


def _sister(key: str) -> tuple[dict[str, Any], bool] | None:
    """Another checkpoint of the same shape: of another date, or the tuned one of a plain name.

    Not the other way: a tuned name that the catalog lacks is more often a slip than a model.
    """
    organisation, slash, name = key.rpartition("/")
    dateless = re.sub(r"-\d{4,6}$", "", name)
    for variant in (dateless, *(f"{dateless}-{tuned}" for tuned in ("instruct", "it", "chat"))):
        found = _lookup(f"{organisation}{slash}{variant}") if variant != name else None
        if found is not None:
            return found
    return None


def catalog_ids() -> tuple[str, ...]:
    """Every model id the catalog has a shape for, draft heads apart."""
    return tuple(entry["shape"]["id"] for entry in compiled("models")["models"])


@lru_cache(maxsize=1)
def _heads() -> dict[str, dict[str, Any]]:
    return {normal_id(head["id"]): head for head in compiled("models")["heads"]}


def draft_heads() -> tuple[DraftHead, ...]:
    """Every head of the catalog."""
    return tuple(DraftHead.model_validate(head) for head in compiled("models")["heads"])


@lru_cache(maxsize=512)
def find_head(head_id: str) -> DraftHead | None:
    """A head by its id."""
    head = _heads().get(normal_id(head_id))
    return DraftHead.model_validate(head) if head else None


def _family(target_id: str) -> set[str]:
    """Ids under which heads may name a target: itself, its mirror's original, the unquantized original."""
    key = normal_id(target_id)
    ids = {key}
    ending = quantization_of_name(key)
    for name in (key, ending[0] if ending else key):
        organisation, slash, short = name.rpartition("/")
        ids.add(name)
        if not slash or organisation in MIRRORS:
            original = _by_name().get(short) or _by_name().get(short.removeprefix("meta-"))
            if original:
                ids.add(original)
    # Llama 3.1 Instruct was published under two names.
    return ids | {name.replace("/meta-llama-3.1", "/llama-3.1") for name in ids}


@lru_cache(maxsize=512)
def heads_for(target_id: str) -> tuple[DraftHead, ...]:
    """Heads trained for this very target, checked ones first; a head for another checkpoint of it is not offered."""
    ids = _family(target_id)
    fits = [
        DraftHead.model_validate(head)
        for head in compiled("models")["heads"]
        if any(normal_id(target) in ids for target in head["targets"])
    ]
    return tuple(sorted(fits, key=lambda head: (head.check != "ok", head.id)))


def drafts_hint(method_name: str, target_id: str) -> str:
    """What the catalog has for a method that needs a draft, as the end of a sentence; empty where it has nothing."""
    if method_name == "draft_model":
        target = find_model(target_id)
        names = [shape.id for shape in small_models_for(target)] if target is not None else []
    else:
        names = [head.id for head in heads_for(target_id) if head.method == method_name]
    return f"; for {target_id} the catalog has {', '.join(names[:4])}" if names else ""


def small_models_for(target: ModelShape) -> tuple[ModelShape, ...]:
    """Smaller models that speak the target's tokens: same tokenizer family and the same vocabulary size.

    The nearest of kin come first, then the smallest. vLLM refuses a draft model whose vocabulary size differs,
    be it by padding. At most a third of the target's parameters per token, above which drafting costs too much.
    """
    family = target.tokenizer.family if target.tokenizer else None
    if family is None:
        known = find_model(target.id)
        family = known.tokenizer.family if known and known.tokenizer else None
    if family is None:
        return ()
    fits = []
    for entry in compiled("models")["models"]:
        raw = entry["shape"]
        label = raw.get("tokenizer", {}).get("family")
        if (
            label == family
            and raw["vocab_size"] == target.vocab_size
            and raw["id"] != target.id
            and raw["params"] < target.params
            and raw["active_params"] * 3 <= target.active_params
        ):
            shape = ModelShape.model_validate(raw)
            fits.append(shape.model_copy(update={"id": _answering_like(entry, target.id)}))
    return tuple(sorted(fits, key=lambda shape: (kinship(shape.id, target.id), shape.active_params, shape.id)))


_TUNED = re.compile(r"(?:^|[-_.])(?:instruct|it|chat)(?:$|[-_.])")


def _answering_like(entry: dict[str, Any], target_id: str) -> str:
    """The entry's checkpoint that is tuned to answer where the target is, and plain where it is not."""
    tuned = _TUNED.search(normal_id(target_id)) is not None
    names = [str(entry["shape"]["id"]), *map(str, entry["also"])]
    return next((name for name in names if (_TUNED.search(normal_id(name)) is not None) is tuned), names[0])


_GENERATION = re.compile(r"([a-z]+)-?v?(\d+(?:\.\d+)*)?(?![\d.]*[bm]\b)")


def kinship(one: str, other: str) -> int:
    """How near two models are by their names: 0 one series (what stands before the size is the same, but for a minor
    version), 1 one generation of a family (Qwen3 and Qwen3-Coder), 2 one major version (Qwen3-Next and Qwen3.5), 3 one
    family, 4 none of these.

    Models of one tokenizer guess each other's text the better the nearer they are: trained alike, with the same added
    tokens.
    """
    names = [normal_id(name).rsplit("/", 1)[-1].removeprefix("meta-") for name in (one, other)]
    series = [re.split(r"-(?=\d+(?:\.\d+)?[bm]\b)|\.\d(?=-)", name)[0] for name in names]
    if series[0] == series[1]:
        return 0
    (family, version), (other_family, other_version) = (_generation(name) for name in names)
    if family != other_family:
        return 3 if family in names[1] or other_family in names[0] else 4
    if version == other_version:
        return 1
    return 2 if version and other_version and version.split(".")[0] == other_version.split(".")[0] else 3


def _generation(name: str) -> tuple[str, str]:
    """Family and version as a name begins: (qwen, 2.5), (llama, 3.1); the version is empty where none is named."""
    found = _GENERATION.match(name)
    return (found[1], found[2] or "") if found is not None else (name, "")
