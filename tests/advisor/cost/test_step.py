"""Which runner a candidate is priced on, and whether its drafter runs under graphs there."""

from __future__ import annotations

from advisor.cost.step import draft_has_graphs, runner_for
from profiles.deployment import Candidate
from tests.advisor.situations import cpu_situation, gpu_situation

NGRAM = Candidate(method="ngram", k=(1, 2, 3))


def test_the_runner_is_the_one_the_release_can_use() -> None:
    draft = gpu_situation(version="0.30.0", engine={"runner": "v2"})
    assert runner_for(draft.candidates[0], draft) == "v1"  # draft models came to V2 with 0.31
    suffix = gpu_situation(candidates=[{"method": "suffix"}])
    assert runner_for(suffix.candidates[0], suffix) == "v1"
    assert runner_for(NGRAM, gpu_situation()) == "v2"
    assert runner_for(NGRAM, cpu_situation()) == "cpu"


def test_a_draft_model_has_graphs_on_the_v1_runner_of_releases_that_replay_them() -> None:
    for version, runner, has in (("0.32.0", "auto", True), ("0.32.0", "v2", False), ("0.20.0", "v1", False)):
        situation = gpu_situation(version=version, engine={"runner": runner}, runner="v1" if runner == "v1" else "v2")
        assert draft_has_graphs(situation.candidates[0], situation) is has
    eager = gpu_situation(engine={"enforce_eager": True})
    assert not draft_has_graphs(eager.candidates[0], eager)


def test_drafters_that_never_had_graphs_are_priced_as_they_were_measured() -> None:
    block = gpu_situation(candidates=[{"method": "dflash", "draft": "block"}])
    assert draft_has_graphs(block.candidates[0], block)
    assert draft_has_graphs(NGRAM, gpu_situation())
