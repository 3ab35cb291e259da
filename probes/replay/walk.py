"""Verification without an engine: a step's draft is compared with what was recorded, the accepted prefix and the bonus
token are taken, and the next step starts behind them.

All requests stand in one row of step offsets, one behind the other. The offset of a request's output token t is the
step whose context ends with it: the prefill gave token 0, so the first step is at t = 0 and the last one at the last
token but one, behind which one recorded token is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tallies:
    """Every request at one k: a row a request, a column a position."""

    k: int
    steps: Ints
    """(requests,)"""
    observed: Floats
    """Steps whose outcome at the position is known: near the end a draft reaches past what was recorded."""
    drafted: Floats
    """Of those, steps with a draft at least this long."""
    accepted: Floats
    """Of those, steps whose token there was accepted; expected numbers where acceptance is a probability."""

    @classmethod
    def of(cls, k: int, requests: int, owner: Ints, offered: Ints, accepted: Ints, left: Ints) -> Tallies:
        """From single steps: whose each is, what it drafted, what was accepted of it, and how many recorded tokens
        it had before it."""
        kinds = (np.minimum(left, k), np.minimum(np.minimum(offered, left), k), np.minimum(accepted, k))
        row = 3 * (k + 1) * owner
        counts = np.bincount(np.concatenate([row + (value + i * (k + 1)) for i, value in enumerate(kinds)]),
                             minlength=3 * (k + 1) * requests).reshape(requests, 3, k + 1)
        # In column i of the sums from the right: how many of a request's values are i or more.
        above = np.cumsum(counts[:, :, ::-1], axis=2)[:, :, ::-1].astype(np.float64)
        return cls(k, counts[:, 0].sum(axis=1), above[:, 0, 1:], above[:, 1, 1:], above[:, 2, 1:])

    def of_requests(self, chosen: Flags) -> Tallies:
        """The chosen rows."""
        return Tallies(self.k, self.steps[chosen], self.observed[chosen], self.drafted[chosen], self.accepted[chosen])


@dataclass(frozen=True)
class Row:
    """The step offsets of all requests, one behind the other."""

    counts: Ints
    """Offsets of each request: its output tokens less one."""

    @cached_property
    def owner(self) -> Ints:
        """Whose each offset is."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def left(self) -> Ints:
        """Recorded tokens behind each offset, within its request."""
        return np.repeat(np.cumsum(self.counts), self.counts) - np.arange(int(self.counts.sum()))


def walk(row: Row, reach: Ints, offered: Ints, ks: Sequence[int], chance: Floats | None = None,
         visits: Callable[[Ints], Ints] | None = None) -> list[Tallies]:
    """Every k, for drafts of which a shorter one is the beginning of a longer one.

    Args:
        reach: for each offset, how many drafted tokens agree with the record (at most those offered and left).
        offered: for each offset, the length of the draft there.
        chance: probability that the target takes the draft's choice for the token behind each offset; without it
            agreement with the recorded token counts, which has the same mean and more noise.
        visits: a faster `visited`.
    """
    owner, left = row.owner, row.left
    tallied: list[Tallies] = []
    for k in ks:
        # A step that takes all that is left ends on the next request's first offset.
        at = (visits or visited)(np.minimum(np.minimum(reach, k), left - 1))
        tallies = Tallies.of(k, len(row.counts), owner[at], offered[at], reach[at], left[at])
        if chance is not None:
            # The last factor is the probability itself, the ones before it happened: less noise, the same mean.
            expected = np.zeros_like(tallies.accepted)
            for i in range(k):
                reached = at[(reach[at] >= i) & (left[at] > i)]
                np.add.at(expected[:, i], owner[reached], chance[reached + i])
            tallies = Tallies(k, tallies.steps, tallies.observed, tallies.drafted, expected)
        tallied.append(tallies)
    return tallied


def visited(skips: Ints) -> Ints:
    """The offsets at which a step begins, each passing over as many as `skips` says there. Only those that pass over
    any are followed one by one: most steps go on to the next offset."""
    places = np.flatnonzero(skips)
    if not len(places):
        return np.arange(len(skips))
    ends = places + skips[places] + 1
    # Of each of them the next one that no step before it passes over.
    following = np.searchsorted(places, ends).tolist()
    begun = bytearray(len(places))
    at, count = 0, len(places)
    while at < count:
        begun[at] = 1
        at = following[at]
    steps = np.frombuffer(begun, dtype=np.bool_)
    # Between two stretches that are passed over a step begins: no edge is that of both.
    edges = np.zeros(len(skips) + 1, dtype=np.int8)
    edges[places[steps] + 1] = 1
    edges[ends[steps]] = -1
    return np.flatnonzero(np.cumsum(edges[:-1], dtype=np.int8) == 0)


def run_lengths(row: Row, matches: Flags, most: int) -> Ints:
    """For each offset, how many matches follow one another from there on within the request, at most `most`."""
    misses = np.append(np.flatnonzero(~matches), len(matches))
    places = np.arange(len(matches))
    ahead = misses[np.searchsorted(misses, places)] - places
    lengths: Ints = np.minimum(np.minimum(ahead, row.left), most).astype(np.int64)
    return lengths
