import math

import pytest

from advisor.cost.measured import MeasuredCost, cost_model
from advisor.cost.modelled import ModelledCost
from advisor.cost.step import runner_for
from advisor.cost.timed_cells import cells_of, middle_mean, steady_mean
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.evidence import StepSample, TrialEvidence
from profiles.schema import Source
from tests.advisor.situations import BASELINE_MS, STEP_MS, cpu_situation, cpu_trial, gpu_situation


def fitted(trial: TrialEvidence) -> MeasuredCost:
    model = MeasuredCost.of(cpu_situation(trial))
    assert model is not None
    return model


def test_a_measured_cell_is_given_back_as_it_was_timed() -> None:
    model = fitted(cpu_trial())
    candidate = model.situation.candidates[0]
    for (running, k), ms in STEP_MS.items():
        step = model.step(candidate, running, k, k, 84)
        assert step.ms == pytest.approx(ms, rel=0.005)
        assert step.source is Source.MEASURED
    for running, ms in BASELINE_MS.items():
        assert model.step(NO_SPECULATION, running, 0, 0, 84).ms == pytest.approx(ms, rel=0.005)


@pytest.mark.parametrize(("left_out", "truth"), [((1, 3), 270.0), ((4, 3), 405.0), ((8, 3), 660.0)])
def test_a_cell_that_was_not_timed_is_predicted_within_its_interval(left_out: tuple[int, int], truth: float) -> None:
    model = fitted(cpu_trial(with_cells={cell: ms for cell, ms in STEP_MS.items() if cell != left_out}))
    step = model.step(model.situation.candidates[0], left_out[0], left_out[1], left_out[1], 84)
    assert step.ms == pytest.approx(truth, rel=0.12)
    assert abs(math.log(step.ms / truth)) < 2.6 * step.log_sd


def test_uncertainty_grows_away_from_what_was_timed() -> None:
    model = fitted(cpu_trial())
    candidate = model.situation.candidates[0]
    at, between, beyond = (model.step(candidate, n, 3, 3, 84).log_sd for n in (8, 6, 64))
    assert at < between < beyond


def test_a_step_outside_the_loads_and_k_that_were_timed_says_where_they_were() -> None:
    model = fitted(cpu_trial(with_cells={(8, 5): STEP_MS[8, 5]}))
    candidate = model.situation.candidates[0]
    assert model.step(candidate, 8, 5, 5, 84).notes == ()
    (said,) = model.step(candidate, 1, 4, 4, 84).notes
    assert "was not timed itself" in said
    assert "k=5, 8 running and contexts of 84 tokens" in said


def test_only_a_step_of_a_timed_k_load_and_length_is_measured() -> None:
    model = fitted(cpu_trial(with_cells={cell: ms for cell, ms in STEP_MS.items() if cell != (4, 3)}))
    candidate = model.situation.candidates[0]
    sources = {(n, k): model.step(candidate, n, k, k, 84).source for n, k in ((1, 3), (8, 5), (4, 3), (1, 2), (16, 3))}
    assert sources == {(1, 3): Source.MEASURED, (8, 5): Source.MEASURED, (4, 3): Source.MODELLED,
                       (1, 2): Source.MODELLED, (16, 3): Source.MODELLED}
    assert model.step(NO_SPECULATION, 4, 0, 0, 84).source is Source.MEASURED
    assert model.step(NO_SPECULATION, 2, 0, 0, 84).source is Source.MODELLED


def test_a_step_of_requests_so_long_that_it_takes_longer_is_not_measured() -> None:
    trial = cpu_trial()
    longer = StepSample(
        k=0, running=8, context_tokens=2000, tokens_per_step=8, step_ms=(320.0,) * 20, output_tokens=160)
    baseline = trial.arms[0].model_copy(update={"steps": (*trial.arms[0].steps, longer)})
    model = fitted(trial.model_copy(update={"arms": (baseline, *trial.arms[1:])}))
    candidate = model.situation.candidates[0]
    assert model.step(candidate, 8, 3, 3, 84).source is Source.MEASURED
    assert model.step(candidate, 8, 3, 3, 1500).source is Source.MODELLED


def test_an_idle_speculation_is_dearer_than_none_and_cheaper_than_a_loaded_one() -> None:
    model = fitted(cpu_trial())
    candidate = model.situation.candidates[0]
    for running in (1, 4, 8):
        idle = model.step(candidate, running, 0, 0, 84).ms
        assert model.step(NO_SPECULATION, running, 0, 0, 84).ms < idle < model.step(candidate, running, 1, 1, 84).ms


def test_parts_of_a_step_add_up_to_the_step() -> None:
    model = fitted(cpu_trial())
    step = model.step(model.situation.candidates[0], 4, 3, 3, 84)
    assert min(step.draft_ms, step.verify_ms, step.overhead_ms) >= 0
    assert step.draft_ms + step.verify_ms + step.overhead_ms == pytest.approx(step.ms)


def test_a_timed_drafter_is_told_apart_from_the_verify() -> None:
    trial = cpu_trial()
    arm = trial.arms[1]
    timed = arm.model_copy(
        update={"steps": tuple(s.model_copy(update={"draft_ms": (25.0 * s.k,) * 20} if s.k else {}) for s in arm.steps)}
    )
    model = fitted(trial.model_copy(update={"arms": (trial.arms[0], timed)}))
    assert model.step(model.situation.candidates[0], 1, 5, 5, 84).draft_ms == pytest.approx(125, rel=0.1)


