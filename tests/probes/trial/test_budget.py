"""How a trial shares its budget, on a stated clock: each arm is tried, the comparison keeps its part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from probes.trial.plan import TrialPlan, build_plan
from probes.trial.prompts import load_prompts
from probes.trial.runner import run_trial
from probes.trial.session import BUDGET_ENDED, COMPARISON_SHARE, Session
from profiles.deployment import Candidate, Deployment
from profiles.evidence import ArmStatus, PairedBlock, TrialEvidence
from tests.probes.trial.stated_engine import StatedMachine

CANDIDATES = [{"method": "draft_model", "draft": "org/draft", "k": "1-4"}, {"method": "ngram", "k": "1-4"},
              {"method": "eagle", "draft": "org/head", "k": "1-4"}, {"method": "suffix", "k": "1-4"}]


class Watch:
    def __init__(self) -> None:
        self.told: list[tuple[str, float, float]] = []
        self.notes: list[str] = []

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        self.told.append((stage, done_s, left_s))

    def note(self, text: str) -> None:
        self.notes.append(text)


def plan(budget_s: float, candidates: Sequence[dict[str, Any]] = CANDIDATES) -> TrialPlan:
    stated = Deployment.model_validate({
        "target": "org/target", "engine": {"max_model_len": 768, "max_num_seqs": 16},
        "hardware": {"gpu": "cpu", "memory_gib": 1}, "candidates": candidates,
        "workload": {"concurrency": 4, "tasks": ["code"], "sampling": {"temperature": 0}},
        "trial": {"budget_s": budget_s, "max_tokens": 32, "loads": [1, 4, 8]}})
    return build_plan(stated, stated.candidates, load_prompts(None, stated.workload.tasks), on_cpu=True)


def first(found: TrialEvidence) -> tuple[Candidate, int] | None:
    measured = [arm for arm in found.arms if arm.requests]
    return (measured[0].candidate, 4) if measured else None


def after(pairs: int) -> Any:
    return lambda seen: "enough" if len(seen) >= pairs else None


def never(_: Sequence[PairedBlock]) -> str | None:
    return None


def statuses(found: TrialEvidence) -> dict[str, ArmStatus]:
    return {arm.candidate.method: arm.status for arm in found.arms}


def test_a_budget_that_holds_everything_measures_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    StatedMachine().install(monkeypatch)
    found = run_trial(plan(10_000), choose=first, stop=after(3))
    assert set(statuses(found).values()) == {ArmStatus.DONE}
    assert found.stopped == "complete"
    assert found.comparison is not None
    assert found.comparison.stopped == "enough"


@pytest.mark.parametrize("step_s", [0.2, 0.4, 0.6])
def test_on_a_slow_machine_every_arm_is_tried_and_the_comparison_still_has_its_part(
        monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    machine = StatedMachine(start_s=20.0, step_s=step_s)
    machine.install(monkeypatch)
    found = run_trial(plan(420), choose=first, stop=after(3))
    assert {arm.candidate.method for arm in found.arms if arm.requests} == {"draft_model", "ngram", "eagle", "suffix"}
    assert found.comparison is not None
    assert found.comparison.pairs
    assert machine.now_s - 1000 <= 420 + 1


def test_arms_leave_the_comparison_its_share_though_they_could_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = StatedMachine(start_s=10.0, step_s=0.5)
    machine.install(monkeypatch)
    at: list[float] = []

    def chosen(found: TrialEvidence) -> tuple[Candidate, int] | None:
        at.append(machine.now_s - 1000)
        return first(found)

    run_trial(plan(300), choose=chosen, stop=never)
    assert at[0] <= 300 * (1 - COMPARISON_SHARE) + 60, "the arms stopped in time, one block's length apart"


def test_where_the_budget_holds_no_more_starts_the_least_promising_arms_are_the_ones_skipped(
        monkeypatch: pytest.MonkeyPatch) -> None:
    StatedMachine(start_s=60.0, step_s=0.2).install(monkeypatch)
    found = run_trial(plan(300), choose=first, stop=after(3))
    tried = [arm.candidate.method for arm in found.arms if arm.requests]
    skipped = [arm.candidate.method for arm in found.arms if arm.status is ArmStatus.SKIPPED]
    assert tried
    assert skipped
    assert [*tried, *skipped] == ["draft_model", "ngram", "eagle", "suffix"]
    assert found.stopped == "budget"


def test_the_first_candidate_is_tried_though_the_baseline_took_far_longer_than_thought(
        monkeypatch: pytest.MonkeyPatch) -> None:
    StatedMachine(start_s=62.0, step_s=0.5).install(monkeypatch)
    found = run_trial(plan(240, CANDIDATES[:1]), choose=first, stop=after(3))
    assert [arm.candidate.method for arm in found.arms if arm.requests] == ["draft_model"]


def test_a_comparison_that_the_budget_ended_goes_on_when_resumed(monkeypatch: pytest.MonkeyPatch,
                                                                 tmp_path: Path) -> None:
    StatedMachine(start_s=10.0, step_s=0.2).install(monkeypatch)
    checkpoint = tmp_path / "trial.checkpoint"
    one = plan(200, CANDIDATES[:1])
    found = run_trial(one, choose=first, stop=never, checkpoint=checkpoint)
    assert found.comparison is not None
    assert found.comparison.stopped == BUDGET_ENDED
    assert found.stopped == "budget"
    assert checkpoint.exists(), "there is something to resume"
    pairs = len(found.comparison.pairs)
    assert pairs > 0
    again = run_trial(one, choose=first, stop=after(pairs + 2), checkpoint=checkpoint, resume=True)
    assert again.comparison is not None
    assert again.comparison.stopped == "enough"
    assert len(again.comparison.pairs) == pairs + 2
    assert not checkpoint.exists()


def test_a_resumed_comparison_comes_before_the_cells_still_owed(monkeypatch: pytest.MonkeyPatch,
                                                                tmp_path: Path) -> None:
    StatedMachine(start_s=10.0, step_s=0.5).install(monkeypatch)
    checkpoint = tmp_path / "trial.checkpoint"
    found = run_trial(plan(200, CANDIDATES[:1]), choose=first, stop=never, checkpoint=checkpoint)
    assert statuses(found)["draft_model"] is ArmStatus.INTERRUPTED, "cells are still owed"
    assert found.comparison is not None
    pairs = len(found.comparison.pairs)
    assert pairs
    cells = [block for block in found.arms[1].blocks if block.start == 0]
    found = run_trial(plan(80, CANDIDATES[:1]), choose=first, stop=after(pairs + 1), checkpoint=checkpoint,
                      resume=True)
    assert found.comparison is not None
    assert len(found.comparison.pairs) == pairs + 1
    assert [block for block in found.arms[1].blocks if block.start == 0] == cells


def test_a_resumed_comparison_goes_on_though_another_candidate_would_be_chosen_now(monkeypatch: pytest.MonkeyPatch,
                                                                                   tmp_path: Path) -> None:
    StatedMachine(start_s=10.0, step_s=0.2).install(monkeypatch)
    checkpoint = tmp_path / "trial.checkpoint"
    two = plan(300, CANDIDATES[:2])
    found = run_trial(two, choose=first, stop=never, checkpoint=checkpoint)
    assert found.comparison is not None
    pairs = len(found.comparison.pairs)
    found = run_trial(two, choose=lambda f: (f.arms[2].candidate, 4), stop=after(pairs + 1), checkpoint=checkpoint,
                      resume=True)
    assert found.comparison is not None
    assert found.comparison.candidate.method == "draft_model"
    assert len(found.comparison.pairs) == pairs + 1


def test_resuming_tries_the_arms_that_were_skipped_and_returns_to_the_comparison(monkeypatch: pytest.MonkeyPatch,
                                                                                 tmp_path: Path) -> None:
    machine = StatedMachine(start_s=60.0, step_s=0.2)
    machine.install(monkeypatch)
    checkpoint = tmp_path / "trial.checkpoint"
    short = plan(300)
    found = run_trial(short, choose=first, stop=never, checkpoint=checkpoint)
    assert ArmStatus.SKIPPED in statuses(found).values()
    pairs = len(found.comparison.pairs) if found.comparison is not None else 0
    for _ in range(6):
        found = run_trial(short, choose=first, stop=after(pairs + 1), checkpoint=checkpoint, resume=True)
        if found.stopped == "complete":
            break
    assert set(statuses(found).values()) == {ArmStatus.DONE}
    assert found.comparison is not None
    assert found.comparison.stopped == "enough"


@pytest.mark.parametrize("fails", [frozenset(), frozenset({"ngram"})], ids=["all run", "one ends early"])
def test_the_expected_end_does_not_jump_up_when_the_comparison_comes_in_sight(
        monkeypatch: pytest.MonkeyPatch, fails: frozenset[str]) -> None:
    StatedMachine(start_s=13.0, step_s=0.15, fails=fails).install(monkeypatch)
    watch = Watch()
    run_trial(plan(5000), choose=first, stop=after(3), progress=watch)
    # Of the baseline's blocks each is new to the estimate: what is told before is a guess.
    ends = [done + left for stage, done, left in watch.told if not stage.startswith("no speculation")]
    assert max(later - earlier for earlier, later in pairwise(ends)) < 0.1 * ends[-1]
    assert all(left >= 0 for _, _, left in watch.told)


def test_a_block_that_takes_longer_than_thought_is_never_said_to_take_nothing_more(
        monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(plan(5000), watch := Watch(), None, False)
    monkeypatch.setattr(session, "waits", lambda arm: False)
    monkeypatch.setattr(session, "reserve_s", lambda: 0.0)
    monkeypatch.setattr(Session, "spent_s", property(lambda _: clock[0]))
    clock = [100.0]
    with session.countdown.step(0.0):
        clock[0] = 160.0
        session.tell("the last block")
    assert watch.told == [("the last block", 160.0, pytest.approx(6.0))]


@pytest.mark.parametrize("room", [True, False], ids=["both engines stay", "engines by turns"])
def test_a_comparison_under_way_is_said_to_take_its_time_though_nothing_was_kept_for_it(
        monkeypatch: pytest.MonkeyPatch, room: bool) -> None:
    StatedMachine(start_s=13.0, step_s=0.15).install(monkeypatch)
    monkeypatch.setattr("probes.trial.runner.room_for_both", lambda _: room)
    monkeypatch.setattr("probes.trial.comparison.room_for_both", lambda _: room)
    monkeypatch.setattr(Session, "reserve_s", lambda _: 0.0)
    watch = Watch()
    run_trial(plan(5000, CANDIDATES[:1]), choose=first, stop=after(3), progress=watch)
    pairs = [left for stage, _, left in watch.told if "pair 1" in stage]
    assert pairs
    assert min(pairs) > 3.0


def test_progress_names_the_arm_without_speculation_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    StatedMachine().install(monkeypatch)
    watch = Watch()
    run_trial(plan(5000, CANDIDATES[:1]), choose=first, stop=after(3), progress=watch)
    stages = {stage for stage, _, _ in watch.told}
    assert "no speculation: starting the engine" in stages
    assert any("and no speculation by turns: pair 1" in stage for stage in stages)
    assert not any(stage.startswith("none") for stage in stages)


def test_a_block_that_ended_with_its_prompts_is_no_speculation_that_never_drafted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    StatedMachine(ends_with_prompts=frozenset({"draft_model"})).install(monkeypatch)
    found = run_trial(plan(5000), choose=lambda _: None, stop=never)
    assert statuses(found)["draft_model"] is ArmStatus.INTERRUPTED
    assert [f.code for f in found.implausible] == []


@pytest.mark.parametrize("room", [True, False], ids=["both engines stay", "engines by turns"])
def test_once_the_baseline_is_timed_the_end_that_is_told_is_near_the_real_one(monkeypatch: pytest.MonkeyPatch,
                                                                             room: bool) -> None:
    StatedMachine(start_s=13.0, step_s=0.15).install(monkeypatch)
    monkeypatch.setattr("probes.trial.runner.room_for_both", lambda _: room)
    monkeypatch.setattr("probes.trial.comparison.room_for_both", lambda _: room)
    watch = Watch()
    run_trial(plan(5000, CANDIDATES[:2]), choose=first, stop=after(3), progress=watch)
    end = watch.told[-1][1] + watch.told[-1][2]
    begun = next(place for place, told in enumerate(watch.told) if not told[0].startswith("no speculation"))
    _, done, left = watch.told[begun]
    assert 0.75 * end < done + left < 1.5 * end


@pytest.mark.parametrize("room", [True, False], ids=["both engines stay", "engines by turns"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_what_was_measured_before_is_not_told_as_still_to_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                               part: float, room: bool) -> None:
    machine = StatedMachine(start_s=30.0, step_s=0.4)
    machine.install(monkeypatch)
    monkeypatch.setattr("probes.trial.runner.room_for_both", lambda _: room)
    monkeypatch.setattr("probes.trial.comparison.room_for_both", lambda _: room)
    whole, checkpoint, enough = Watch(), tmp_path / "trial.checkpoint", after(3)
    run_trial(plan(5000, CANDIDATES[:2]), choose=first, stop=enough, progress=whole)
    run_trial(plan(part * whole.told[-1][1], CANDIDATES[:2]), choose=first, stop=enough, checkpoint=checkpoint)
    assert checkpoint.exists()
    watch = Watch()
    run_trial(plan(5000, CANDIDATES[:2]), choose=first, stop=enough, progress=watch, checkpoint=checkpoint, resume=True)
    ends = [done + left for _, done, left in watch.told]
    assert 0.7 * ends[-1] < ends[0] < 1.5 * ends[-1]
    assert max(later - earlier for earlier, later in pairwise(ends)) < 0.25 * ends[-1]
