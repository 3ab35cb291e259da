"""What a case leaves open or states oddly: told in the answer's note, and paid for by a wider interval.

A number that rests on a guess must look like one. Nulls that matter (the card, the load, k, a draft model's size) and
values from which nothing can be read (a release called `banana`, three devices for eight heads) are priced as the usual
thing, and how far that may be off is added to the prediction's variance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from advisor.cases.case import Case
from advisor.cases.facts import CardFacts, DraftFacts, TargetFacts, shape_named
from advisor.cases.names import stored_bits
from profiles.catalog.mtp import shape_refuses_mtp
from profiles.catalog.releases import Release, newest, release
from profiles.errors import InputError
from profiles.methods import method

# Standard deviations of ln(speed-up): how far setups lie apart that differ in this alone. Assumed.
_CARD = 0.2
_LOAD = 0.25
_DEPTH = 0.15
_SHAPE = 0.08
_ACTIVE = 0.15
_ODD = 0.15
_DOES_NOT_FIT = 0.3

DRAFT_SIZE = 0.6
"""Standard deviation of ln(drafting time) where nobody says how large the draft model is."""
HEAD_SHAPE = 0.2
"""The same for a head that the catalog does not know: they differ in layers and vocabulary."""

_FORMATS = re.compile(
    r"fp\d|bf16|b?float(?:8|16|32)?(?!\d)|half|int\d|w\d+a\d+|\d-?bits?\b|awq|gptq|autoround|marlin|nf4|bnb|bitsandbytes|"
    r"gguf|i?q\d|exl\d|hqq|aqlm|quip|torchao|compressed|modelopt|native|auto|none|unquantized|mxfp|nvfp|ternary|eager|e4m3|"
    r"e5m2|quark|experts", re.IGNORECASE)
_RELEASES = re.compile(r"\d+\.\d+|\bv[01]\b|20\d\d|main|nightly|latest|dev|branch|\bpr\b|image|[0-9a-f]{7}",
                       re.IGNORECASE)
_WIDE = re.compile(r"none|unquantized|bf16|bfloat|fp16|float16|half|auto|native|16-?bit", re.IGNORECASE)
_MOST_DEVICES = 64
_MOST_SEQS = 1024
"""The largest max_num_seqs that an engine takes by itself (256 on smaller cards); more requests wait."""


@dataclass(frozen=True)
class Remarks:
    """notes: sentences for the answer. variance: of ln(speed-up), from all that is assumed. draft_log_sd: standard
    deviation of ln(drafting time) from a drafter that nobody describes."""

    notes: tuple[str, ...]
    variance: float
    draft_log_sd: float


@lru_cache(maxsize=8192)
def _names_odd(engine: str, version: str | None, dtype: str | None, quantization: str | None) -> tuple[str, ...]:
    """Notes on names from which no release and no format can be read."""
    notes = []
    if engine not in ("vllm", "sglang"):
        notes.append(f"engine is {engine!r}: the step-time model knows vLLM and SGLang, and it is priced as vLLM")
    if version is not None and not _RELEASES.search(version):
        notes.append(f"engine_version is {version!r}, in which no release can be read: a usual one is assumed")
    elif version is not None and engine == "vllm" and _beyond(version):
        notes.append(f"engine_version is {version!r}, after the newest known release {newest()}: priced like that one")
    for name, text in (("dtype", dtype), ("quantization", quantization)):
        if text is not None and not _FORMATS.search(text):
            notes.append(f"{name} is {text!r}, in which no number format can be read: the catalog's, or 16 bits, is "
                         "assumed")
    if (
        quantization is not None and _FORMATS.search(quantization) and not _WIDE.search(quantization)
        and stored_bits(quantization, dtype, None) is None
    ):
        notes.append(f"quantization is {quantization!r}, which does not say how many bits a weight takes: the "
                     "catalog's, or 16, are assumed")
    return tuple(notes)


def _beyond(version: str) -> bool:
    found = re.match(r"v?(\d+)\.(\d+)", version)
    known = tuple(int(part) for part in newest().split(".")[:2])
    # A few releases more change little; a number far off is a slip, or another engine's.
    return found is not None and (int(found.group(1)), int(found.group(2))) > (known[0], known[1] + 6)


def _release_of(version: str | None) -> Release | None:
    """The release of vLLM that a case states; None where it states none that can be told."""
    try:
        return release(version.split()[0].rstrip(",")) if version else None
    except InputError:
        return None


@lru_cache(maxsize=8192)
def _refused(name: str, version: str | None, target: str | None) -> str | None:
    """Why vLLM runs no such speculation, as `advise` refuses it; None where it does, or nobody can tell.

    target: whose own layers draft; None where others do.
    """
    stated = _release_of(version)
    if stated is not None and name not in stated.methods | stated.v1_methods:
        return f"vLLM {stated.version} has no method {name}: priced as if it had"
    shape = shape_named(target) if target else None
    if shape is None:
        return None
    why = shape_refuses_mtp(shape, stated or release(newest()))
    if why is None and not shape.mtp_layers:
        why = f"{shape.id} has no multi-token-prediction layers in its checkpoint"
    return None if why is None else f"{why}: priced as if they ran"


def _not_run(case: Case) -> str | None:
    described = method(case.method)
    if case.engine != "vllm" or described.drafter == "none":
        return None
    return _refused(described.name, case.engine_version, case.target if case.drafts_itself else None)


def _devices(case: Case) -> str | None:
    tp = case.tensor_parallel
    if tp is None:
        return None
    if case.n_gpus is not None and tp > case.n_gpus:
        return f"tensor_parallel is {tp} and n_gpus is {case.n_gpus}: priced on {tp} devices"
    if tp & (tp - 1) or tp > _MOST_DEVICES:
        return (f"tensor_parallel is {tp}: engines split a model's heads evenly, which few models allow: priced as if "
                "this one did")
    return None


def remarks(case: Case, card: CardFacts, target: TargetFacts, draft: DraftFacts, devices: float) -> Remarks:
    """What is odd or missing in a case. devices: those it is priced on."""
    notes = list(case.notes)
    odd = _names_odd(case.engine, case.engine_version, case.dtype, case.quantization)
    notes += odd
    variance = _ODD**2 * len(odd)
    refused = _not_run(case)
    if refused:
        # What it would gain if it ran is no less sure for that it does not: the interval stays.
        notes.append(refused)
    split = _devices(case)
    if split:
        notes.append(split)
        variance += _ODD**2
    if case.gpu is None:
        notes.append(f"gpu is null: {card.name} is assumed")
        variance += _CARD**2
    if case.n_gpus is None and case.tensor_parallel is None and devices > 1:
        fits = target.params * target.bits / 8.0 / 2.0**30 <= card.memory_gib * devices
        notes.append(f"n_gpus is null: {devices:.0f} x {card.name} are assumed, "
                     + ("as many as hold the weights with room for KV" if fits else "which do not hold the weights"))
    if case.load_kind is None:
        notes.append("no load is stated: one request at a time is assumed")
        variance += _LOAD**2
    load = case.load_value or 0.0
    if case.load_kind in ("batch_size", "concurrency") and load > _MOST_SEQS:
        notes.append(f"{case.load_kind} is {load:,.0f}: engines run at most 256 to {_MOST_SEQS:,} requests at "
                     "once unless told otherwise (max_num_seqs): priced as if all whose KV fits ran")
        variance += _LOAD**2
    if case.k is None:
        notes.append("k is null: the method's usual one is assumed")
        variance += _DEPTH**2
    if "shape" in target.assumed:
        taken = f"the shape of {target.like}, which has this size and layers that draft," if target.like else (
            f"a usual shape of {target.params / 1e9:.3g} billion parameters")
        notes.append(f"the catalog does not know the target: {taken} is assumed")
        variance += _SHAPE**2
    if "active parameters" in target.assumed:
        notes.append("active_params_b is null: a tenth of the parameters is assumed")
        variance += _ACTIVE**2
    if case.gpu is not None and (case.tensor_parallel or case.n_gpus):
        weights = target.params * target.bits / 8.0 / 2.0**30
        held = card.memory_gib * max(devices, float(case.n_gpus or 0))
        if weights > held:
            notes.append(f"the target's weights take {weights:.0f} GiB and {max(devices, case.n_gpus or 0):.0f} x "
                         f"{card.name} hold {held:.0f}: priced as if they fitted; is quantization or n_gpus missing?")
            variance += _DOES_NOT_FIT**2
    if case.tree:
        notes.append("tree is true: priced as a chain of k tokens, which is what vLLM drafts")
        variance += _ODD**2
    draft_log_sd = 0.0
    if draft.assumed:
        model = method(case.method).drafter == "model"
        draft_log_sd = DRAFT_SIZE if model else HEAD_SHAPE
        if model:
            notes.append(f"draft and draft_params_b are null: a draft of {draft.read_params / 1e9:.2g} billion "
                         "parameters is assumed")
    return Remarks(tuple(notes), variance, draft_log_sd)
