"""The numbers behind a case's names: the card, the target and the draft as bytes, operations and layers.

Looked up in the catalog once for each distinct spelling; where the catalog knows no such model, a shape of the stated
size is assumed, and `assumed` says what was.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from advisor.cases.names import families_in_name, is_mixture, near_models, sizes_in_name, spellings, stored_bits
from advisor.cases.usual_draft import usual_draft
from advisor.cost.fitted import fitted_constants
from profiles.catalog.gpus import Gpu, find_gpu
from profiles.catalog.models import catalog_ids, find_model
from profiles.catalog.shapes import ModelShape
from profiles.errors import InputError
from profiles.methods import Method, method

ASSUMED_GPU = "H100 SXM5 80GB"
"""What most published measurements were made on."""
_PCIE_GBS = 32.0
_TUNED_BYTES_PER_FLOP = 0.15
_SAME_SIZE, _SAME_ACTIVE = 0.05, 0.2
"""Logarithms that stated parameters (all, active) may be off those of the model they are taken for."""


@dataclass(frozen=True)
class CardFacts:
    """One accelerator. Rates in GB/s and TFLOP/s, dense."""

    name: str
    bandwidth_gbs: float
    memory_gib: float
    tflops16: float
    tflops8: float
    tflops4: float
    link_gbs: float
    """One direction between the devices of one engine."""
    nvlink: bool
    consumer: bool
    amd: bool
    assumed: bool


@dataclass(frozen=True)
class TargetFacts:
    """One target. Parameters are counts; bytes are of all devices together."""

    params: float
    active_params: float
    routed_params: float
    """Parameters of routed experts, of which a step reads those its tokens touch; 0 for a dense model."""
    expert_share: float
    """Experts a token uses over all experts."""
    read_always: float
    """Parameters every step reads, embeddings apart."""
    layers: float
    hidden: float
    vocabulary: float
    bits: float
    weight_only: bool
    """Stored in fewer bits than it computes in."""
    compute_bits: int
    kv_bytes: float
    """KV bytes a token of full and MLA layers."""
    kv_heads: float
    window_kv_bytes: float
    window: float
    state_bytes: float
    """What the linear-attention or Mamba layers keep of a request, whatever its length."""
    hybrid: bool
    """Has linear-attention or Mamba layers."""
    mtp_params: float
    assumed: tuple[str, ...]
    like: str = ""
    """The catalog's model whose shape is assumed; empty where none is."""


@dataclass(frozen=True)
class DraftFacts:
    """What one pass of the drafter reads and computes; all zero for lookups."""

    read_params: float
    bits: float
    layers: float
    kv_bytes: float
    assumed: bool


def card_facts(name: str | None) -> CardFacts:
    """The card by name; the commonest one where None.

    Raises:
        InputError: the catalog knows no such card; near names are given.
    """
    found = _card_or_why(name)
    if isinstance(found, str):
        raise InputError(found)
    return found


@lru_cache(maxsize=4096)
def _card_or_why(name: str | None) -> CardFacts | str:
    # Refusals are remembered too: looking for near names takes longer than pricing a case.
    try:
        return _card(find_gpu(_spelled(name) if name is not None else ASSUMED_GPU), name is None)
    except InputError as error:
        return str(error)


def _spelled(name: str) -> str:
    """A card's name without a count, a remark or the hyphens people put for spaces."""
    return re.sub(r"^\s*\d+\s*x\s+", "", re.sub(r"\(.*?\)", " ", name)).replace("-", " ").strip() or name


def card_of(card: Gpu | None) -> CardFacts:
    """A known card; the commonest one, assumed, where None."""
    return _card(card, False) if card is not None else card_facts(None)


