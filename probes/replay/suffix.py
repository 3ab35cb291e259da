"""Suffix decoding over recorded outputs, by arctic-inference's own cache, called as vLLM 0.32 calls it.

Answers of earlier requests help later ones, so order matters: requests enter in the order they arrived, `running` of
them side by side, and each step of all of them comes before the next step of any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.replay.walk import Tallies
from profiles.errors import InputError

Tokens = npt.NDArray[np.int32]


@dataclass
class _Active:
    """A request on its way."""

    place: int
    ids: Tokens
    prompt: int
    context: int
    """Tokens so far, prompt included."""
    draft: list[int] = field(default_factory=list)


def suffix_cache(settings: Mapping[str, Any]) -> Any:
    """A fresh cache as vLLM makes it. InputError where the package is missing."""
    try:
        from arctic_inference.suffix_decoding import SuffixDecodingCache
    except ImportError as error:
        raise InputError(
            "suffix decoding is replayed by arctic-inference's own code, which cannot be imported here "
            f"({type(error).__name__}): install specadvise[suffix] (Python 3.11 or newer), or replay other methods"
        ) from error
    return SuffixDecodingCache(
        max_tree_depth=int(settings["suffix_decoding_max_tree_depth"]),
        max_cached_requests=int(settings["suffix_decoding_max_cached_requests"]),
    )


def replay_suffix(
    requests: Sequence[tuple[Sequence[int], int]], settings: Mapping[str, Any], k: int, running: int = 1,
    max_model_len: int | None = None,
) -> Tallies:
    """One row a request, in the given order.

    Args:
        requests: (prompt and output ids, number of prompt tokens), in the order of arrival.
        settings: every suffix setting, as `full_settings` gives them.
        k: num_speculative_tokens; a smaller one gives other drafts, not shorter ones.
        running: requests side by side.
    """
    cache = suffix_cache(settings)
    waiting = deque(enumerate(requests))
    active: list[_Active] = []
    steps: list[tuple[int, int, int, int]] = []
    """Of each: request, drafted, accepted, recorded tokens left before it."""
    while waiting or active:
        while waiting and len(active) < running:
            place, (ids, prompt) = waiting.popleft()
            tokens = np.ascontiguousarray(ids, dtype=np.int32)
            active.append(_Active(place, tokens, prompt, prompt))
        for request in active:
            _step(cache, request, steps, settings, k, max_model_len)
        for request in [r for r in active if r.context >= len(r.ids)]:
            # The engine notices a step later that a request has left; nothing reads its own tree in between.
            cache.stop_request(request.place)
            active.remove(request)
    columns = np.array(steps, dtype=np.int64).T
    return Tallies.of(k, len(requests), *columns)


def _step(cache: Any, request: _Active, steps: list[tuple[int, int, int, int]], settings: Mapping[str, Any], k: int,
          max_model_len: int | None) -> None:
    """One engine step of a request: its draft is verified, and the next one proposed from what came out."""
    begin = request.context
    if begin == request.prompt:
        cache.start_request(request.place, request.ids[:begin])
        taken = 0
    else:
        recorded = request.ids[begin : begin + len(request.draft)].tolist()
        taken = next((i for i, (a, b) in enumerate(zip(request.draft, recorded, strict=False)) if a != b),
                     len(recorded))
        steps.append((request.place, len(request.draft), taken, len(request.ids) - begin))
    request.context = end = min(len(request.ids), begin + taken + 1)
    cache.add_active_response(request.place, request.ids[begin:end])
    request.draft = []
    room = k if max_model_len is None else min(k, max_model_len - end - 1)
    if end >= len(request.ids) or room <= 0:
        return
    depth = int(settings["suffix_decoding_max_tree_depth"])
    proposed = cache.speculate(
        request.place, request.ids[max(0, end - depth) : end], max_spec_tokens=room,
        max_spec_factor=float(settings["suffix_decoding_max_spec_factor"]),
        min_token_prob=float(settings["suffix_decoding_min_token_prob"]))
    request.draft = list(proposed.token_ids)
