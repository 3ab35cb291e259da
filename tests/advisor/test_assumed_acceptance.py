"""The prior as an acceptance curve: it grows with k, stays within what steps give, and is that of predict."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.assumed_acceptance import prior_curve
from advisor.cases.acceptance import prior_lengths
from advisor.cases.case import parse_case
from advisor.cases.model import shipped_model
from advisor.cases.table import table_of
from advisor.intervals import log_sd_of
from profiles.deployment import Candidate
from profiles.methods import method
from tests.advisor.situations import gpu_situation

METHODS = ("draft_model", "eagle3", "ngram", "suffix", "mtp", "dflash")


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(METHODS), st.sampled_from(["code", "chat", "creative", "json"]), st.integers(1, 24),
       st.floats(16, 60_000))
def test_lengths_grow_with_k_and_positions_fall(name: str, task: str, most: int, prompt: float) -> None:
    draft = {"id": "some-draft"} if method(name).needs_draft else None
    candidate = Candidate.model_validate({"method": name, "draft": draft, "k": [1]})
    curve = prior_curve(gpu_situation(tasks=task), candidate, most, prompt)
    lengths = [q.value for q in curve.lengths]
    assert lengths == sorted(lengths)
    assert all(1.0 < length <= k + 2 for k, length in enumerate(lengths))
    positions = [q.value for q in curve.positions]
    assert all(a >= b for a, b in itertools.pairwise(positions))
    assert 1.0 + sum(positions) == pytest.approx(lengths[-1])
    for quantity in (*curve.lengths, *curve.positions):
        assert quantity.low is not None
        assert quantity.high is not None
        assert 0.0 <= quantity.low <= quantity.value <= quantity.high
    assert all(0.0 < drafted <= k + 1 for k, drafted in enumerate(curve.drafted))
    assert 0.0 < curve.matched <= 1.0


def test_the_curve_is_the_prior_of_the_same_case() -> None:
    situation = gpu_situation(tasks="code", sampling={"temperature": 0.5})
    case = {"gpu": "RTX PRO 6000", "tensor_parallel": 1, "target": "meta-llama/Llama-3.1-8B-Instruct",
            "draft": "meta-llama/Llama-3.2-1B-Instruct", "method": "draft_model", "engine_version": "0.32.0",
            "concurrency": 1, "temperature": 0.5, "task_family": "code", "prompt_len": 300, "output_len": 200}
    table, refused = table_of([parse_case({**case, "k": k}) for k in (1, 3, 5)])
    assert not refused
    middle, spread = prior_lengths(table, shipped_model().acceptance)
    curve = prior_curve(situation, situation.candidates[0], 5, 300.0)
    found = [curve.lengths[k - 1] for k in (1, 3, 5)]
    assert [q.value for q in found] == pytest.approx(list(middle), rel=0.01)
    assert [log_sd_of(q.low, q.high) for q in found] == pytest.approx(list(spread), rel=0.01)


def test_not_knowing_the_text_is_wider_than_knowing_it() -> None:
    def spreads(**workload: object) -> list[float]:
        situation = gpu_situation(**workload)
        return [log_sd_of(q.low, q.high) for q in prior_curve(situation, situation.candidates[0], 5, 300.0).lengths]

    assert (np.array(spreads()) > np.array(spreads(tasks="code"))).all()
