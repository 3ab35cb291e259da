"""n-gram lookup as vLLM 0.32 drafts it, from an index that is built once for a conversation.

vLLM scans the whole context at every step: the longest n-gram of length min to max at the end of the context that
stands earlier in it, the earliest of its places, and the k tokens behind that. The earliest place of an n-gram never
changes as the context grows, so one table of earliest places a length answers every step, every k and every setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from probes.replay.compiled import Loops
from probes.replay.walk import Ints, Row, Tallies, walk
from profiles.schema import MAX_TOKENS

_BITS = 62


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
        self._groups: dict[int, tuple[Ints, Ints, Ints]] = {}
        self._repeats: dict[int, tuple[Ints, Ints]] = {}

    def repeats(self, n: int) -> tuple[Ints, Ints]:
        """Places at which an n-gram ends that ended earlier too, in no order, and where its earliest one did."""
        if n not in self._repeats:
            places, starts, lengths = self._grouped(n)
            earliest = np.repeat(places[starts], lengths)
            again = np.flatnonzero(places != earliest)
            self._repeats[n] = places[again], earliest[again]
        return self._repeats[n]

    def _code(self, n: int) -> tuple[Ints, int]:
        if n in self._codes:
            return self._codes[n]
        codes, bits = self._code(n - 1)
        if bits + self._token_bits + self._place_bits > _BITS:
            # No room for another token: the n-grams so far are numbered anew, by rank.
            places, _, lengths = self._grouped(n - 1)
            codes, bits = np.zeros(len(self.ids), dtype=np.int64), self._place_bits
            codes[places] = np.repeat(np.arange(len(lengths)), lengths)
        joined = self.ids.copy()
        joined[1:] |= codes[:-1] << self._token_bits
        self._codes[n] = (joined, bits + self._token_bits)
        return self._codes[n]

    def _grouped(self, n: int) -> tuple[Ints, Ints, Ints]:
        """Places ordered by n-gram, then by place; where each n-gram's group starts there, and its length. Places whose
        shorter n-gram was already known to be the only one of its kind are left out."""
        if n not in self._groups:
            codes, bits = self._code(n)
            places = self._shared(n)
            codes = codes[places]
            if bits + self._place_bits <= _BITS + 1:
                # Code and place in one number: a plain sort is several times faster than an indirect one.
                codes <<= self._place_bits
                codes |= places
                codes.sort()
                places = codes & ((1 << self._place_bits) - 1)
                codes >>= self._place_bits
            else:
                order = np.lexsort((places, codes))
                codes, places = codes[order], places[order]
            edges = np.flatnonzero(codes[1:] != codes[:-1])
            edges += 1
            starts = np.concatenate(([0], edges)) if len(places) else edges
            lengths = np.empty_like(starts)
            np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
            lengths[-1:] = len(places) - starts[-1:]
            self._groups[n] = places, starts, lengths
        return self._groups[n]

    def _shared(self, n: int) -> Ints:
        """Places whose n-gram may stand more than once."""
        known = max((shorter for shorter in self._groups if shorter < n), default=0)
        if not known:
            return np.arange(n - 1, max(n - 1, len(self.ids)), dtype=np.int64)
        places, _, lengths = self._groups[known]
        shared = places[np.repeat(lengths > 1, lengths)]
        return shared[shared >= n - 1]

    def sources(self, shortest: int, longest: int, start: int = 0, by: Loops | None = None) -> Ints:
        """For each place from `start` on: where the draft for the context that ends there is copied from, or -1.

        by: loops that do the same without an index.
        """
        if by is not None:
            slots = max(1, (2 * len(self.ids)).bit_length())
            found: Ints = by.sources(self.ids, shortest, longest, start, self._token_bits, slots)
            return found
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
    by: Loops | None = None
    """Compiled loops, where they are worth it."""

    @classmethod
    def of(cls, requests: Sequence[tuple[Sequence[int] | Ints, int]], by: Loops | None = None) -> Corpus:
        """From (prompt and output ids, number of prompt tokens) of each request."""
        indexes = [NgramIndex(ids) for ids, _ in requests]
        prompts = [prompt for _, prompt in requests]
        row = Row(np.array([len(index.ids) - prompt - 1 for index, prompt in zip(indexes, prompts, strict=True)]))
        starts = np.cumsum([0, *(len(index.ids) for index in indexes)])[:-1]
        base = np.repeat(starts, row.counts)
        inside = np.concatenate([np.arange(prompt, prompt + n)
                                 for prompt, n in zip(prompts, row.counts.tolist(), strict=True)])
        return cls(indexes, prompts, np.concatenate([index.ids for index in indexes]), row, base + inside, base, by)

    def reach_and_offer(self, shortest: int, longest: int, most: int,
                        max_model_len: int | None = None) -> tuple[Ints, Ints]:
        """For each step offset: how far the draft of at most `most` tokens agrees with the record, and its length."""
        sources = np.concatenate([index.sources(shortest, longest, prompt, self.by)[:-1]
                                  for index, prompt in zip(self.indexes, self.prompt_tokens, strict=True)])
        if self.by is not None:
            window = MAX_TOKENS if max_model_len is None else max_model_len
            reach, offered = self.by.reach(self.ids, sources, self.places, self.base, self.row.left, most, window)
            return reach, offered
        inside = self.places - self.base
        offered = np.where(sources >= 0, np.minimum(most, inside + 1 - sources), 0)
        if max_model_len is not None:
            offered = np.maximum(0, np.minimum(offered, max_model_len - inside - 1))
        sources = sources + self.base
        within = np.minimum(offered, self.row.left)
        reach = np.zeros(len(sources), dtype=np.int64)
        alive = np.flatnonzero(within > 0)
        for i in range(most):
            alive = alive[within[alive] > i]
            alive = alive[self.ids[sources[alive] + i] == self.ids[self.places[alive] + 1 + i]]
            if not len(alive):
                break
            reach[alive] += 1
        return reach, offered

    def replay(self, shortest: int, longest: int, ks: Sequence[int],
               max_model_len: int | None = None) -> list[Tallies]:
        """One setting at every k."""
        return walk(self.row, *self.reach_and_offer(shortest, longest, max(ks), max_model_len), ks,
                    visits=None if self.by is None else self.by.visited)


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
