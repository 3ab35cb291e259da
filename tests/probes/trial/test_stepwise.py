"""Blocks that go a step at a time: plain steps on demand, and two blocks that take turns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from probes.trial.stepwise import PlainSteps, Stepwise, alternate
from tests.probes.trial.stated_engine import StatedEngine, StatedMachine


def engine(machine: StatedMachine, k: int = 0) -> StatedEngine:
    config = {"speculative_config": {"method": "ngram", "num_speculative_tokens": k}} if k else {}
    return StatedEngine(machine, config)


def block(process: StatedEngine, running: int = 2, max_tokens: int = 24) -> Stepwise:
    return Stepwise(process, prompts=[[1]] * running, running=running, k=None, max_tokens=max_tokens)  # type: ignore[arg-type]


def test_plain_steps_come_when_asked_for_and_go_on_past_the_end_of_their_answers() -> None:
    machine = StatedMachine(step_s=0.1)
    plain = PlainSteps(engine(machine), [[1], [2]], {})  # type: ignore[arg-type]
    began = machine.now_s
    assert [plain.ms() for _ in range(200)] == pytest.approx([100.0] * 200)
    # A block of 64 tokens ends with a step whose row comes with the result: made, and not told.
    assert machine.now_s - began == pytest.approx(20.0, rel=0.05)
    plain.end()


def test_the_first_step_that_carries_prompts_is_no_plain_step() -> None:
    class Prefilling(StatedEngine):
        def begin_block(self, **fields: Any) -> dict[str, Any]:
            event = super().begin_block(**fields)
            self.prefill = True
            return event

        def go(self) -> dict[str, Any]:
            event = super().go()
            if self.prefill and event["event"] == "turn":
                self.prefill = False
                return {**event, "row": [900.0, 1, 1, 20, 20, 0, 1, 20.0, None, None]}
            return event

    plain = PlainSteps(Prefilling(StatedMachine(step_s=0.1), {}), [[1]], {})  # type: ignore[arg-type]
    assert plain.ms() == pytest.approx(100.0)


def test_a_turn_is_two_plain_steps_the_cold_one_and_the_next() -> None:
    class Cold(StatedEngine):
        calls = 0

        def go(self) -> dict[str, Any]:
            event = super().go()
            self.calls += 1
            if self.calls % 2 and event["event"] == "turn":
                return {**event, "row": [150.0, *event["row"][1:]]}
            return event

    plain = PlainSteps(Cold(StatedMachine(step_s=0.1), {}), [[1]], {})  # type: ignore[arg-type]
    assert [plain.turn({"own_s": 1e3}) for _ in range(5)] == pytest.approx([125.0] * 5)
    # Both steps count for what a turn takes: the sixth waits until the block's own have taken twice as long.
    assert plain.turn({"own_s": 2.0}) is None


def test_two_blocks_alternate_by_tokens_and_both_are_whole() -> None:
    machine = StatedMachine(step_s=0.1)
    slow, fast = block(engine(machine)), block(engine(machine, k=3))
    seen: list[tuple[int, int]] = []
    one, two = alternate(slow, fast, 2, told=lambda: seen.append((slow.tokens, fast.tokens)))
    assert (one["complete"], two["complete"]) == (True, True)
    assert one["output_tokens"] == two["output_tokens"] == 48
    # Neither goes further ahead than four tokens of each of the two requests, and what its last step gave.
    assert max(abs(a - b) for a, b in seen[:-2]) <= 8 + 6
    # Each makes several steps in a row: the first one after the other's is the longer for it.
    of_slow = [before[0] != after[0] for before, after in pairwise(seen)]
    assert sum(one != next_one for one, next_one in pairwise(of_slow)) < len(of_slow) / 2


def test_a_machine_that_slows_down_in_the_middle_leaves_the_ratio_of_blocks_by_turns_as_it_was() -> None:
    def ratio(machine: StatedMachine) -> float:
        one, two = alternate(block(engine(machine)), block(engine(machine, k=3)), 2, told=lambda: None)
        return float(one["wall_s"] / two["wall_s"])

    steady = ratio(StatedMachine(step_s=0.1))
    slowing = StatedMachine(step_s=0.1, slow=lambda now: 2.5 if now > 1001.5 else 1.0)
    assert ratio(slowing) == pytest.approx(steady, rel=0.1)
