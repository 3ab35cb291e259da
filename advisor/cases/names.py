"""What the names in a case say by themselves: a model's size, its weights' format, and what the catalog has like it."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

from profiles.catalog.models import catalog_ids

_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s?b(?![a-z0-9])", re.IGNORECASE)
_MILLIONS = re.compile(r"(?<![\d.])(\d{2,3})\s?m(?![a-z0-9])", re.IGNORECASE)
_ACTIVE = re.compile(r"-?a(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)
_EXPERTS = re.compile(r"\bmoe\b|\d+x\d+(?:\.\d+)?b", re.IGNORECASE)
_ENDINGS = re.compile(
    r"[\s_-]*(?:\(.*?\)|awq|gptq|int4|int8|4bit|w4a16|w8a8|autoround|qat|fp8|nvfp4|mxfp4|mxfp8|gguf|bf16|"
    r"mtp|q4(?:_[a-z0-9]{1,2})*|unquantized|quantized|marlin|dynamic|\d{4})+$",
    re.IGNORECASE,
)


MODEL_B, DRAFT_B = (0.001, 10_000.0), (0.0001, 10_000.0)
"""Billions of parameters that a target and a draft can have: from toys of a million (heads of a tenth of that) to
several times the largest model known."""
_SIZES_BY_NAME = {"glm-ocr": 0.9}
"""Billions of parameters of models that are in no catalog and do not say it in their name (their model cards do)."""


def spellings(text: str) -> list[str]:
    """Spellings under which the catalog may know a model, most exact first."""
    found = [text]
    bare = re.sub(r"\s*\(.*?\)\s*", " ", text).strip()
    bare = re.sub(r"^\d+x?\s+", "", bare)
    found.append(bare)
    shorter = bare
    for _ in range(4):
        cut = _ENDINGS.sub("", shorter)
        if cut == shorter:
            break
        shorter = cut
    found += [shorter, shorter.rsplit("/", 1)[-1], shorter.rsplit(" ", 1)[-1], shorter.replace(" ", "-")]
    return [name for name in dict.fromkeys(found) if name]


def stored_bits(quantization: str | None, dtype: str | None, name: str | None) -> tuple[float, int, bool] | None:
    """Bits a stored weight takes, bits its products are computed in, and whether only the weights are that narrow.

    None where nothing says: 16-bit weights, or whatever the catalog's shape has.
    """
    for text in (quantization, dtype, name):
        if not text:
            continue
        low = text.lower()
        if re.search(r"nvfp4|mxfp4", low):
            return 4.5, 4, False
        if re.search(r"fp4(?!\d)", low):
            return 4.5, 4, False
        if re.search(r"w4a16|int4|awq|gptq|4-?bit|autoround|q4|wna16|marlin|u4|nf4|bnb|bitsandbytes", low):
            return 4.25, 16, True
        if "native" in low and name and "deepseek" in name.lower():
            # Trained and published in eight bits.
            return 8.05, 8, False
        if re.search(r"kv ?cache", low):
            continue
        if re.search(r"fp8|w8a8|int8|mxfp8|8-?bit|q8", low):
            return 8.05, 8, False
    return None


def is_mixture(name: str) -> bool:
    """Whether a model's name says that it is a mixture of experts."""
    return _EXPERTS.search(name) is not None


def sizes_in_name(name: str | None) -> tuple[float | None, float | None]:
    """Billions of parameters and of active ones, as far as a model's name says them."""
    if not name:
        return None, None
    known = _SIZES_BY_NAME.get(name.rsplit("/", 1)[-1].lower())
    if known is not None:
        return known, None
    active = _ACTIVE.search(name)
    bare = _ACTIVE.sub(" ", name)
    sizes = [float(size) for size in _SIZE.findall(bare)]
    sizes = sizes or [float(size) / 1000.0 for size in _MILLIONS.findall(bare)]
    # Digits before a b that no model has parameters for count something else.
    sizes = [size for size in sizes if DRAFT_B[0] <= size <= DRAFT_B[1]]
    used = float(active.group(1)) if active else None
    return (max(sizes) if sizes else None), (used if used and MODEL_B[0] <= used <= MODEL_B[1] else None)


def near_models(name: str | None) -> str:
    """The end of a sentence about an unknown name: what the catalog has like it."""
    if not name:
        return ""
    known = {model_id.rsplit("/", 1)[-1].lower(): model_id for model_id in catalog_ids()}
    near = difflib.get_close_matches(name.rsplit("/", 1)[-1].lower(), known, n=3, cutoff=0.6)
    return f"; near it: {', '.join(known[key] for key in near)}" if near else ""


def families_in_name(name: str | None) -> frozenset[str]:
    """The catalog's families that a model's name is of or speaks of: `qwen` of `acme/Qwen3.6-Tuned`."""
    words = re.findall(r"[a-z]+", name.rsplit("/", 1)[-1].lower()) if name else []
    return frozenset(words) & _families()


@lru_cache(maxsize=1)
def _families() -> frozenset[str]:
    firsts = (re.match(r"[a-z]+", model_id.rsplit("/", 1)[-1].lower()) for model_id in catalog_ids())
    return frozenset(first.group() for first in firsts if first is not None)
