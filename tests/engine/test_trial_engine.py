"""A short trial on the real engine: children run it, counters advance, a failing arm does not stop the others."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from probes.trial.engine_process import EngineProcess
from probes.trial.plan import speculative_config
from probes.trial.runner import run_trial
from profiles.evidence import ArmStatus
from profiles.plausibility import position_totals
from tests.engine.trial_setup import NGRAM, Watch, deployment, draft_model, maps_engine, plan_of, workers

pytestmark = pytest.mark.engine


class Run:
    """One trial: a draft that is the target itself, ngram whose engine is killed on the way, and a draft of another
    vocabulary, which the engine refuses."""

    def __init__(self, cpu_pair, folder):
        other = folder / "other-vocabulary"
        other.mkdir()
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(cpu_pair.draft / name, other / name)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] - 8}))
        self.stated = deployment(cpu_pair.draft, [draft_model(cpu_pair.draft), NGRAM, draft_model(other)])
        self.plan = plan_of(self.stated)
        self.checkpoint = folder / "evidence.json.checkpoint"
        self.ran_engine = False
        self.seen_checkpoint = ""
        self.watch = Watch(self.act)
        self.evidence = run_trial(
            self.plan, choose=lambda trial: (self.stated.candidates[0], 2), progress=self.watch,
            stop=lambda pairs: "two pairs are enough here" if len(pairs) >= 2 else None, checkpoint=self.checkpoint)
        self.left = workers()

    def act(self, stage):
        if stage.startswith("no speculation: outputs"):
            self.ran_engine = any(maps_engine(worker.pid) for worker in workers())
        if stage.startswith("ngram") and stage.endswith(": outputs"):
            self.seen_checkpoint = self.checkpoint.read_text()
            # Children that lead a group (watchers do not), by age: the resident baseline's, this arm's, and the one
            # that waits for the next start.
            leaders = sorted((worker for worker in workers() if os.getpgid(worker.pid) == worker.pid),
                             key=lambda worker: worker.create_time())
            assert len(leaders) == 3
            os.kill(leaders[1].pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def run(cpu_pair, tmp_path_factory):
    return Run(cpu_pair, tmp_path_factory.mktemp("trial"))


def arm(run, index):
    return run.evidence.arms[index]


def test_a_child_process_runs_the_engine_and_none_is_left(run):
    assert run.ran_engine
    assert len(run.watch.commands) >= 4
    assert run.left == []
    assert run.evidence.engine_version.startswith("0.")
    assert run.evidence.stopped == "complete"


def test_the_baseline_is_timed_at_its_loads_and_contexts_without_drafts(run):
    baseline = arm(run, 0)
    assert baseline.status is ArmStatus.DONE
    assert {sample.running for sample in baseline.steps} >= {2, 8}
    assert max(sample.context_tokens for sample in baseline.steps) > 400
    assert all(sample.step_ms and min(sample.step_ms) > 0 for sample in baseline.steps)
    assert all(sample.tokens_per_step == sample.running for sample in baseline.steps)
    assert baseline.requests == ()
    assert baseline.prefill


def test_one_start_gives_acceptance_and_every_k_with_the_drafters_share(run):
    draft = arm(run, 1)
    assert (draft.status, draft.k_control) == (ArmStatus.DONE, "schedule_lookup")
    assert {sample.k for sample in draft.steps if sample.running == 2} == {0, 1, 2, 3}
    for sample in draft.steps:
        assert sample.tokens_per_step == pytest.approx(sample.running * (1 + sample.k), rel=0.35)
        assert len(sample.draft_ms) == len(sample.beside_ms) == len(sample.step_ms)
        assert sample.beside_running > 0
        assert all(0 <= part < whole for part, whole in zip(sample.draft_ms, sample.step_ms, strict=True))
    assert draft.engine_s > draft.start_s > 0


def test_a_draft_equal_to_the_target_is_accepted_nearly_always(run):
    drafted, accepted = position_totals(arm(run, 1).requests)
    assert len(drafted) == 3
    assert drafted[0] > 20
    assert accepted[0] / drafted[0] > 0.85


def test_a_killed_engine_marks_its_arm_crashed_and_the_others_go_on(run):
    killed = arm(run, 2)
    assert killed.status is ArmStatus.CRASHED
    assert "SIGKILL" in killed.error
    assert any("SIGKILL" in note for note in run.watch.notes)


def test_a_refused_start_carries_the_engines_own_last_error_in_one_line(run):
    refused = arm(run, 3)
    assert refused.status is ArmStatus.REFUSED
    assert "same vocabulary size" in refused.error
    assert "\n" not in refused.error
    assert "/" not in refused.error.partition("Target")[0]


def test_the_comparison_takes_turns_on_the_same_prompts_with_both_engines_resident(run):
    comparison = run.evidence.comparison
    assert comparison.mode == "both_resident"
    assert comparison.stopped == "two pairs are enough here"
    assert [pair.order for pair in comparison.pairs] == ["step_by_step"] * 2
    assert all(pair.baseline_tokens == pair.speculative_tokens > 0 for pair in comparison.pairs)
    assert comparison.between_run_spread is not None
    assert {block.start for block in arm(run, 1).blocks} == {0, 1}


def test_nothing_that_was_said_or_answered_is_in_evidence_or_checkpoint(run):
    text = run.evidence.model_dump_json() + run.seen_checkpoint
    assert "outputs" in run.seen_checkpoint
    for prompt in run.plan.prompts:
        assert prompt.as_text()[:25] not in text
    assert not run.checkpoint.exists()


def test_a_healthy_engine_shows_no_implausible_pattern(run):
    assert [finding.message for finding in run.evidence.implausible if finding.severity == "error"] == []


def test_k_by_the_schedule_lookup_drafts_and_accepts_as_a_start_with_that_very_k(run):
    stated, plan = run.stated, run.plan
    results = []
    # Ngram: drafts depend on the text alone, so equal texts must give equal counts.
    for config in (speculative_config(stated.candidates[1], 3, 8), speculative_config(stated.candidates[1], 2, None)):
        with EngineProcess({**plan.base_args, "speculative_config": config}, env=plan.env) as process:
            process.start()
            prompts = [{"messages": p.as_messages()} for p in plan.prompts[:3]]
            ids = process.call("tokenize", prompts=prompts)["ids"]
            k = 2 if process.info["k_control"] == "schedule_lookup" else None
            data = process.call("run_block", prompts=ids, running=3, k=k, max_tokens=24, ignore_eos=True,
                                temperature=0.0)
            results.append((data, process.info["k_control"]))
    (by_lookup, control), (own, fixed) = results
    assert (control, fixed) == ("schedule_lookup", "fixed")
    assert by_lookup["counters"]["spec_decode_num_draft_tokens"] > 0
    same = [(a["drafted"], a["accepted"], a["steps"]) == (b["drafted"], b["accepted"], b["steps"])
            for a, b in zip(by_lookup["requests"], own["requests"], strict=True) if a["ids"] == b["ids"]]
    assert len(same) >= 2
    assert all(same)
    for data in (by_lookup, own):
        drafted = sum(sum(request["drafted"]) for request in data["requests"])
        assert drafted == data["counters"]["spec_decode_num_draft_tokens"]
        assert max(len(request["drafted"]) for request in data["requests"]) <= 2
