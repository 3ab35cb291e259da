"""What a request's prefill takes of an engine that decodes for others in the same steps."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from advisor.cost.step import Cost, Step
from advisor.request_time import Tokens, request_of
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.model_ref import ModelRef
from profiles.schema import Source

DRAFT = Candidate(method="draft_model", draft=ModelRef(id="org/draft"), k=(3,))
STEP_MS, DRAFTING_MS, PER_TOKEN_MS, DRAFT_PER_TOKEN_MS = 100.0, 60.0, 1.0, 0.5


@dataclass(frozen=True)
class StatedCost:
    """A step, a prompt's tokens and the drafter's part of both take what the constants above say."""

    description: str = "stated"

    def target(self, running: float, tokens: float, context_tokens: float) -> Cost:
        return Cost(STEP_MS, 0.0, Source.MEASURED)

    def draft(self, candidate: Candidate, running: float, k: int, context_tokens: float) -> Cost:
        return Cost(DRAFTING_MS, 0.0, Source.MEASURED)

    def overhead(self, candidate: Candidate, running: float, k: int) -> Cost:
        return Cost(0.0, 0.0, Source.MEASURED)

    def prefill(self, tokens: float) -> Cost:
        return Cost(STEP_MS + PER_TOKEN_MS * tokens, 0.0, Source.MEASURED)

    def draft_prefill(self, candidate: Candidate, tokens: float) -> Cost:
        return Cost(DRAFTING_MS + DRAFT_PER_TOKEN_MS * tokens, 0.0, Source.MEASURED)

    def step(self, candidate: Candidate, running: float, k: int, drafted: float, context_tokens: float) -> Step:
        return Step(DRAFTING_MS if k else 0.0, STEP_MS, 0.0, 0.0, 0.0, Source.MEASURED)


@pytest.mark.parametrize("running", [1.0, 8.0, 64.0])
def test_what_every_step_pays_anyway_is_paid_once_by_all_who_run(running: float) -> None:
    tokens = Tokens(prompt=200, output=50)
    plain = request_of(StatedCost(), NO_SPECULATION, 0, running, 1.0, 0.0, tokens)
    own = request_of(StatedCost(), DRAFT, 3, running, 2.5, 3.0, tokens)
    assert plain.prefill_ms == pytest.approx(200 * PER_TOKEN_MS + STEP_MS / running)
    assert own.prefill_ms == pytest.approx(
        200 * (PER_TOKEN_MS + DRAFT_PER_TOKEN_MS) + (STEP_MS + DRAFTING_MS) / running)


def test_short_prompts_beside_many_requests_hardly_dampen_a_gain_in_decode() -> None:
    tokens = Tokens(prompt=10, output=50)
    plain = request_of(StatedCost(), NO_SPECULATION, 0, 8.0, 1.0, 0.0, tokens)
    own = request_of(StatedCost(), DRAFT, 3, 8.0, 3.2, 3.0, tokens)
    in_decode = 3.2 * STEP_MS / (STEP_MS + DRAFTING_MS)
    assert own.tokens_per_s / plain.tokens_per_s == pytest.approx(in_decode, rel=0.1)
