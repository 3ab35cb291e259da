"""n-gram lookup as vLLM 0.32 drafts it, from an index that is built once for a conversation.

vLLM scans the whole context at every step: the longest n-gram of length min to max at the end of the context that
stands earlier in it, the earliest of its places, and the k tokens behind that. The earliest place of an n-gram never
changes as the context grows, so one table of earliest places a length answers every step, every k and every setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from probes.replay.walk import Ints, Row, Tallies, walk

_BITS = 62
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
"""Odd numbers whose bits look random: the upper bits of a product with one spread whatever is multiplied."""
_ROOM = 4
"""Slots for each n-gram that is looked for: few of them share one."""


class NgramIndex:
    """Earliest places of the n-grams of one conversation (prompt and output), by length, made when first asked for."""

    def __init__(self, ids: Sequence[int] | Ints) -> None:
        self.ids: Ints = np.asarray(ids, dtype=np.int64)
        largest = int(self.ids.max(initial=0))
        if len(self.ids) and int(self.ids.min()) < 0:
            raise ValueError("a token id is negative")
        self._token_bits = max(1, largest.bit_length())
        self._place_bits = max(1, len(self.ids).bit_length())
        self._codes: dict[int, tuple[Ints, int]] = {1: (self.ids, self._token_bits)}
        """By length: a number for the n-gram that ends at each place, equal for equal n-grams, and its bits."""
        self._firsts: dict[int, tuple[Ints, Ints]] = {}
        self._repeats: dict[int, tuple[Ints, Ints]] = {}

    def repeats(self, n: int) -> tuple[Ints, Ints]:
        """Places at which an n-gram ends that ended earlier too, in rising order, and where its earliest one did."""
        if n not in self._repeats:
            places, first = self._first(n)
            again = np.flatnonzero(first != np.arange(len(first)))
            self._repeats[n] = places[again], places[first[again]]
        return self._repeats[n]

    def _code(self, n: int) -> tuple[Ints, int]:
        if n in self._codes:
            return self._codes[n]
        codes, bits = self._code(n - 1)
        if bits + self._token_bits > _BITS:
            # No room for another token: an n-gram is as well known by its earliest place.
            places, first = self._first(n - 1)
            codes, bits = np.arange(len(self.ids), dtype=np.int64), self._place_bits
            codes[places] = places[first]
        joined = self.ids.copy()
        joined[1:] |= codes[:-1] << self._token_bits
        self._codes[n] = (joined, bits + self._token_bits)
        return self._codes[n]

    def _first(self, n: int) -> tuple[Ints, Ints]:
        """Places in rising order, and for each the number (from 0, among these) of the earliest one with its n-gram.
        Places whose shorter n-gram was already known to be the only one of its kind are left out."""
        if n not in self._firsts:
            places, codes = self._shared(n), self._code(n)[0]
            self._firsts[n] = places, first_equal(codes[places])
        return self._firsts[n]

    def _shared(self, n: int) -> Ints:
        """Places whose n-gram may stand more than once."""
        known = max((shorter for shorter in self._firsts if shorter < n), default=0)
        if not known:
            return np.arange(n - 1, max(n - 1, len(self.ids)), dtype=np.int64)
        places, first = self._firsts[known]
        several = first != np.arange(len(first))
        several[first[several]] = True
        shared = places[several]
        return shared[np.searchsorted(shared, n - 1):]

    def sources(self, shortest: int, longest: int, start: int = 0) -> Ints:
        """For each place from `start` on: where the draft for the context that ends there is copied from, or -1."""
        found = np.full(len(self.ids), -1, dtype=np.int64)
        for n in range(shortest, longest + 1):
            places, earliest = self.repeats(n)
            if not len(places):
                # What has not been said before in n tokens has not been in more.
                break
            # A longer one found overrules a shorter one.
            found[places] = earliest + 1
        return found[start:]

    def draft(self, place: int, shortest: int, longest: int, k: int, max_model_len: int | None = None) -> list[int]:
        """The draft for the context that ends at `place`: at most k tokens, none where nothing matches."""
        source = int(self.sources(shortest, longest, place)[0])
        if source < 0:
            return []
        room = k if max_model_len is None else max(0, min(k, max_model_len - place - 1))
        return [int(token) for token in self.ids[source : min(source + room, place + 1)]]


def first_equal(codes: Ints) -> Ints:
    """For each number the index of the first one that equals it.

    Each is put into the slot that its bits tell, from the last to the first, so that the first of a slot stays. Those
    that then find another number in theirs are put again, by other bits.
    """
    first = _first_in_slot(codes, _MULTIPLIERS[0])
    left = np.flatnonzero(codes[first] != codes)
    for multiplier in _MULTIPLIERS[1:]:
        if not len(left):
            return first
        values = codes[left]
        found = _first_in_slot(values, multiplier)
        first[left] = left[found]
        left = left[values[found] != values]
    if len(left):
        _, found, kind = np.unique(codes[left], return_index=True, return_inverse=True)
        first[left] = left[found[kind]]
    return first


def _first_in_slot(codes: Ints, multiplier: int) -> Ints:
    bits = max(1, (_ROOM * len(codes)).bit_length())
    slots = ((codes.view(np.uint64) * np.uint64(multiplier)) >> np.uint64(64 - bits)).view(np.int64)
    table = np.empty(1 << bits, dtype=np.int64)
    # Of equal slots the last assignment holds; both sides are copies, whose order nothing turns round.
    table[slots[::-1].copy()] = np.arange(len(codes) - 1, -1, -1)
    return table[slots]


@dataclass(frozen=True)
class Corpus:
    """All requests for n-gram replay: one index each, and their ids in one row."""

    indexes: Sequence[NgramIndex]
    prompt_tokens: Sequence[int]
    ids: Ints
    row: Row
    places: Ints
    """Where the context of each step offset ends, in `ids`."""
    base: Ints
    """Where the request of each step offset begins, in `ids`."""

    @classmethod
    def of(cls, requests: Sequence[tuple[Sequence[int] | Ints, int]]) -> Corpus:
        """From (prompt and output ids, number of prompt tokens) of each request."""
        indexes = [NgramIndex(ids) for ids, _ in requests]
        prompts = [prompt for _, prompt in requests]
        row = Row(np.array([len(index.ids) - prompt - 1 for index, prompt in zip(indexes, prompts, strict=True)]))
        starts = np.cumsum([0, *(len(index.ids) for index in indexes)])[:-1]
        base = np.repeat(starts, row.counts)
        inside = np.concatenate([np.arange(prompt, prompt + n)
                                 for prompt, n in zip(prompts, row.counts.tolist(), strict=True)])
        return cls(indexes, prompts, np.concatenate([index.ids for index in indexes]), row, base + inside, base)

    def reach_and_offer(self, shortest: int, longest: int, most: int,
                        max_model_len: int | None = None) -> tuple[Ints, Ints]:
        """For each step offset: how far the draft of at most `most` tokens agrees with the record, and its length."""
        sources = np.concatenate([index.sources(shortest, longest, prompt)[:-1]
                                  for index, prompt in zip(self.indexes, self.prompt_tokens, strict=True)])
        inside = self.places - self.base
        offered = np.where(sources >= 0, np.minimum(most, inside + 1 - sources), 0)
        if max_model_len is not None:
            offered = np.maximum(0, np.minimum(offered, max_model_len - inside - 1))
        sources = sources + self.base
        within = np.minimum(offered, self.row.left)
        reach = np.zeros(len(sources), dtype=np.int64)
        drafting = np.flatnonzero(within > 0)
        source, ahead = sources[drafting], self.places[drafting] + 1
        for i in range(most):
            agree = (self.ids[source + i] == self.ids[ahead + i]).nonzero()[0]
            drafting = drafting[agree]
            reach[drafting] = i + 1
            on = (within[drafting] > i + 1).nonzero()[0]
            if not len(on):
                break
            drafting, agree = drafting[on], agree[on]
            source, ahead = source[agree], ahead[agree]
        return reach, offered

    def replay(self, shortest: int, longest: int, ks: Sequence[int],
               max_model_len: int | None = None) -> list[Tallies]:
        """One setting at every k."""
        return walk(self.row, *self.reach_and_offer(shortest, longest, max(ks), max_model_len), ks)


def windows(longest: int) -> list[Mapping[str, int]]:
    """Every prompt_lookup_min and prompt_lookup_max up to `longest`."""
    return [_window(low, high) for high in range(1, longest + 1) for low in range(1, high + 1)]


def _window(shortest: int, longest: int) -> Mapping[str, int]:
    return {"prompt_lookup_min": shortest, "prompt_lookup_max": longest}


def chosen_windows(texts: Iterable[str]) -> list[Mapping[str, int]]:
    """Settings as people write them: `5` for both, or `2-4` for min and max. ValueError names what is wrong."""
    found = []
    for text in texts:
        low, dash, high = text.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise ValueError(f"{text!r} is no n-gram length: expected a number, or MIN-MAX like 2-4")
        shortest, longest = int(low), int(high or low)
        if not 1 <= shortest <= longest <= 64:
            raise ValueError(f"{text!r}: expected 1 <= MIN <= MAX <= 64")
        found.append(_window(shortest, longest))
    return found
