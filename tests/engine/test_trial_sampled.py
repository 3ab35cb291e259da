"""Sampled speculation on the CPU build: the trial notices that it is broken, and the named repair mends it."""

from __future__ import annotations

import pytest

from probes.trial.repairs import EXPAND_COPY_LOST
from probes.trial.runner import run_trial
from profiles.plausibility import position_totals
from tests.engine.trial_setup import Watch, deployment, draft_model, plan_of

pytestmark = pytest.mark.engine


POISON = {"MALLOC_PERTURB_": "85"}
"""The fault reads memory nobody wrote, which may happen to hold the right values: glibc fills it with a wrong one."""


def measure(cpu_pair, repair):
    # As many seats as the trial's own probe of the distribution fills at once.
    stated = deployment(cpu_pair.draft, [draft_model(cpu_pair.draft)], temperature=1.0, seats=32,
                        repair_known_faults=repair)
    stated = stated.model_copy(update={"engine": stated.engine.model_copy(update={"env": POISON})})
    return run_trial(plan_of(stated), choose=lambda trial: None, stop=lambda pairs: None, progress=Watch())


def faults(evidence):
    """What was found of the engine's output; how steady its steps were is the machine's affair."""
    return {finding.code for finding in evidence.implausible} - {"unsteady_steps"}


def test_the_repair_is_named_and_sampled_speculation_is_plausible_with_it(cpu_pair):
    evidence = measure(cpu_pair, repair=True)
    if not evidence.engine_version.startswith("0.32.0"):
        assert evidence.repairs == ()
        return
    assert evidence.repairs == (EXPAND_COPY_LOST,)
    assert faults(evidence) == set()
    drafted, accepted = position_totals(evidence.arms[1].requests)
    # The draft is the target: sampled tokens are accepted with the overlap of a distribution with its greedy choice.
    assert 0.2 < accepted[0] / drafted[0] < 1
    assert accepted[1] > 0


def test_without_the_repair_the_known_fault_is_noticed(cpu_pair):
    evidence = measure(cpu_pair, repair=False)
    assert evidence.repairs == ()
    if not evidence.engine_version.startswith("0.32.0"):
        assert faults(evidence) == set()
        return
    # What unwritten memory holds is chance even so: a second trial may see what the first could not.
    seen = faults(evidence) or faults(measure(cpu_pair, repair=False))
    assert seen & {"later_positions_never_accepted", "sampled_distribution_differs"}
