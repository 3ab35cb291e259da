"""The loops of n-gram replay as numba compiles them (extras `logs` and `plan`): what `ngram` and `walk` do for whole
conversations at once is done place by place here, several times faster. Without numba, or for little text, they are not
used.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from probes.replay.walk import Ints

FROM_TOKENS = 100_000
"""Tokens, over all settings, from which compiled loops save more than loading the compiler takes."""
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number whose bits look random: the upper bits of a product with it tell where a number is looked for first."""


class Loops(NamedTuple):
    """Compiled `_sources`, `_reach` and `_visited`."""

    sources: Any
    reach: Any
    visited: Any


def worth_compiling(tokens: int) -> bool:
    """Whether so many tokens, over all settings, are worth it and numba is installed; nothing is imported."""
    return tokens >= FROM_TOKENS and importlib.util.find_spec("numba") is not None


@lru_cache(maxsize=1)
def loops() -> Loops:
    """The compiled loops: from the cache beside the module, where it can be written, else compiled by this process."""
    import numba

    parts = (_sources, _reach, _visited)
    try:
        return Loops(*(numba.njit(cache=True)(one) for one in parts))
    except RuntimeError:
        return Loops(*(numba.njit(one) for one in parts))


def _sources(ids: Ints, shortest: int, longest: int, start: int, token_bits: int, slot_bits: int) -> Ints:
    """`NgramIndex.sources`: where the draft at each place from `start` on is copied from, or -1.

    An n-gram is known by its last token and by the earliest place of the n - 1 tokens before it, which two together are
    one number. Each length keeps a table of the earliest places, by that number.
    """
    count = len(ids)
    found = np.full(count - start, -1, dtype=np.int64)
    mask = (1 << slot_bits) - 1
    table = np.empty(1 << slot_bits, dtype=np.int32)
    codes = ids.copy()
    first = np.zeros(count, dtype=np.int64)
    for n in range(1, longest + 1):
        if n > 1:
            # Of single tokens the number itself is as good as a place, if the table of the places is not needed.
            for place in range(count - 1, n - 2, -1):
                before = first[place - 1] if n > 2 or shortest == 1 else ids[place - 1]
                codes[place] = (before << token_bits) | ids[place]
        elif shortest > 1:
            continue
        table[:] = -1
        again = False
        for place in range(n - 1, count):
            code = codes[place]
            slot = np.int64((np.uint64(code) * np.uint64(_SPREAD)) >> np.uint64(64 - slot_bits))
            while True:
                other = table[slot]
                if other < 0:
                    table[slot] = place
                    first[place] = place
                    break
                if codes[other] == code:
                    first[place] = other
                    again = True
                    if n >= shortest and place >= start:
                        found[place - start] = other + 1
                    break
                slot = (slot + 1) & mask
        if not again:
            break
    return found


def _reach(ids: Ints, sources: Ints, places: Ints, base: Ints, left: Ints, most: int, window: int) -> tuple[Ints, Ints]:
    """`Corpus.reach_and_offer`: for each step offset how far its draft agrees with the record, and its length."""
    reach = np.zeros(len(sources), dtype=np.int64)
    offered = np.zeros(len(sources), dtype=np.int64)
    for i in range(len(sources)):
        if sources[i] < 0:
            continue
        inside = places[i] - base[i]
        length = max(0, min(most, inside + 1 - sources[i], window - inside - 1))
        offered[i] = length
        source, ahead = sources[i] + base[i], places[i] + 1
        agreed = 0
        while agreed < min(length, left[i]) and ids[source + agreed] == ids[ahead + agreed]:
            agreed += 1
        reach[i] = agreed
    return reach, offered


def _visited(skips: Ints) -> Ints:
    """`walk.visited`: the offsets at which a step begins."""
    found = np.empty(len(skips), dtype=np.int64)
    steps, at = 0, 0
    while at < len(skips):
        found[steps] = at
        steps += 1
        at += skips[at] + 1
    return found[:steps]