def _card(card: Gpu, assumed: bool) -> CardFacts:
    rates = {key: value for key, value in card.dense_tflops.items() if value}
    base = rates.get("bf16") or rates.get("fp16") or card.memory_bandwidth_gbs * _TUNED_BYTES_PER_FLOP
    eight = rates.get("fp8") or base
    bandwidth, timed = card.memory_bandwidth_gbs, card.measured
    if timed is not None and timed.weights_gbs:
        # Timed rates are effective ones: given as the peak that the efficiency of a step makes them of.
        bandwidth = timed.weights_gbs / fitted_constants()["bandwidth_efficiency"]
    if timed is not None and timed.bf16_tflops:
        base = timed.bf16_tflops / fitted_constants()["compute_efficiency"]
    link = (card.nvlink_gbs or card.link_gbs or 0.0) / 2 or (card.pcie_gbs or 2 * _PCIE_GBS) / 2
    datacentre = "HBM" in card.name or (card.memory_bandwidth_gbs >= 1400 and not card.name.startswith("RTX"))
    return CardFacts(
        name=card.name,
        bandwidth_gbs=bandwidth,
        memory_gib=card.memory_gib,
        tflops16=base,
        tflops8=eight,
        tflops4=rates.get("fp4") or eight,
        link_gbs=link,
        nvlink=(bool(card.nvlink_gbs) and "bridge" not in card.link) or "infinity" in card.link,
        consumer=not datacentre,
        amd=card.vendor == "amd",
        assumed=assumed,
    )


@lru_cache(maxsize=8192)
def shape_named(name: str) -> ModelShape | None:
    """The catalog's shape of a model as people write its name; None where it has none."""
    for spelling in spellings(name):
        shape = find_model(spelling)
        if shape is not None:
            return shape
    return None


def target_facts(
    name: str | None, params_b: float | None, active_b: float | None, quantization: str | None, dtype: str | None,
    own_layers: bool = False,
) -> TargetFacts:
    """The target by name, with stated sizes where the name is not in the catalog.

    own_layers: whether its own multi-token-prediction layers draft.

    Raises:
        InputError: a target whose size neither the catalog nor the case nor its name says, or a mixture of experts
            whose active parameters nobody states.
    """
    found = _target_or_why(name, params_b, active_b, quantization, dtype, own_layers)
    if isinstance(found, str):
        raise InputError(found)
    return found


@lru_cache(maxsize=8192)
def _target_or_why(
    name: str | None, params_b: float | None, active_b: float | None, quantization: str | None, dtype: str | None,
    own_layers: bool,
) -> TargetFacts | str:
    try:
        return _target(name, params_b, active_b, quantization, dtype, own_layers)
    except InputError as error:
        return str(error)


def _target(
    name: str | None, params_b: float | None, active_b: float | None, quantization: str | None, dtype: str | None,
    own_layers: bool,
) -> TargetFacts:
    shape = shape_named(name) if name else None
    if shape is not None and params_b is not None and not 0.6 < shape.params / 1e9 / params_b < 1.7:
        # The name is another model's, or the catalog's entry is: what was stated about this one wins.
        shape = None
    stored = stored_bits(quantization, dtype, name)
    if shape is None and own_layers:
        total, active = sizes_in_name(name)
        alike = _drafting_alike(name, params_b or total, active_b or active)
        if alike is not None:
            return replace(target_of(alike, stored), assumed=("shape",), like=alike.id)
    if shape is None:
        return _assumed_target(name, params_b, active_b, stored)
    return target_of(shape, stored)


@lru_cache(maxsize=1024)
def _drafting_alike(name: str | None, params_b: float | None, active_b: float | None) -> ModelShape | None:
    """The catalog's model of this size (billions) that has multi-token-prediction layers: few families do, so that a
    model whose own layers draft, under a name nobody knows, is most likely a tuned copy of it. None where none has, or
    the name is another family's.
    """
    if params_b is None:
        return None
    called, near = families_in_name(name), []
    for shape in _drafting_shapes():
        size, dense = abs(math.log(shape.params / 1e9 / params_b)), shape.moe is None
        active = 0.0 if dense or active_b is None else abs(math.log(shape.active_params / 1e9 / active_b))
        alike = size <= _SAME_SIZE and active <= _SAME_ACTIVE and called <= families_in_name(shape.id)
        if alike and dense is (active_b is None or active_b > 0.7 * params_b):
            near.append((size, shape))
    return min(near, key=lambda pair: pair[0])[1] if near else None


@lru_cache(maxsize=1)
def _drafting_shapes() -> tuple[ModelShape, ...]:
    known = (find_model(name) for name in catalog_ids())
    return tuple(shape for shape in known if shape is not None and shape.mtp_layers)


