"""What draft would pay here: speed-up over the size of a draft and its acceptance length, whether or not it exists.

For drafts that someone may train or find: each size is priced as a draft model of that size beside this target, at the
load decided for, by the same code as every candidate; one more row is a trained head of one target layer. Acceptance is
one number: the acceptance length at a reference k, spread evenly over the positions, and each cell takes the k that is
best there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from advisor.prediction import Pricing, price
from advisor.record import DraftMap, DraftMapRow
from advisor.request_time import Request
from advisor.situation import Situation
from profiles.catalog.shapes import AttentionGroup, ModelShape
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.methods import METHODS
from profiles.model_ref import ModelRef

REFERENCE_K = 5
_KS = tuple(range(1, 9))
_LENGTHS = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5)
_SIZES = (0.03e9, 0.1e9, 0.3e9, 1e9, 3e9, 10e9, 30e9)
_LARGEST_SHARE = 0.5
_HEADS = ("eagle3", "eagle")


def draft_map(pricing: Pricing) -> DraftMap | None:
    """The map at the load decided for; None where this release starts no method that could use such a draft."""
    situation = pricing.situation
    drafts = dict(_hypothetical(situation))
    if not drafts:
        return None
    ks = tuple(k for k in _KS if k < 2 * REFERENCE_K)
    candidates = tuple(
        Candidate(method=name, draft=ModelRef(id=shape.id), k=ks) for (name, _), shape in drafts.items()
    )
    # Evidence about the user's own candidates stays in: the target's step may have been timed.
    wider = replace(
        situation,
        drafts={**situation.drafts, **{shape.id: shape for shape in drafts.values()}},
        candidates=(*situation.candidates, *candidates),
    )
    # Whether they could be served as they are is not asked of drafts that do not exist.
    priced = price(wider, pricing.unusable)
    running = pricing.running
    base = priced.request(NO_SPECULATION, 0, min(float(running), priced.limit(NO_SPECULATION)))
    rates = [rate_of(length, REFERENCE_K) for length in _LENGTHS]
    rows = []
    for candidate, shape in zip(candidates, drafts.values(), strict=True):
        fitting = [k for k in ks if priced.plan(candidate, k).fits is not False]
        cells = [_Cell.of(priced, candidate, k, running, base) for k in fitting]
        best = [_best(cells, rate) for rate in rates]
        rows.append(
            DraftMapRow(
                method=candidate.method,
                params=shape.params,
                fits=bool(cells),
                speedup=tuple(None if found is None else round(found[0], 4) for found in best),
                k=tuple(None if found is None else found[1] for found in best),
                break_even_acceptance_length=_break_even(cells),
            )
        )
    return DraftMap(
        running=running,
        reference_k=REFERENCE_K,
        acceptance_lengths=_LENGTHS,
        rows=tuple(rows),
        cost_source=pricing.cost.description,
    )


@dataclass(frozen=True)
class _Cell:
    """One draft at one k, its times known and its acceptance open. Milliseconds of one request."""

    k: int
    prefill_ms: float
    decode_ms: float
    """All decode steps of a request if each gave one token."""
    even_ms: float
    """The whole time at which speculation neither gains nor loses."""

    @classmethod
    def of(cls, pricing: Pricing, candidate: Candidate, k: int, running: int, base: Request) -> _Cell:
        own = pricing.request(candidate, k, min(float(running), pricing.limit(candidate, k)))
        even = own.running * own.output_tokens * 1000.0 / base.tokens_per_s
        return cls(k, own.running * own.prefill_ms, own.steps * own.acceptance_length * own.step.ms, even)

    def speedup(self, rate: float) -> float:
        """End-to-end speed-up where each position is accepted with probability `rate` once all before it were."""
        return min(self.k + 1.0, self.even_ms / (self.prefill_ms + self.decode_ms / length_of(rate, self.k)))

    def even_rate(self) -> float | None:
        """The acceptance from which on this k gains; None where not even full acceptance does."""
        budget = self.even_ms - self.prefill_ms
        if budget <= 0 or self.decode_ms / budget >= self.k + 1.0:
            return None
        return rate_of(max(1.0, self.decode_ms / budget), self.k)


def length_of(rate: float, k: int) -> float:
    """Acceptance length at k, bonus included, where every position has the same conditional acceptance."""
    return k + 1.0 if rate >= 1.0 else (1.0 - rate ** (k + 1)) / (1.0 - rate)


def rate_of(length: float, k: int) -> float:
    """The conditional acceptance that gives an acceptance length between 1 and k + 1 at k, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if length_of(middle, k) < length else (low, middle)
    return (low + high) / 2


