"""Intervals over requests: copies are one observation, and few requests are no certainty."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.replay import Plan, probe_replay, token_requests
from probes.replay.estimate import curve
from probes.replay.walk import Tallies
from profiles.recorded import AcceptancePoint
from profiles.workload import Task

K = 4


def tallies(accepted: list[int], steps: int = 20) -> Tallies:
    """A request each, of so many steps that accept so many of 4 drafted tokens."""
    n = len(accepted)
    owner = np.repeat(np.arange(n), steps)
    taken = np.repeat(np.array(accepted), steps)
    return Tallies.of(K, n, owner, np.full(n * steps, K), taken, np.full(n * steps, 99))


def point(accepted: list[int], alike: list[int] | None = None) -> AcceptancePoint:
    found = curve("draft_model", "d", {}, [tallies(accepted)], [Task.MIXED] * len(accepted), alike=alike)
    return found.by_k[0]


def width(found: AcceptancePoint) -> float:
    length = found.acceptance_length
    assert length.low is not None
    assert length.high is not None
    return length.high - length.low


def test_copies_of_one_request_say_no_more_than_the_one() -> None:
    one, copies = point([2]), point([2] * 50, alike=[7] * 50)
    assert copies.acceptance_length.value == one.acceptance_length.value == 3.0
    assert width(copies) == pytest.approx(width(one))
    assert width(copies) > 1.0
    assert copies.acceptance_length.n == 1
    assert copies.matched_share.low is not None
    assert copies.matched_share.low < 1.0


def test_different_requests_that_agree_are_surer_than_copies_and_not_certain() -> None:
    different, copies = point([2] * 50), point([2] * 50, alike=[7] * 50)
    assert 0.0 < width(different) < width(copies) / 10
    assert different.acceptance_length.n == 50


def test_copies_weigh_in_the_mean_as_often_as_they_were_recorded() -> None:
    found = point([0, 4, 4, 4], alike=[0, 1, 1, 1])
    assert found.acceptance_length.value == pytest.approx(1 + 12 / 4)
    assert found.acceptance_length.n == 2


def test_few_requests_are_known_less_surely_than_their_resamples_show() -> None:
    narrow, wide = point([0, 4] * 40), point([0, 4])
    assert width(wide) > width(narrow) * math.sqrt(40)
    assert (wide.acceptance_length.low, wide.acceptance_length.high) == (1.0, 5.0)


@given(st.lists(st.integers(0, K), min_size=1, max_size=12), st.integers(1, 3))
def test_intervals_hold_the_value_within_what_can_be(accepted: list[int], copies: int) -> None:
    found = point(accepted * copies, alike=list(range(len(accepted))) * copies)
    for one, floor, ceiling in ((found.acceptance_length, 1.0, 1.0 + K), (found.matched_share, 0.0, 1.0)):
        assert one.low is not None
        assert one.high is not None
        assert floor <= one.low <= one.value <= one.high <= ceiling
        assert one.low < one.high
    for low, value, high in zip(found.per_position_low, found.per_position, found.per_position_high, strict=True):
        assert 0.0 <= low <= value <= high <= 1.0


def test_a_replay_says_how_many_requests_are_distinct(tmp_path: Path) -> None:
    one = {"prompt_token_ids": [1, 2, 3, 1, 2], "output_token_ids": [3, 1, 2, 3, 1, 2, 9]}
    other = {**one, "output_token_ids": [4, 5, 6, 4, 5]}
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [one] * 9 + [other]))
    plan = Plan({"ngram": [{"prompt_lookup_min": 2, "prompt_lookup_max": 2}]}, most=3)
    found = probe_replay(token_requests([path], None, base=tmp_path), None, plan)
    assert (found.requests, found.distinct) == (10, 2)
    assert any("10 records hold 2 distinct requests" in note for note in found.notes)
    length = found.curves[0].by_k[-1].acceptance_length
    assert length.n == 2
    assert length.low is not None
    assert length.high is not None
    assert length.high - length.low > 0.5
