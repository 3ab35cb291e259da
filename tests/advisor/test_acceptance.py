import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.acceptance import Acceptance, acceptance_of
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.evidence import (
    Evidence,
    Implausibility,
    RequestAcceptance,
    ServerEvidence,
    SpeculationCounters,
    TrialEvidence,
)
from profiles.schema import Source
from profiles.workload import Task
from tests.advisor.situations import (
    CODE_ACCEPTED,
    CODE_STEPS,
    CREATIVE_ACCEPTED,
    CREATIVE_STEPS,
    cpu_situation,
    cpu_trial,
    gpu_situation,
    split_requests,
)


def measured(trial: TrialEvidence, **workload: object) -> Acceptance:
    situation = cpu_situation(trial, **workload)
    return acceptance_of(situation, situation.candidates[0], 100)


def with_requests(*requests: RequestAcceptance, method: str | None = None) -> TrialEvidence:
    trial = cpu_trial()
    update: dict[str, object] = {"requests": requests}
    if method is not None:
        update["candidate"] = Candidate(method=method, k=(1, 2, 3, 4, 5))
    return trial.model_copy(update={"arms": (trial.arms[0], trial.arms[1].model_copy(update=update))})


@st.composite
def request_tails(draw: st.DrawFn) -> RequestAcceptance:
    k = 5
    steps = draw(st.integers(1, 60))
    drafted, accepted = [], []
    limit, limit_accepted = steps, steps
    for _ in range(k):
        limit = draw(st.integers(0, limit))
        limit_accepted = draw(st.integers(0, min(limit, limit_accepted)))
        drafted.append(limit)
        accepted.append(limit_accepted)
    task = draw(st.sampled_from([Task.CODE, Task.CREATIVE]))
    return RequestAcceptance(
        task=task, prompt_tokens=50, output_tokens=48, steps=steps, drafted=tuple(drafted), accepted=tuple(accepted)
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(request_tails(), min_size=1, max_size=12), st.sampled_from(["draft_model", "ngram"]))
def test_any_counts_give_lengths_that_grow_with_k_and_stay_within_it(
    requests: list[RequestAcceptance], method: str
) -> None:
    found = measured(with_requests(*requests), tasks=["code", "creative"])
    if method == "ngram":
        situation = cpu_situation(with_requests(*requests, method="ngram"), tasks=["code", "creative"])
        found = acceptance_of(situation, Candidate(method="ngram", k=(1, 2, 3, 4, 5)), 100)
    lengths = [found.length(k).value for k in range(6)]
    assert lengths == sorted(lengths)
    assert all(1.0 <= length <= k + 1 + 1e-9 for k, length in enumerate(lengths))
    rates = [q.value for q in found.per_position]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(rates))
    assert all(0.0 <= q.value <= 1.0 for q in found.per_position)
    for k in range(1, 6):
        quantity = found.length(k)
        assert quantity.low is not None
        assert quantity.high is not None
        assert quantity.low <= quantity.value <= quantity.high
        assert 0.0 <= found.drafted_tokens(k) <= k + 1e-9


def test_every_smaller_k_is_read_off_the_run_at_the_largest() -> None:
    found = measured(cpu_trial(), tasks="code")
    for k in range(1, 6):
        assert found.length(k).value == pytest.approx(1 + sum(CODE_ACCEPTED[:k]) / CODE_STEPS, rel=1e-6)
    assert found.source is Source.MEASURED


def test_a_run_at_the_very_k_replaces_what_was_read_off_a_deeper_one() -> None:
    # Read off k=5 the length at k=3 is 3.29; run at k=3 it was 3.43 (100 89 83 of 112 at eight requests).
    trial = with_requests(
        *split_requests(Task.CODE, CODE_ACCEPTED, CODE_STEPS), *split_requests(Task.CODE, (100, 89, 83), 112)
    )
    found = measured(trial, tasks="code")
    assert found.length(3).value == pytest.approx(1 + (100 + 89 + 83) / 112, rel=1e-6)
    assert found.length(5).value == pytest.approx(1 + sum(CODE_ACCEPTED) / CODE_STEPS, rel=1e-6)


