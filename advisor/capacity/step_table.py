"""A cost model cut into tables, so that a simulated step costs two look-ups instead of a model's evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from advisor.acceptance import Acceptance
from advisor.cost.step import StepCost
from advisor.schedule import grid_of
from profiles.deployment import Candidate
from profiles.methods import method

_CONTEXTS = 9
_PROMPTS = 65


@dataclass(frozen=True)
class StepTable:
    """Milliseconds of a step. Between the points of context and tokens it is linear."""

    ks: tuple[int, ...]
    """The k of each row."""
    decode_ms: Any
    """(rows, 1 + most requests, contexts): a step in which so many requests decode."""
    context_step: float
    """Mean KV tokens of a request from one context to the next, from 0 on."""
    prefill_ms: Any
    """(points,): what that many prompt tokens of one request, counted from its beginning, add to steps altogether."""
    prefill_step: float
    alone_ms: float
    """What a step with prompts and no decoding request costs besides."""

    def scaled(self, factor: float) -> StepTable:
        """The same engine, slower by a factor."""
        return StepTable(self.ks, self.decode_ms * factor, self.context_step, self.prefill_ms * factor,
                         self.prefill_step, self.alone_ms * factor)


def tabulate(
    cost: StepCost,
    candidate: Candidate,
    acceptance: Acceptance,
    ks: Sequence[int],
    *,
    max_num_seqs: int,
    max_context: float,
    max_prompt: float,
    token_budget: int,
) -> StepTable:
    """The table of a candidate for loads up to max_num_seqs.

    A prompt's tokens ride along with others' decoding: they add what exceeds the part that every step pays anyway (a
    target pass of one token). Beyond one step's token budget a cost model may count further passes, which the
    simulation counts itself, so longer prompts continue the curve from within the budget.
    """
    import numpy as np

    contexts = np.linspace(0.0, max(64.0, max_context), _CONTEXTS)
    # A cost model of measured cells has no cell at an empty context.
    looked_at = [max(1.0, float(context)) for context in contexts]
    loads = grid_of(max_num_seqs)
    rows = np.zeros((len(ks), max_num_seqs + 1, _CONTEXTS))
    everywhere = np.arange(max_num_seqs + 1)
    for row, k in enumerate(ks):
        drafted = acceptance.drafted_tokens(k)
        at = cost.steps_ms(candidate, loads, k, drafted, looked_at)
        for column in range(_CONTEXTS):
            rows[row, :, column] = np.interp(everywhere, loads, at[:, column])
    base = cost.target(1, 1, 0.0).ms
    speculates = method(candidate.method).drafter != "none"

    def whole(tokens: float) -> float:
        drafter = cost.draft_prefill(candidate, tokens).ms if speculates else 0.0
        return cost.prefill(tokens).ms + drafter

    within = min(float(token_budget), max(2.0, max_prompt))
    alone = min(base, 0.9 * whole(1.0))
    points = np.linspace(0.0, max(2.0, max_prompt), _PROMPTS)
    half, full = (max(0.0, whole(t) - alone) for t in (0.5 * within, within))
    # a t + b t^2 through both, for what lies beyond the budget.
    curve = max(0.0, 2.0 * (full - 2.0 * half) / within**2)
    slope = full / within - curve * within
    added = [
        0.0 if t == 0 else max(0.0, whole(float(t)) - alone) if t <= within else slope * t + curve * t * t
        for t in points
    ]
    return StepTable(tuple(ks), rows, float(contexts[1]), np.maximum.accumulate(np.array(added)), float(points[1]),
                     float(alone))