def target_of(
    shape: ModelShape, stored: tuple[float, int, bool] | None = None, kv_element_bytes: float = 2.0
) -> TargetFacts:
    """The target of a known shape. stored: what `stored_bits` says of it, the shape's own where None."""
    bits, compute, weight_only = stored or _own_bits(shape)
    moe = shape.moe
    routed = float(moe.moe_layers) * moe.num_experts * moe.expert_params if moe else 0.0
    unread = 0 if shape.tie_word_embeddings else shape.embedding_params
    full = sum(2.0 * g.layers * g.kv_heads * g.head_dim for g in shape.attention if g.kind == "full")
    full += sum(1.0 * g.layers * g.head_dim for g in shape.attention if g.kind == "mla")
    sliding = [g for g in shape.attention if g.kind == "sliding"]
    heads = [g.kv_heads for g in shape.attention if g.kind in ("full", "sliding") and g.kv_heads]
    return TargetFacts(
        params=float(shape.params),
        active_params=float(shape.active_params),
        routed_params=routed,
        expert_share=moe.experts_per_token / max(1, moe.num_experts) if moe else 1.0,
        read_always=max(1e6, shape.params - unread - routed),
        layers=float(shape.num_layers),
        hidden=float(shape.hidden_size),
        vocabulary=float(shape.vocab_size),
        bits=bits,
        weight_only=weight_only,
        compute_bits=compute,
        kv_bytes=full * kv_element_bytes,
        kv_heads=float(min(heads)) if heads else 1.0,
        window_kv_bytes=sum(2.0 * g.layers * g.kv_heads * g.head_dim for g in sliding) * kv_element_bytes,
        window=float(max((g.window or 0 for g in sliding), default=0)),
        state_bytes=float(sum(g.layers * g.state_bytes for g in shape.attention if g.kind == "linear")),
        hybrid=any(g.kind == "linear" for g in shape.attention),
        mtp_params=shape.mtp_params / max(1, shape.mtp_layers) if shape.mtp_layers else 0.0,
        assumed=(),
    )


def _own_bits(shape: ModelShape) -> tuple[float, int, bool]:
    said = stored_bits(shape.quantization, None, None)
    if said is None:
        return min(16.0, shape.bits_per_weight), 16, False
    # gpt-oss and its like store four bits and compute in sixteen where the card has no four-bit units.
    return shape.bits_per_weight, said[1], said[2]


def _assumed_target(
    name: str | None, params_b: float | None, active_b: float | None, stored: tuple[float, int, bool] | None
) -> TargetFacts:
    assumed = ["shape"]
    named, named_active = sizes_in_name(name)
    total = params_b or named
    active = active_b or named_active
    if total is None and name is None:
        raise InputError("target and target_params_b are null: expected a model's name or its size in billions")
    if total is None:
        raise InputError(f"target is {name!r}, which the catalog does not know, and target_params_b is null: expected "
                         f"its parameters in billions{near_models(name)}")
    mixture = active is not None and active < 0.7 * total
    if active is None and name and is_mixture(name):
        if params_b is not None:
            raise InputError(
                f"target is {name!r}, a mixture of experts that the catalog does not know, and active_params_b is "
                "null: expected its active parameters in billions"
            )
        active, mixture = 0.1 * total, True
        assumed.append("active parameters")
    active = active if active is not None else total
    bits, compute, weight_only = stored or (16.0, 16, False)
    # Published dense decoders: depth grows with about the cube root of the size, and the width follows from the two.
    layers = min(126.0, 32.0 * (active / 8.0) ** 0.33 if not mixture else 48.0 * (total / 30.0) ** 0.12)
    hidden = math.sqrt(active * 1e9 / (13.0 * layers))
    routed = max(0.0, total - active) * 1e9 * 1.02 if mixture else 0.0
    kv = layers * 2.0 * 8.0 * 128.0 * 2.0
    return TargetFacts(
        params=total * 1e9, active_params=active * 1e9 * 0.94, routed_params=routed,
        expert_share=min(1.0, 0.7 * active / total) if mixture else 1.0,
        read_always=max(1e6, total * 1e9 * 0.94 - routed), layers=layers, hidden=hidden,
        vocabulary=150_000.0 if total > 3 else 60_000.0,
        bits=bits, weight_only=weight_only, compute_bits=compute, kv_bytes=kv, kv_heads=8.0, window_kv_bytes=0.0,
        window=0.0, state_bytes=0.0, hybrid=False, mtp_params=0.0, assumed=tuple(assumed),
    )


