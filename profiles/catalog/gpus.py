"""Accelerators: their facts, and finding one by the name NVML gives it or people write."""

from __future__ import annotations

import difflib
import math
import re
from functools import lru_cache
from typing import Any, Literal

from profiles.catalog.compiled import compiled
from profiles.errors import InputError
from profiles.schema import Schema


class MeasuredRates(Schema):
    """Rates read off timed steps of a decoder on this card (`python -m benchmarks.gpu_step_time`, then `--fit`).

    Effective, not peak: a step is taken as launch + weights read + tokens computed + KV read, one after the other.
    """

    weights_gbs: float | None
    """Weights read, GB/s."""
    kv_gbs: float | None
    """KV read, GB/s."""
    bf16_tflops: float | None
    """Matrix products of the new tokens, TFLOP/s."""
    step_launch_ms: float
    """What a captured step takes beside them."""
    median_error: float
    """Median relative error of that sum over the cells, and the ninth tenth."""
    p90_error: float
    cells: int
    device: str
    driver: str | None
    torch: str | None
    command: str


class Gpu(Schema):
    """One accelerator. Rates are dense peaks; a figure nobody could read is null."""

    name: str
    """The catalog's name, e.g. `H100 SXM5 80GB`."""
    aliases: tuple[str, ...] = ()
    """NVML names and other spellings."""
    vendor: str
    """nvidia, amd, intel, google."""
    architecture: str
    compute_capability: str | None = None
    """CUDA compute capability, or the gfx name on AMD."""
    memory_gib: float
    """Total memory as the driver reports it where that was read (`memory_from`), else the size on the box."""
    memory_from: Literal["nvml", "box"] = "box"
    """nvml: read from the driver's total. box: the marketing size, up to 7 % more than the driver shows."""
    memory_bandwidth_gbs: float
    """Peak memory bandwidth, GB/s (10^9 bytes)."""
    unified_memory: bool = False
    """The memory is the host's; NVML reports no total."""
    dense_tflops: dict[str, float | None]
    """TFLOP/s (int8: TOP/s) by number format fp16, bf16, tf32, fp8, int8, fp4; dense, fp32 accumulate."""
    fp16_accumulate_tflops: dict[str, float | None] | None = None
    """The same with fp16 accumulate, on cards where that is faster (GeForce)."""
    nvlink_gbs: float | None = None
    """NVLink, GB/s per device, both directions together; null without NVLink."""
    link: str = ""
    """How devices reach each other: nvlink, nvlink bridge (pairs), pcie, infinity fabric, ici, ..."""
    link_gbs: float | None = None
    """Bandwidth of that link where it is not PCIe, GB/s per device, both directions together."""
    pcie: str | None = None
    """Generation and lanes, e.g. gen5 x16."""
    pcie_gbs: float | None = None
    measured: MeasuredRates | None = None
    """Used instead of the data sheet's figures where somebody timed the card."""
    tdp_w: float | None = None
    """Board power limit as shipped, watts."""
    common: bool = False
    """What people mean when a name fits several variants."""
    sources: dict[str, str]
    """Where each group of values was read."""
    check: Literal["ok", "unsure"]
    """ok: every group was read or derived from read values. unsure: see `unsure_groups` and `notes`."""
    unsure_groups: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def tflops(self, number_format: str) -> float | None:
        """Dense peak for a format, TFLOP/s; None where the card has no such units or none was read."""
        return self.dense_tflops.get(number_format)


# Words that name a maker, a brand or the plain fact of being a card: they never tell two catalog entries apart.
_NOISE = frozenset(
    {
        "nvidia",
        "amd",
        "intel",
        "google",
        "geforce",
        "tesla",
        "quadro",
        "instinct",
        "gpu",
        "graphics",
        "edition",
        "generation",
        "r",
        "tm",
        "card",
        "accelerator",
        "oam",
        "corporation",
        "hgx",
        "superchip",
        "tensor",
        "core",
    }
)
# Words that make another product of the same number: `4070` never means `4070 Ti SUPER`.
_PRODUCT = frozenset({"super", "ti", "d"})
# `8xH100`, `2 × A100`, `4*L40S`, `H100 x8`, `H100 (x4)`: how many there are is no part of a card's name.
_COUNT = re.compile(r"^\s*(?P<first>\d{1,3})\s*[x×*]\s*(?=[a-z])|[\s(]+[x×*]\s*(?P<last>\d{1,3})\)?\s*$", re.IGNORECASE)
_MIG = re.compile(r"[\s:,/-]*(?:\bMIG\b|\b\d+[cg]\.\d+gb).*$", re.IGNORECASE)
# Sizes, sockets and kinds of memory: many cards share them.
_SHARED = re.compile(r"\d+gb|sxm\d*|nvl\d*|hbm\d*e?|gddr\d*x?|pcie|gen\d+|x\d+")


def _words(name: str) -> tuple[str, ...]:
    """Lower-case words of a name without noise; `80 GB`, `80g` and `80GiB` all become `80gb`."""
    text = re.sub(r"(\d)\s*(?:gib|gb|g)\b", r"\1gb", name.lower())
    return tuple(word for word in re.split(r"[^a-z0-9]+", text) if word and word not in _NOISE)


def _tells_a_product(word: str) -> bool:
    """Whether a word has a model number in it, as `h100` and `4090` have and `rtx` and `80gb` have not."""
    return any(letter.isdigit() for letter in word) and _SHARED.fullmatch(word) is None


def count_in_name(name: str) -> tuple[int | None, str]:
    """How many cards a name says there are (`8xH100`), and the name without it; None where it does not say."""
    found = _COUNT.search(name)
    if found is None:
        return None, name
    rest = (name[: found.start()] + name[found.end() :]).strip()
    count = int(found["first"] or found["last"])
    return (count, rest) if rest and count > 0 else (None, name)


