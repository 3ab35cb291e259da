"""The longest request an engine lets in (max_model_len), and whether the memory left for KV can hold one of it.

vLLM refuses to start where it cannot: "To serve at least one request with the model's max seq len ..."
(`_check_enough_kv_cache_memory` in v1/core/kv_cache_utils.py, 0.32, after taking off the one block that is never
handed out; older releases compare the tokens of the pool).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.cost.kv_pool import Pool
from advisor.cost.stated_kv import StatedKv
from advisor.situation import Situation
from advisor.workload_load import traffic_of
from profiles.deployment import Engine
from profiles.traffic import RequestsEvidence
from profiles.workload import Lengths

UNSURE = 0.1
"""Share by which the memory left for KV may differ from the plan: start-up logs differ by 3 % at most
(docs/accuracy-memory.md), and those logs are few."""
_STEPS = ((16384, 1024), (2048, 256), (0, 16))
"""From which length on a written max-model-len is rounded down to which multiple."""


@dataclass(frozen=True)
class Window:
    """max_model_len as the engine takes it when nothing more is written."""

    tokens: int
    known: bool
    """False where neither the deployment nor the model says it: `tokens` is then what the workload needs."""
    stated: bool
    needed: int
    """Longest request that the workload is known to bring, `tokens` at most."""
    tail_known: bool
    """Whether `needed` rests on a percentile or a maximum; else it is the mean alone, and longer ones will come."""


def window_of(situation: Situation) -> Window:
    """The window of a situation: stated, else the model's own."""
    engine = situation.deployment.engine
    # Rope scaling that is passed through makes the model's window another one.
    own = None if _stretched(engine) else situation.target.max_position_embeddings
    stated = engine.max_model_len
    needed, tail = needed_tokens(situation)
    tokens = stated or own or needed
    return Window(tokens, (stated or own) is not None, stated is not None, min(needed, tokens), tail)


def _stretched(engine: Engine) -> bool:
    names = {name.lstrip("-").replace("-", "_").split(".")[0] for name in engine.extra_args}
    return bool(names & {"hf_overrides", "rope_scaling", "rope_theta", "rope_parameters"})


def needed_tokens(situation: Situation) -> tuple[int, bool]:
    """Tokens of the longest request that is known to come, prompt and output, and whether that is more than a mean.

    The 99th percentile where there is one: the longest ever seen may be a freak.
    """
    traffic = traffic_of(situation)
    workload, server = situation.deployment.workload, situation.server
    recorded = next((e.requests for e in reversed(situation.evidence) if e.requests is not None), None)
    prompt = _tail(traffic.prompt_tokens, workload.prompt_tokens, _of(recorded, "prompt_tokens"),
                   server.prompt_tokens if server is not None else None)
    output = _tail(traffic.output_tokens, workload.output_tokens, _of(recorded, "output_tokens"),
                   server.output_tokens if server is not None else None)
    return math.ceil(prompt[0] + output[0]), prompt[1] and output[1]


def _of(recorded: RequestsEvidence | None, kind: str) -> Lengths | None:
    found = getattr(recorded, kind, None)
    return found if isinstance(found, Lengths) else None


def _tail(mean: float, *sources: Lengths | None) -> tuple[float, bool]:
    """From the first source that says anything, the one the mean is taken from."""
    lengths = next((found for found in sources if found is not None), None)
    if lengths is not None:
        for value in (lengths.p99, lengths.max, lengths.p95, lengths.p90):
            if value is not None:
                return max(mean, value), True
    return mean, False


@dataclass(frozen=True)
class Side:
    """One side of the comparison on one GPU: with or without speculation."""

    pool: Pool
    left: float | None
    """Bytes left for KV beside weights and what a step takes; None where the memory is unknown."""
    window: Window
    by_length: bool
    """Whether the release counts the pool in requests of max_model_len."""
    measured: int | None = None
    """KV tokens that an engine of this deployment has reported."""
    stated: StatedKv | None = None
    """The size that the options ask for, whatever is left."""

    @property
    def available(self) -> float | None:
        """Bytes of the KV cache: what is stated, else what is left; None where neither is known."""
        return self.left if self.stated is None else self.stated.bytes_of(self.pool)

    @property
    def kv_fits(self) -> bool | None:
        """Whether a KV cache of a stated size is there to be had: False where even a tenth more memory would not do,
        None within that, where no size is stated, or where the memory is unknown."""
        if self.stated is None or self.left is None or self.available is None:
            return None
        return True if self.available <= self.left else None if self.available <= (1.0 + UNSURE) * self.left else False

    def holds(self, tokens: int, share: float = 1.0) -> bool | None:
        """Whether one request of so many tokens fits into a share of the memory planned with, or into all of a stated
        size, which is sure; None where unknown."""
        if self.measured is not None:
            return self.measured >= tokens
        share = 1.0 if self.stated is not None else share
        return None if self.available is None else self.pool.holds(self.available * share, tokens)

    @property
    def window_fits(self) -> bool | None:
        """Whether the engine starts with its window: False where even a tenth more memory would not do, None where it
        is within that, or unknown."""
        if not self.window.known or self.holds(self.window.tokens) is None:
            return None
        if self.holds(self.window.tokens):
            return True
        return None if self.holds(self.window.tokens, 1.0 + UNSURE) else False

    @property
    def longest(self) -> int | None:
        """Longest request that fits alone, at most the window."""
        return self._longest(1.0)

    def _longest(self, share: float) -> int | None:
        if self.measured is not None:
            return min(self.measured, self.window.tokens)
        share = 1.0 if self.stated is not None else share
        return None if self.available is None else self.pool.longest_request(self.available * share, self.window.tokens)

    @property
    def to_write(self) -> int | None:
        """The max-model-len a config has to state so that the engine starts, where nobody stated one: as long as
        surely fits, and what the workload needs where that is more and fits. None where the model's own fits."""
        window, most = self.window, self.longest
        if window.stated or not window.known or most is None or self.holds(window.tokens, 1.0 - UNSURE):
            return None
        sure = rounded_down(self._longest(1.0 - UNSURE) or 0)
        return max(sure, min(window.needed, most)) or None

    @property
    def tokens(self) -> int | None:
        """KV tokens as the start-up log names them, with the window the engine is started with."""
        return self.tokens_with(self.started_with)

    @property
    def started_with(self) -> int:
        """max_model_len that the engine is started with: the one that has to be written, else the window itself."""
        return self.to_write or self.window.tokens

    def tokens_with(self, max_model_len: int) -> int | None:
        """KV tokens as the start-up log of an engine with this max_model_len names them; None where unknown."""
        if self.measured is not None:
            return self.measured
        if self.available is None:
            return None
        return self.pool.tokens(self.available, max_model_len, by_length=self.by_length)

    def concurrency(self, tokens: float, limit: int | None) -> float | None:
        """Requests of so many tokens that run at once, `limit` at most."""
        if self.measured is not None:
            found: float | None = self.measured / tokens
        else:
            found = None if self.available is None else self.pool.concurrency(self.available, tokens)
        return found if found is None or limit is None else min(found, float(limit))


def rounded_down(tokens: int) -> int:
    """A length people can read and remember, at most `tokens`."""
    step = next(step for least, step in _STEPS if tokens >= least)
    return tokens // step * step
