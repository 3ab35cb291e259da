"""What keeps a candidate from a gain is the part without which it would have one."""

from __future__ import annotations

import pytest

from advisor.cost.step import Step
from advisor.held_back import Cause, held_back
from advisor.prediction import price
from advisor.record import HeldBack
from advisor.request_time import Request
from profiles.deployment import NO_SPECULATION
from profiles.schema import Quantity, Source
from tests.advisor.situations import cpu_situation, cpu_trial

TOKENS = 100.0


def request(draft: float, verify: float, overhead: float, length: float, prompt: float = 0.0,
            running: float = 1.0) -> Request:
    step = Step(draft, verify, overhead, 0.02, 0.02, Source.MEASURED)
    return Request(prompt + step.ms / running, 0.0, TOKENS / length, step, running, length, TOKENS)


def cause(own: Request, base: Request | None = None, *, k: int = 4, drafted: float = 4.0, matched: float = 1.0,
          wide: float = 0.01) -> Cause:
    plain = base if base is not None else request(0.0, 10.0, 0.0, 1.0)
    value = own.tokens_per_s / plain.tokens_per_s
    speed = Quantity(value=value, low=value * (1 - wide), high=value * (1 + wide), source=Source.MEASURED)
    return held_back(plain, own, k, drafted, matched, speed, 1.05)


@pytest.mark.parametrize(("own", "part"), [
    # Most drafts are accepted, and each verification takes two plain steps and more.
    (request(1.0, 38.0, 1.0, 3.8), "verify_compute"),
    # Verifying is cheap, and hardly a token is accepted.
    (request(1.0, 10.5, 0.5, 1.1), "acceptance"),
    # Most of the step is drafting, of tokens that are accepted.
    (request(30.0, 12.0, 0.0, 4.0), "draft_time"),
    (request(1.0, 10.0, 29.0, 3.9), "overhead"),
])
def test_the_part_without_which_it_would_pay_is_named(own: Request, part: HeldBack) -> None:
    found = cause(own)
    assert found.part == part
    assert found.without is not None
    assert found.without > 1.05


def test_a_gain_that_is_only_not_known_well_enough_blames_no_part() -> None:
    gains = request(1.0, 12.0, 0.0, 1.5)
    assert cause(gains, wide=0.2) == Cause("uncertainty")
    assert cause(gains, wide=0.01) == Cause("nothing")


def test_a_loss_with_a_wide_interval_still_names_its_part() -> None:
    assert cause(request(1.0, 38.0, 1.0, 3.8), wide=0.5).part == "verify_compute"


def test_a_lookup_that_rarely_finds_a_draft_is_not_blamed_for_its_drafts() -> None:
    """Nine in ten of its drafted tokens are accepted: more could not make up for steps that find none."""
    own = request(0.1, 10.4, 0.3, 1.09)
    found = cause(own, drafted=0.1, matched=0.1, k=1)
    assert found.part == "matching"
    assert cause(own, drafted=1.0, matched=1.0, k=1).part == "acceptance"


def test_long_prompts_are_named_where_decode_alone_would_gain() -> None:
    base, own = request(0.0, 10.0, 0.0, 1.0, prompt=60_000.0), request(0.2, 10.0, 0.0, 3.0, prompt=60_000.0)
    assert cause(own, base, drafted=2.2).part == "prefill_share"


def test_fewer_requests_at_once_are_named_where_they_cost_the_gain() -> None:
    base, own = request(0.0, 10.0, 0.0, 1.0, running=40.0), request(0.5, 10.0, 0.0, 1.6, running=20.0)
    assert cause(own, base, drafted=0.6).part == "memory"


def test_where_no_part_alone_turns_it_none_is_blamed() -> None:
    own = request(12.0, 24.0, 12.0, 1.3)
    assert cause(own, drafted=0.35) == Cause("together")


def test_every_cell_of_a_trial_names_a_part_that_would_turn_it() -> None:
    for task in ("code", "creative"):
        pricing = price(cpu_situation(cpu_trial(), concurrency=8, tasks=task))
        candidate = pricing.candidates[0]
        for k in candidate.k:
            cell = pricing.at(candidate, k, 8)
            threshold = 1.05
            assert cell.held_back_by is not None
            if cell.speedup.value < threshold:
                assert cell.held_back_by not in ("nothing", "uncertainty")
                assert cell.held_back_from is None or cell.held_back_from > threshold
    assert pricing.at(NO_SPECULATION, 0, 8).held_back_by == "nothing"
    # 1040 ms against 210: what a step of eight requests costs, not what is accepted of it.
    five = pricing.at(candidate, 5, 8)
    assert five.held_back_by in ("verify_compute", "draft_time")