def test_a_mix_of_tasks_weighs_steps_not_requests() -> None:
    code = 1 + sum(CODE_ACCEPTED) / CODE_STEPS
    creative = 1 + sum(CREATIVE_ACCEPTED) / CREATIVE_STEPS
    mixed = measured(cpu_trial(), tasks=["code", "creative"]).length(5).value
    assert mixed == pytest.approx(2 / (1 / code + 1 / creative), rel=1e-6)


def test_few_requests_give_a_wider_interval_than_many() -> None:
    few = [
        RequestAcceptance(task=Task.CODE, prompt_tokens=1, output_tokens=9, steps=10, drafted=(10,), accepted=(a,))
        for a in (2, 9, 5)
    ]
    wide, narrow = measured(with_requests(*few), tasks="code"), measured(with_requests(*few * 20), tasks="code")
    assert wide.log_sd(1) > 2 * narrow.log_sd(1)
    assert narrow.length(1).n == 60


def test_the_same_evidence_gives_the_same_interval() -> None:
    assert measured(cpu_trial(), tasks="code") == measured(cpu_trial(), tasks="code")


def test_text_that_was_not_run_widens_the_interval_and_says_so() -> None:
    ran, other = measured(cpu_trial(), tasks=["code", "creative"]), measured(cpu_trial(), tasks="translation")
    assert other.log_sd(5) > ran.log_sd(5)
    assert "not run" in other.note


def test_steps_without_a_draft_count_as_steps_of_a_lookup() -> None:
    requests = [
        RequestAcceptance(task=Task.CODE, prompt_tokens=1, output_tokens=1, steps=20, drafted=(8, 8), accepted=(6, 4))
    ] * 4
    situation = cpu_situation(with_requests(*requests, method="ngram"), tasks="code")
    found = acceptance_of(situation, Candidate(method="ngram", k=(1, 2)), 100)
    assert found.length(2).value == pytest.approx(1.5)
    assert found.matched_share == pytest.approx(0.4)
    assert found.drafted_tokens(2) == pytest.approx(0.8)


def test_positions_beyond_the_measured_ones_are_extrapolated_and_wider() -> None:
    situation = cpu_situation(cpu_trial(), tasks="code")
    deeper = situation.candidates[0].model_copy(update={"k": (1, 5, 8)})
    found = acceptance_of(situation, deeper, 100)
    assert found.length(5).value < found.length(8).value < 9
    assert found.log_sd(8) > found.log_sd(5)
    assert found.length(8).source is Source.MODELLED


def test_counts_that_no_correct_engine_shows_are_not_used() -> None:
    trial = cpu_trial()
    label = trial.arms[1].candidate.label
    broken = trial.model_copy(
        update={
            "implausible": (
                Implausibility(code="later_positions_never_accepted", arm=label, message="x", severity="error"),
            )
        }
    )
    assert measured(broken, tasks="code").source is Source.ASSUMED


def test_the_null_candidate_gives_one_token_a_step() -> None:
    assert acceptance_of(gpu_situation(), NO_SPECULATION, 100).length(0).value == 1.0


# --- recorded -----------------------------------------------------------------------------------------------------
def server(**counters: object) -> Evidence:
    values = {"enabled": True, "drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 1500,
              "per_position": (0.7, 0.5, 0.3), "acceptance_length": 2.5, **counters}  # fmt: skip
    speculation = SpeculationCounters.model_validate(values)
    scraped = ServerEvidence(
        url="http://x", engine="vllm", models=("m",), window_s=15, running=None, waiting=None, kv_cache_usage=None,
        speculation=speculation,
    )  # fmt: skip
    return Evidence(kind="server", collected_at="", tool_version="0", command="probe server", server=scraped)


def test_a_running_servers_counters_give_acceptance() -> None:
    situation = gpu_situation(evidence=(server(),))
    found = acceptance_of(situation, situation.candidates[0], 100)
    assert found.length(3).value == pytest.approx(2.5)
    assert found.source is Source.RECORDED


