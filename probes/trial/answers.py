"""What a request showed: times, counts and hashes. The text itself is gone by the time an `Answer` exists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from probes.trial.plausibility import Divergence


@dataclass(frozen=True)
class Chunk:
    """A piece of a stream that brought tokens."""

    at_s: float
    """Seconds from the block's start."""
    tokens: int
    """Output tokens so far."""
    digest: bytes
    """First bytes of the sha256 of the text so far."""


@dataclass(frozen=True)
class Answer:
    """One request's times (seconds from the block's start), counts, and the hash of its text."""

    place: int
    prompt_tokens: int
    output_tokens: int
    sent_s: float
    first_s: float
    last_s: float
    chunks: tuple[Chunk, ...]
    speculation: dict[str, Any] | None = None
    """`metrics.speculative_decoding` of the response, where the server was started with it."""

    @property
    def ttft_ms(self) -> float:
        return (self.first_s - self.sent_s) * 1e3

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first; None for an answer of one token."""
        return (self.last_s - self.first_s) * 1e3 / (self.output_tokens - 1) if self.output_tokens > 1 else None


@dataclass(frozen=True)
class BlockRun:
    """All answers of one block."""

    wall_s: float
    answers: tuple[Answer, ...]

    @property
    def output_tokens(self) -> int:
        return sum(a.output_tokens for a in self.answers)

    def kept_at_load_s(self, running: int) -> float:
        """Seconds that the block's requests take of a server kept at `running`: the sum of theirs over that many side
        by side (Little's law). The block itself ends with the slowest of them alone."""
        return sum(a.last_s - a.sent_s for a in self.answers) / min(running, len(self.answers))

    def at_full_load(self, running: int) -> tuple[float, int]:
        """(seconds, tokens) of the time in which exactly `running` requests were decoding and none was in prefill."""
        running = min(running, len(self.answers))
        edges = sorted({t for a in self.answers for t in (a.sent_s, a.first_s, a.last_s)})
        seconds, tokens = 0.0, 0
        for begin, end in pairwise(edges):
            middle = (begin + end) / 2
            decoding = sum(a.first_s <= middle < a.last_s for a in self.answers)
            waiting = sum(a.sent_s <= middle < a.first_s for a in self.answers)
            if decoding == running and not waiting:
                seconds += end - begin
                tokens += sum(_tokens_between(a, begin, end) for a in self.answers)
        return seconds, tokens


def _tokens_between(answer: Answer, begin: float, end: float) -> int:
    before = 0
    gained = 0
    for chunk in answer.chunks:
        if begin < chunk.at_s <= end and chunk.at_s > answer.first_s:
            gained += chunk.tokens - before
        before = chunk.tokens
    return gained


def text_divergence(pairs: Iterable[tuple[Answer, Answer]]) -> Divergence:
    """How often two greedy answers to the same prompts part, from hashes of the text after the same number of tokens.

    A speculating server sends several tokens in a chunk, so a parting is placed at the end of the chunk it lies in.
    """
    requests = differing = tokens = 0
    first: int | None = None
    for left, right in pairs:
        requests += 1
        here = {chunk.tokens: chunk.digest for chunk in left.chunks}
        common = [(c.tokens, here[c.tokens] == c.digest) for c in right.chunks if c.tokens in here]
        parted = next((count for count, equal in common if not equal), None)
        if parted is None:
            # Answers of different length that agree as far as both go part where the shorter one ends.
            shorter = min(left.output_tokens, right.output_tokens)
            parted = shorter + 1 if left.output_tokens != right.output_tokens else None
            tokens += shorter
        else:
            tokens += parted
        if parted is not None:
            differing += 1
            first = parted - 1 if first is None else min(first, parted - 1)
    return Divergence(requests, differing, tokens, first)