def _best(cells: list[_Cell], rate: float) -> tuple[float, int] | None:
    """The best speed-up and its k; of equals the smaller k."""
    return max(((cell.speedup(rate), cell.k) for cell in cells), key=lambda found: (found[0], -found[1]), default=None)


def _break_even(cells: list[_Cell]) -> float | None:
    """Smallest acceptance length at the reference k from which on some k gains; None where none does."""
    rates = [rate for cell in cells if (rate := cell.even_rate()) is not None]
    return round(length_of(min(rates), REFERENCE_K), 3) if rates else None


def _hypothetical(situation: Situation) -> Iterator[tuple[tuple[str, int], ModelShape]]:
    """Shapes of the rows, by method and size: models up to half the target, and one head."""
    target, release = situation.target, situation.release
    on_cpu = situation.runner == "cpu"

    def starts(name: str) -> bool:
        return name in release.methods and (METHODS[name].runs_on_cpu or not on_cpu)

    head = next((name for name in _HEADS if starts(name)), None)
    if head is not None:
        shape = head_like(target)
        yield (head, shape.params), shape
    if starts("draft_model"):
        for params in _SIZES:
            if params <= _LARGEST_SHARE * target.params:
                yield ("draft_model", int(params)), model_like(target, params)


def model_like(target: ModelShape, params: float) -> ModelShape:
    """A dense model of so many parameters that speaks the target's tokens, in the proportions small models have.

    Depth grows with the logarithm of the size (16 layers at 0.5 B); a layer has about 12 x hidden squared parameters;
    the embedding table is tied; keys and values are a quarter of the width, as with grouped heads.
    """
    layers = max(4, min(64, round(16 + 4 * math.log2(params / 0.5e9))))
    vocabulary = float(target.vocab_size)
    # 12 n h^2 + V h = params, for h.
    width = (-vocabulary + math.sqrt(vocabulary**2 + 48.0 * layers * params)) / (24.0 * layers)
    hidden = max(64, round(width / 64) * 64)
    return ModelShape(
        id=f"hypothetical-draft-{params / 1e9:g}b",
        params=round(params),
        active_params=round(params),
        embedding_params=target.vocab_size * hidden,
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=3 * hidden,
        vocab_size=target.vocab_size,
        attention=(AttentionGroup(kind="full", layers=layers, kv_heads=max(1, hidden // 256), head_dim=64),),
        tie_word_embeddings=True,
        max_position_embeddings=target.max_position_embeddings,
        tokenizer=target.tokenizer,
        origin="made up: the proportions of published small models",
    )


def head_like(target: ModelShape) -> ModelShape:
    """A trained head as they are published: one dense layer of the target's width, the target's vocabulary shared."""
    hidden = target.hidden_size
    groups = [group for group in target.attention if group.kind in ("full", "sliding")]
    kept = groups[0].kv_heads * groups[0].head_dim if groups else hidden // 4
    own = round(hidden * hidden * 3 + 2 * hidden * 2 * kept + 4 * hidden * hidden + 9 * hidden * hidden)
    return ModelShape(
        id="hypothetical-head",
        params=own,
        active_params=own + target.vocab_size * hidden,
        num_layers=1,
        hidden_size=hidden,
        num_attention_heads=target.num_attention_heads,
        intermediate_size=3 * hidden,
        vocab_size=target.vocab_size,
        attention=(AttentionGroup(kind="full", layers=1, kv_heads=max(1, kept // 128), head_dim=128),),
        max_position_embeddings=target.max_position_embeddings,
        tokenizer=target.tokenizer,
        origin="made up: one layer of the target's width",
    )
