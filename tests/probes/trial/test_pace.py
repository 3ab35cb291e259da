"""A machine that is slow for minutes while some arm runs: the engine that stays resident tells, and no arm pays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.cost.timed_cells import cells_of
from probes.trial.plan import TrialPlan, build_plan
from probes.trial.prompts import load_prompts
from probes.trial.runner import run_trial
from profiles.deployment import Deployment
from profiles.evidence import TrialEvidence

sys.path.insert(0, str(Path(__file__).parent))
from stated_engine import StatedMachine


def plan() -> TrialPlan:
    stated = Deployment.model_validate({
        "target": "org/target", "engine": {"max_model_len": 768, "max_num_seqs": 16},
        "hardware": {"gpu": "cpu", "memory_gib": 1},
        "candidates": [{"method": "draft_model", "draft": "org/draft", "k": "1-4"}, {"method": "ngram", "k": "1-4"}],
        "workload": {"concurrency": 4, "tasks": ["code"], "sampling": {"temperature": 0}},
        "trial": {"max_tokens": 32, "loads": [1, 4]}})
    return build_plan(stated, stated.candidates, load_prompts(None, stated.workload.tasks), on_cpu=True)


def trial(monkeypatch: pytest.MonkeyPatch, slow: Callable[[float], float], room: bool = True) -> TrialEvidence:
    StatedMachine(slow=slow).install(monkeypatch)
    monkeypatch.setattr("probes.trial.runner.room_for_both", lambda _: room)
    return run_trial(plan(), choose=lambda _: None, stop=lambda _: None)


def times(found: TrialEvidence) -> dict[tuple[str, int, float], float]:
    return {(cell.arm, cell.k, cell.running): cell.ms for cell in cells_of(found)}


def test_an_arm_timed_in_slow_minutes_costs_what_it_costs_at_the_usual_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = times(trial(monkeypatch, lambda _: 1.0))
    slow = times(trial(monkeypatch, lambda now: 1.8 if 1060 < now < 1130 else 1.0))
    assert slow.keys() == steady.keys()
    # The machine's usual pace may be read a little off; what matters is that all cells of a load share it.
    ratios = {cell: slow[cell] / slow["none", 0, cell[2]] / (steady[cell] / steady["none", 0, cell[2]])
              for cell in steady}
    assert all(ratio == pytest.approx(1.0, abs=0.03) for ratio in ratios.values()), ratios


def test_without_room_for_a_resident_engine_times_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = trial(monkeypatch, lambda _: 1.0, room=False)
    assert {s.beside_ms for arm in found.arms for s in arm.steps} == {()}
    assert times(found)


def test_the_evidence_keeps_what_was_timed_and_the_pace_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = trial(monkeypatch, lambda _: 2.0)
    candidate = next(arm for arm in found.arms if arm.candidate.method == "ngram")
    assert all(len(s.beside_ms) == len(s.step_ms) for s in candidate.steps)
    assert all(ms == pytest.approx(200) for s in candidate.steps for ms in s.beside_ms), "0.1 s a step, twice as slow"
