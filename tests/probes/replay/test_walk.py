import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.replay.estimate import best_settings, curve
from probes.replay.walk import Row, Tallies, run_lengths, walk
from profiles.workload import Task

MATCHES = st.lists(st.lists(st.booleans(), min_size=1, max_size=40), min_size=1, max_size=4)


def draft_walk(matches, most):
    row = Row(np.array([len(one) for one in matches]))
    flat = np.array([m for one in matches for m in one])
    return row, flat, run_lengths(row, flat, most)


@given(MATCHES, st.integers(1, 6))
def test_accepted_and_bonus_tokens_of_all_steps_are_the_recorded_ones(matches, most):
    row, _, reach = draft_walk(matches, most)
    for tally in walk(row, reach, np.full(len(reach), most), range(1, most + 1)):
        for request, one in enumerate(matches):
            tokens = tally.steps[request] + tally.accepted[request].sum()
            # The last step may take its bonus token from behind the record.
            assert len(one) <= tokens <= len(one) + 1


@given(MATCHES, st.integers(1, 6))
def test_a_run_of_matches_ends_with_the_request(matches, most):
    _, _, reach = draft_walk(matches, most)
    expected = []
    for one in matches:
        for start in range(len(one)):
            run = 0
            while run < most and start + run < len(one) and one[start + run]:
                run += 1
            expected.append(run)
    assert reach.tolist() == expected


@given(MATCHES, st.integers(1, 6))
def test_positions_past_the_record_are_not_counted(matches, most):
    row, _, reach = draft_walk(matches, most)
    for tally in walk(row, reach, np.full(len(reach), most), range(1, most + 1)):
        assert (tally.observed[:, 0] == tally.steps).all()
        assert (tally.accepted <= tally.drafted).all()
        assert (tally.drafted <= tally.observed).all()
        assert (np.diff(tally.observed, axis=1) <= 0).all()


def test_certain_chances_count_like_matches():
    row, flat, reach = draft_walk([[True, True, False, True], [False, True, True]], 3)
    plain = walk(row, reach, np.full(len(reach), 3), [1, 2, 3])
    expected = walk(row, reach, np.full(len(reach), 3), [1, 2, 3], flat.astype(float))
    for one, other in zip(plain, expected, strict=True):
        assert one.accepted.tolist() == other.accepted.tolist()


def test_a_chance_replaces_only_the_last_factor():
    row = Row(np.array([3]))
    reach = run_lengths(row, np.array([True, False, True]), 2)
    (tally,) = walk(row, reach, np.full(3, 2), [2], np.array([0.8, 0.25, 0.5]))
    # Steps start at 0 and 2: the first one's second token is reached because its first one matched.
    assert tally.accepted.tolist() == [[0.8 + 0.5, 0.25]]


def curve_of(matches, tasks, most=3):
    row, _, reach = draft_walk(matches, most)
    return curve("draft_model", "d", {}, walk(row, reach, np.full(len(reach), most), range(1, most + 1)), tasks)


def test_acceptance_length_is_one_and_the_positions_and_grows_with_k():
    found = curve_of([[True, True, False] * 8, [True, False] * 8], [Task.MIXED] * 2)
    lengths = [point.acceptance_length.value for point in found.by_k]
    assert lengths == sorted(lengths)
    for point in found.by_k:
        assert point.acceptance_length.value == pytest.approx(1 + sum(point.per_position), abs=1e-5)
        assert point.acceptance_length.low <= point.acceptance_length.value <= point.acceptance_length.high
        assert len(point.per_position) == len(point.per_position_low) == point.k
    assert found.by_task == {}


def test_intervals_narrow_with_more_requests():
    rng = np.random.default_rng(0)
    few, many = ([list(rng.random(30) < 0.6) for _ in range(n)] for n in (6, 1200))
    width = [q.high - q.low for q in (curve_of(m, [Task.MIXED] * len(m)).by_k[-1].acceptance_length
                                      for m in (few, many))]
    assert width[1] < width[0] / 4


def test_each_task_gets_its_own_figures():
    found = curve_of([[True] * 20, [False] * 20], [Task.CODE, Task.CREATIVE])
    assert found.by_task[Task.CODE][0].acceptance_length.value == 2.0
    assert found.by_task[Task.CREATIVE][0].acceptance_length.value == 1.0


def test_a_step_without_a_draft_is_a_step_of_one_token():
    offered = np.array([0, 0, 2, 2])
    (tally,) = walk(Row(np.array([4])), np.array([0, 0, 2, 1]), offered, [2])
    (point,) = curve("ngram", None, {}, [tally], [Task.MIXED]).by_k
    assert point.steps == 3
    assert point.matched_share.value == pytest.approx(1 / 3)
    assert point.engine_acceptance_length > point.acceptance_length.value


def test_the_best_setting_accepts_most_and_of_equals_drafts_least():
    def of(accepted, offered):
        return Tallies.of(2, 1, np.zeros(10, int), np.full(10, offered), np.full(10, accepted), np.full(10, 99))

    curves = [curve("ngram", None, {"prompt_lookup_min": low, "prompt_lookup_max": 5}, [of(*pair)], [Task.MIXED])
              for low, pair in ((1, (1, 2)), (2, (1, 1)), (3, (0, 1)))]
    (best,) = best_settings(curves)
    assert best.settings["prompt_lookup_min"] == 2
