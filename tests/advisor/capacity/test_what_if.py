"""What-ifs change what they say and keep of the evidence what still holds."""

from __future__ import annotations

import pytest

from advisor.capacity.what_if import CHANGES, changed_deployment, changed_situation, parse_change
from profiles.deployment import Deployment
from profiles.errors import InputError
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

DEPLOYMENT = Deployment.model_validate({
    "target": "meta-llama/Llama-3.1-8B-Instruct", "hardware": {"gpu": "H100", "memory_gib": 80},
    "engine": {"max_model_len": 4096}, "workload": {"prompt_tokens": {"mean": 500, "p95": 1500}, "output_tokens": 100},
})


@pytest.mark.parametrize("name", list(CHANGES))
def test_every_change_has_an_example_that_works(name: str) -> None:
    changed = changed_deployment(DEPLOYMENT, parse_change(CHANGES[name].example))
    situation, _ = changed_situation(gpu_situation(), parse_change(CHANGES[name].example))
    assert changed != DEPLOYMENT or situation.target != gpu_situation().target


def test_twice_the_context_doubles_prompts_with_their_percentiles_and_the_limit() -> None:
    changed = changed_deployment(DEPLOYMENT, parse_change("context=2x"))
    assert changed.workload.prompt_tokens is not None
    assert (changed.workload.prompt_tokens.mean, changed.workload.prompt_tokens.p95) == (1000, 3000)
    assert changed.engine.max_model_len == 8192
    assert changed.workload.output_tokens == DEPLOYMENT.workload.output_tokens


def test_another_gpu_takes_the_stated_memory_of_the_old_one_with_it() -> None:
    changed = changed_deployment(DEPLOYMENT, parse_change("gpu=H200"))
    assert changed.hardware.gpu == "H200"
    assert changed.hardware.memory_gib is None


def test_several_changes_are_one_what_if() -> None:
    changed = changed_deployment(DEPLOYMENT, parse_change("gpu=H200, output=50"))
    assert changed.hardware.gpu == "H200"
    assert changed.workload.output_tokens is not None
    assert changed.workload.output_tokens.mean == 50


def test_quantization_makes_the_weights_smaller_and_leaves_the_tables() -> None:
    situation = gpu_situation()
    changed, _ = changed_situation(situation, parse_change("quantization=fp8"))
    assert 0.5 < changed.target.weights_bytes / situation.target.weights_bytes < 0.62


def test_times_measured_on_other_hardware_are_dropped_and_acceptance_is_kept() -> None:
    situation = cpu_situation(cpu_trial())
    changed, notes = changed_situation(situation, parse_change("gpu=H100"))
    assert changed.trial is not None
    assert all(not arm.steps and not arm.prefill for arm in changed.trial.arms)
    assert any(arm.requests for arm in changed.trial.arms)
    assert "do not carry over" in notes[0]
    kept, none = changed_situation(situation, parse_change("output=2x"))
    assert kept == situation
    assert none == []


@pytest.mark.parametrize(("text", "part"), [
    ("colour=red", "expected one of"), ("gpu=", "no change"), ("context=much", "factor like 2x"),
    ("gpus=0", "whole number"), ("quantization=tiny", "expected one like fp8"), ("context=0x", "factor like 2x"),
])
def test_what_means_nothing_is_refused_with_what_was_expected(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        changed_deployment(DEPLOYMENT, parse_change(text))