def test_counters_of_a_lookup_are_corrected_for_steps_without_a_draft() -> None:
    situation = gpu_situation(evidence=(server(tokens_per_step=1.6),), candidates=[{"method": "ngram", "k": 3}])
    found = acceptance_of(situation, situation.candidates[0], 100)
    assert found.length(3).value == pytest.approx(1.6)
    assert found.matched_share == pytest.approx(0.4)


def test_counters_that_did_not_move_say_nothing() -> None:
    situation = gpu_situation(evidence=(server(drafts=0),))
    assert acceptance_of(situation, situation.candidates[0], 100).source is Source.ASSUMED


def test_counters_are_not_credited_to_one_of_several_candidates() -> None:
    situation = gpu_situation(evidence=(server(),))
    two = dataclasses.replace(situation, candidates=(*situation.candidates, Candidate(method="ngram")))
    assert acceptance_of(two, two.candidates[0], 100).source is Source.ASSUMED


# --- assumed ------------------------------------------------------------------------------------------------------
def prior(task: str, **workload: object) -> Acceptance:
    situation = gpu_situation(tasks=task, **workload)
    return acceptance_of(situation, situation.candidates[0], 500)


def test_code_is_assumed_more_predictable_than_chat_and_chat_than_stories() -> None:
    lengths = [prior(task).length(4).value for task in ("code", "json", "chat", "creative")]
    assert lengths[0] > max(lengths[1:])
    assert min(lengths) == lengths[-1]


def test_hot_sampling_lowers_what_is_assumed() -> None:
    hot, greedy = (prior("code", sampling={"temperature": heat}).length(4).value for heat in (1.0, 0.0))
    assert 0.7 < hot / greedy < 0.98


def test_what_is_assumed_is_wide_and_says_so() -> None:
    found = prior("mixed")
    assert found.source is Source.ASSUMED
    assert found.log_sd(4) > 0.08


def test_heads_are_assumed_to_fail_on_long_contexts() -> None:
    situation = gpu_situation(candidates=[{"method": "eagle3", "draft": "head"}])
    short, long = (acceptance_of(situation, situation.candidates[0], n) for n in (1000, 32_000))
    assert long.length(3).value < 0.9 * short.length(3).value
    assert long.log_sd(3) > short.log_sd(3)


def test_every_task_has_a_prior() -> None:
    for task in Task:
        assert 1.0 < prior(task.value).length(5).value < 6.0


def test_a_lookup_that_never_found_a_draft_is_a_measured_one_token_a_step() -> None:
    silent = RequestAcceptance(task=Task.CREATIVE, prompt_tokens=9, output_tokens=48, steps=48, drafted=(), accepted=())
    situation = cpu_situation(with_requests(silent, silent, silent, method="ngram"), tasks="creative")
    found = acceptance_of(situation, Candidate(method="ngram", k=(1, 2, 3, 4, 5)), 100)
    assert found.source is Source.MEASURED
    assert found.length(5).value == 1.0
    assert found.matched_share == 0.0


def test_short_drafts_of_a_lookup_count_at_the_k_that_was_asked_for() -> None:
    short = RequestAcceptance(
        task=Task.CODE, prompt_tokens=9, output_tokens=48, steps=30, drafted=(10, 6), accepted=(9, 5), k=5
    )
    long = RequestAcceptance(
        task=Task.CODE, prompt_tokens=9, output_tokens=48, steps=20, drafted=(10,) * 5, accepted=(9, 8, 7, 6, 5), k=5
    )
    situation = cpu_situation(with_requests(short, long, method="ngram"), tasks="code")
    found = acceptance_of(situation, Candidate(method="ngram", k=(1, 2, 3, 4, 5)), 100)
    assert found.length(5).value == pytest.approx(1 + (18 + 13 + 7 + 6 + 5) / 50)


def test_a_short_run_at_another_k_is_heard_in_proportion() -> None:
    deep = split_requests(Task.CODE, CODE_ACCEPTED, CODE_STEPS)
    few = RequestAcceptance(task=Task.CODE, prompt_tokens=9, output_tokens=4, steps=3, drafted=(3,), accepted=(0,))
    found = measured(with_requests(*deep, few), tasks="code")
    assert 1.8 < found.length(1).value < 1 + CODE_ACCEPTED[0] / CODE_STEPS