@lru_cache(maxsize=16384)
def _draft_or_why(
    method_name: str, name: str | None, params_b: float | None, target: TargetFacts
) -> DraftFacts | str:
    try:
        return _draft(method_name, name, params_b, target)
    except InputError as error:
        return str(error)


def draft_facts(method_name: str, name: str | None, params_b: float | None, target: TargetFacts) -> DraftFacts:
    """The drafter of a method: its own shape where the catalog or the case gives one, else the usual for its kind.

    Raises:
        InputError: a draft model whose size neither the catalog nor the case nor its name says, or any draft that is
            said to be larger than its target.
    """
    found = _draft_or_why(method_name, name, params_b, target)
    if isinstance(found, str):
        raise InputError(found)
    return found


def _draft(method_name: str, name: str | None, params_b: float | None, target: TargetFacts) -> DraftFacts:
    return draft_of(method(method_name), shape_named(name) if name else None, name, params_b, target)


def draft_of(
    described: Method, shape: ModelShape | None, name: str | None, params_b: float | None, target: TargetFacts
) -> DraftFacts:
    """The drafter of a known shape, or of what its name and size say where `shape` is None.

    Raises:
        InputError: see `draft_facts`.
    """
    if described.drafter in ("none", "lookup"):
        return DraftFacts(0.0, 16.0, 0.0, 0.0, False)
    named = shape.params / 1e9 if shape is not None else sizes_in_name(name)[0]
    if shape is not None and shape.params > 0.6 * target.params:
        # A native head is often named by its target.
        shape = None
    layer = max(1e6, target.active_params - target.vocabulary * target.hidden) / max(1.0, target.layers)
    vocabulary = target.vocabulary * target.hidden
    if described.drafter == "model":
        billions = params_b or named
        if billions is None and name is not None:
            raise InputError(f"draft is {name!r}, which the catalog does not know, and draft_params_b is null: "
                             f"expected its parameters in billions{near_models(name)}")
        _refuse_larger(name, billions, target)
        assumed = billions is None
        size = billions * 1e9 if billions else min(1.2e9, max(0.3e9, 0.02 * target.params))
        shape = usual_draft(target.vocabulary, size) if assumed else shape
        layers = float(shape.num_layers) if shape else 22.0 * (size / 1e9) ** 0.25
        kv = _kv_bytes(shape) if shape else layers * 2.0 * 8.0 * 96.0 * 2.0
        return DraftFacts(float(shape.active_params) if shape else size, 16.0, layers, kv, assumed)
    _refuse_larger(name, params_b, target)
    if shape is not None:
        return DraftFacts(float(max(1, shape.active_params)), 16.0, float(max(1, shape.num_layers)), _kv_bytes(shape),
                          False)
    width = 2.0 * 8.0 * 128.0 * 2.0
    if described.drafter == "native":
        own = target.mtp_params * 0.25 if target.mtp_params > 3 * layer else target.mtp_params
        return DraftFacts((own or layer * 1.15) + vocabulary, min(16.0, max(8.0, target.bits)), 1.0, width, False)
    usual = {"eagle": 1.0, "eagle3": 1.0, "dflash": 5.0, "dspark": 4.0}.get(described.name, 1.0)
    dense_layer = max(layer, 12.0 * target.hidden**2)
    head = vocabulary if described.name != "eagle3" else min(vocabulary, 32_000.0 * target.hidden)
    if params_b is not None:
        return DraftFacts(params_b * 1e9 + head * (described.name != "eagle3"), 16.0, usual, width * usual, False)
    return DraftFacts(usual * dense_layer * 1.1 + head, 16.0, usual, width * usual, True)


def _refuse_larger(name: str | None, billions: float | None, target: TargetFacts) -> None:
    if billions is not None and billions * 1e9 > 1.001 * target.params:
        raise InputError(f"draft is {name!r} of {billions:g} billion parameters and the target has "
                         f"{target.params / 1e9:.3g}: the draft is larger than its target; were they swapped?")


def _kv_bytes(shape: ModelShape) -> float:
    return sum(4.0 * g.layers * max(1, g.kv_heads) * g.head_dim for g in shape.attention if g.kind in
               ("full", "sliding"))