def test_a_candidate_that_was_not_run_is_modelled_on_the_measured_step() -> None:
    model = fitted(cpu_trial())
    step = model.step(Candidate(method="ngram", k=(3,)), 1, 3, 0.5, 84)
    assert step.source is Source.MODELLED
    assert step.ms > BASELINE_MS[1]
    assert "not timed" in step.notes[0]


def test_prefill_follows_the_steps_that_carried_prompts() -> None:
    model = fitted(cpu_trial())
    assert model.prefill(100).ms == pytest.approx(150 + 600, rel=0.02)
    assert model.draft_prefill(model.situation.candidates[0], 100).ms == pytest.approx(25 + 90, rel=0.05)


def test_times_of_another_kind_of_device_are_not_used() -> None:
    on_gpu = gpu_situation(evidence=cpu_situation(cpu_trial()).evidence)
    assert MeasuredCost.of(on_gpu) is None
    assert isinstance(cost_model(on_gpu), ModelledCost)


def test_a_trial_without_a_timed_baseline_gives_no_times() -> None:
    trial = cpu_trial()
    assert MeasuredCost.of(cpu_situation(trial.model_copy(update={"arms": trial.arms[1:]}))) is None
    assert MeasuredCost.of(cpu_situation()) is None


def test_one_pause_of_the_machine_does_not_decide() -> None:
    assert steady_mean([100.0] * 19 + [20_000.0]) == pytest.approx(110.0)


def test_a_single_cell_for_each_arm_is_enough_to_price_it() -> None:
    trial = cpu_trial()
    sample = StepSample(k=3, running=1, context_tokens=84, tokens_per_step=4, step_ms=(270.0,) * 5, output_tokens=15)
    arms = (
        trial.arms[0].model_copy(update={"steps": trial.arms[0].steps[:1]}),
        trial.arms[1].model_copy(update={"steps": (sample,)}),
    )
    model = fitted(trial.model_copy(update={"arms": arms}))
    assert model.step(model.situation.candidates[0], 1, 3, 3, 84).ms == pytest.approx(270, rel=0.01)
    assert model.residual_log_sd < 0.05
    # A fit that meets each shape by itself says nothing about how well it fits.
    assert "2 shapes of step timed" in model.description
    assert "0.0 %" not in model.description


def test_a_cell_of_another_context_does_not_bend_the_one_asked_for() -> None:
    trial = cpu_trial()
    far = StepSample(k=0, running=1, context_tokens=4000, tokens_per_step=1, step_ms=(260.0,) * 20, output_tokens=20)
    base = trial.arms[0].model_copy(update={"steps": (*trial.arms[0].steps, far)})
    model = fitted(trial.model_copy(update={"arms": (base, trial.arms[1])}))
    assert model.target(1, 1, 84).ms == pytest.approx(164, rel=0.01)
    assert model.target(1, 1, 4000).ms == pytest.approx(260, rel=0.01)
    assert 164 < model.target(1, 1, 2000).ms < 260


def test_what_a_gpu_trial_timed_stays_on_the_runner_it_was_timed_on() -> None:
    untimed = gpu_situation()
    candidate = untimed.candidates[0]
    assert runner_for(candidate, untimed) == "v1"
    trial = cpu_trial()
    arm = trial.arms[1].model_copy(update={"candidate": candidate, "runner": "v2"})
    on_gpu = trial.model_copy(update={"device": "RTX PRO 6000", "arms": (trial.arms[0], arm)})
    evidence = cpu_situation(on_gpu).evidence
    assert runner_for(candidate, gpu_situation(evidence=evidence)) == "v2"


def test_a_baseline_alone_does_not_make_verifying_free() -> None:
    trial = cpu_trial()
    model = fitted(trial.model_copy(update={"arms": trial.arms[:1]}))
    candidate = model.situation.candidates[0]
    one, five = (model.step(candidate, 8, k, k, 84) for k in (1, 5))
    assert BASELINE_MS[8] < one.verify_ms < five.verify_ms
    assert five.source is Source.MODELLED


def test_a_speculating_step_timed_shorter_than_a_plain_one_is_doubt_not_gain() -> None:
    trial = cpu_trial()
    steps = [s.model_copy(update={"step_ms": tuple(0.2 * ms for ms in s.step_ms), "draft_ms": ()})
             for s in trial.arms[1].steps]
    hurried = trial.arms[1].model_copy(update={"steps": tuple(steps)})
    model = fitted(trial.model_copy(update={"arms": (trial.arms[0], hurried)}))
    candidate = model.situation.candidates[0]
    step, base = model.step(candidate, 1, 3, 3, 84), model.target(1, 1, 84)
    assert step.ms >= base.ms * 0.999
    assert step.ratio_log_sd > 0.3


def test_steps_that_carry_the_same_are_read_by_their_middle_half() -> None:
    assert middle_mean([100.0] * 5 + [250.0, 260.0]) == pytest.approx(100.0)
    assert middle_mean([100.0, 300.0]) == pytest.approx(200.0)
    assert middle_mean([100.0]) == 100.0


def test_a_lookups_steps_are_of_two_kinds_and_keep_their_mean() -> None:
    trial = cpu_trial()
    mixed = StepSample(k=3, running=4, context_tokens=84, tokens_per_step=8, step_ms=(100.0,) * 15 + (200.0,) * 5,
                       output_tokens=100)
    ngram = trial.arms[1].model_copy(update={"candidate": Candidate(method="ngram", k=(3,)), "steps": (mixed,)})
    [cell] = [c for c in cells_of(trial.model_copy(update={"arms": (trial.arms[0], ngram)})) if c.arm != "none"]
    assert cell.ms == pytest.approx(125.0)