def _size_words(memory_gib: float) -> frozenset[str]:
    """`24gb` and its like for a card: people write the box's size, drivers report up to 9 % less."""
    return frozenset(f"{size}gb" for size in range(math.floor(memory_gib), math.ceil(memory_gib * 1.09) + 1))


def _squash(name: str) -> str:
    return "".join(_words(name))


@lru_cache(maxsize=1)
def gpus() -> tuple[Gpu, ...]:
    """Every accelerator of the catalog."""
    return tuple(Gpu.model_validate(entry) for entry in compiled("gpus"))


@lru_cache(maxsize=1)
def _index() -> tuple[dict[str, int], tuple[frozenset[str], ...], frozenset[str]]:
    """Exact squashed spellings, the words of each card, and every word that occurs."""
    exact: dict[str, int] = {}
    words: list[frozenset[str]] = []
    for number, entry in enumerate(compiled("gpus")):
        spellings = [entry["name"], *entry.get("aliases", ())]
        own: set[str] = set()
        for spelling in spellings:
            # The first card to claim a spelling keeps it; its own name always wins over another's alias.
            exact.setdefault(_squash(spelling), number)
            own.update(_words(spelling))
        own.update(re.sub(r"\d+$", "", word) for word in list(own) if word.startswith("sxm"))
        if not any(re.fullmatch(r"\d+gb", word) for word in own):
            # Its memory may be said where the name does not need it (`RTX 4090 24GB`).
            own.update(_size_words(entry["memory_gib"]))
        words.append(frozenset(own))
    for number, entry in enumerate(compiled("gpus")):
        exact[_squash(entry["name"])] = number
    return exact, tuple(words), frozenset(word for own in words for word in own)


def _segment(word: str, known: frozenset[str]) -> list[str]:
    """Split a run-together word (`h100sxm`, `rtx4090`) into known ones; itself where that is impossible."""
    if word in known:
        return [word]
    for cut in range(len(word) - 1, 1, -1):
        if word[:cut] in known:
            rest = _segment(word[cut:], known)
            if all(part in known for part in rest):
                return [word[:cut], *rest]
    return [word]


def _with_note(entry: dict[str, Any], *notes: str) -> Gpu:
    card = Gpu.model_validate(entry)
    return card.model_copy(update={"notes": (*card.notes, *notes)}) if notes else card


def find_gpu(name: str) -> Gpu:
    """The accelerator by its NVML name (`NVIDIA H100 80GB HBM3`) or as people write it (`h100`, `rtx pro 6000`).

    A name that fits several variants gives the common one, with a note that says so and lists the others.

    Raises:
        InputError: `cpu` (that is the CPU engine, not a GPU), a MIG slice (its compute is not modelled), a word that
            names no one card (`RTX`), or a name the catalog does not know; near names are listed.
    """
    asked = count_in_name(name.strip())[1]
    if _squash(asked) in ("cpu", "none"):
        raise InputError(
            f"gpu is {name!r}: that is vLLM's CPU engine, not a GPU; leave GPU facts out for it, or name "
            "an accelerator such as H100 or L40S"
        )
    notes: list[str] = []
    if _MIG.search(asked):
        raise InputError(
            f"gpu is {name!r}: a MIG slice, whose compute is not modelled; name the whole card "
            "and state the slice's memory in hardware.memory_gib, if the whole card's "
            "speed will do"
        )
    entries = compiled("gpus")
    exact, words, known = _index()
    driver = {
        alias.lower(): number
        for number, entry in enumerate(entries)
        for alias in entry.get("aliases", ())
        if alias.startswith(("NVIDIA ", "Tesla ", "AMD ", "Intel(R) "))
    }
    if asked.lower() in driver:
        # A driver's full name is one card, whatever longer names contain it.
        return _with_note(entries[driver[asked.lower()]], *notes)
    # A DGX is a machine of such cards; the one card called so is found by its whole name.
    query = {part for word in _words(asked) for part in _segment(word, known)} - {"dgx"}
    fits = [number for number, own in enumerate(words) if query and query <= own and query & _PRODUCT == own & _PRODUCT]
    hit = exact.get(_squash(asked))
    if hit is None and not fits:
        raise InputError(_unknown(name))
    if hit is None and not any(_tells_a_product(word) for word in query):
        # `TPU` or `RTX` is a maker's word: whichever card it were taken for would be a guess.
        cards = ", ".join(entries[number]["name"] for number in fits[:4])
        raise InputError(f"gpu is {name!r}: that names no one card; expected a full name such as {cards}")
    if hit is None or (
        _squash(entries[hit]["name"]) != _squash(asked) and any(entries[number].get("common") for number in fits)
    ):
        hit = min(fits, key=lambda number: (not entries[number].get("common", False), len(words[number]), number))
    others = [entries[number]["name"] for number in fits if number != hit]
    if others:
        notes.append(f"{asked!r} fits several: taken as {entries[hit]['name']}; also {', '.join(others[:5])}")
    return _with_note(entries[hit], *notes)


def _unknown(name: str) -> str:
    entries = compiled("gpus")
    spellings = {
        _squash(alias): entry["name"] for entry in entries for alias in (entry["name"], *entry.get("aliases", ()))
    }
    near = difflib.get_close_matches(_squash(name), spellings, n=6, cutoff=0.5)
    names = list(dict.fromkeys(spellings[spelling] for spelling in near))[:3]
    hint = f"near it: {', '.join(names)}" if names else "for example H100, A100 80GB, L40S, RTX 4090, MI300X"
    return (
        f"gpu is {name!r}: not in the catalog of {len(entries)} accelerators; {hint}; use one of those names, or "
        "`cpu` for the CPU engine"
    )
