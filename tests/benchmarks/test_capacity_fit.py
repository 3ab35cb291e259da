"""The check against the real engine finds the constants of an engine it knows, and says so where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.capacity.arrivals import from_process
from benchmarks.capacity_fit import SEQS, Constants, Load, fitted, measured, medians, rows_of, steps_of, table_of
from profiles.workload import Lengths

TRUE = Constants(step=90.0, per_request=12.0, per_prompt_token=3.0, server=25.0)
ACCEPTED = (0.8, 0.6)


def _load(name: str, role: str, rate: float, n: int, k: int, slower: float = 1.0) -> Load:
    """A synthetic measurement: what an engine of known constants would have shown, by a loop of its own."""
    arrivals = from_process(rate, n, Lengths(mean=60), Lengths(mean=32), seed=len(name))
    sent = np.zeros(n) if role == "saturation" else arrivals.arrival_s
    prompt, output = arrivals.prompt_tokens.tolist(), arrivals.output_tokens.tolist()
    generator = np.random.default_rng(77)
    now, waiting = 0.0, list(range(n))
    decoding: dict[int, int] = {}
    chunks: list[list[float]] = [[] for _ in range(n)]
    while waiting or decoding:
        if not decoding:
            now = max(now, sent[waiting[0]])
        admitted = [r for r in waiting[: SEQS - len(decoding)] if sent[r] <= now]
        waiting = waiting[len(admitted):]
        now += 1e-3 * slower * (TRUE.step + TRUE.per_request * len(decoding)
                                + TRUE.per_prompt_token * sum(prompt[r] for r in admitted))
        for r in list(decoding):
            chance = generator.random()
            decoding[r] += 1 + (sum(chance < p for p in ACCEPTED) if k else 0)
            chunks[r].append(now)
            if decoding[r] >= output[r]:
                del decoding[r]
        for r in admitted:
            chunks[r].append(now)
            if output[r] > 1:
                decoding[r] = 1
    # What the server takes comes before the engine sees a request; seen from outside everything is later by it.
    late = 1e-3 * slower * TRUE.server
    came = tuple(tuple(at + late for at in own) for own in chunks)
    return Load(name, role, tuple(sent), tuple(c[0] for c in came), tuple(c[-1] for c in came), tuple(prompt),
                tuple(output), came)


@pytest.mark.parametrize("k", [0, 2])
def test_constants_fitted_on_two_loads_foresee_the_others(k: int) -> None:
    loads = [_load("quarter", "fitted", 0.4, 24, k), _load("half", "scored", 0.7, 40, k),
             _load("more", "fitted", 1.0, 50, k), _load("flood", "saturation", 1.0, 40, k)]
    constants = fitted(loads, k, ACCEPTED)
    for name in ("step", "per_request", "per_prompt_token", "server"):
        assert getattr(constants, name) == pytest.approx(getattr(TRUE, name), rel=0.05, abs=2.0), name
    rows = rows_of("arm", loads, constants, k, ACCEPTED)
    assert [row.role for row in rows] == ["fitted", "scored", "fitted", "saturation"]
    found = medians(rows)
    assert found["tokens_per_s"] < 0.03
    assert found["tpot_ms"] < 0.05
    assert found["ttft_ms"] < 0.12
    assert found["requests_per_s"] < 0.05


def test_an_engine_that_changes_between_the_loads_is_not_foreseen_and_the_table_says_so() -> None:
    loads = [_load("quarter", "fitted", 0.4, 24, 0), _load("more", "fitted", 1.0, 50, 0),
             _load("half", "scored", 0.7, 40, 0, slower=2.0), _load("flood", "saturation", 1.0, 40, 0, slower=2.0)]
    rows = rows_of("arm", loads, fitted(loads, 0, ()), 0, ())
    assert medians(rows)["tpot_ms"] > 0.3
    table = table_of(rows)
    assert "not kept" in table
    assert "all at once" in table
    assert "| arm | quarter, fitted |" in table


def test_steps_of_two_lengths_are_foreseen_by_their_mean() -> None:
    """A machine whose every other step is slow: what users see is the mean, not the many fast ones."""
    slow = _load("quarter", "fitted", 0.4, 24, 0)
    stretched = []
    for came in slow.chunks_s:
        gaps = np.diff([0.0, *came])
        stretched.append(tuple(np.cumsum(gaps * np.where(np.arange(len(gaps)) % 2, 2.0, 1.0))))
    alone = [Load("alone", role, (0.0,), (c[0],), (c[-1],), (p,), (o,), (c,))
             for role in ("fitted", "scored")
             for c, p, o in zip(stretched, slow.prompt_tokens, slow.output_tokens, strict=True)]
    errors = [row.error("tpot_ms") for row in rows_of("arm", alone, fitted(alone, 0, ()), 0, ())]
    assert abs(float(np.mean(errors))) < 0.05


def test_pieces_of_one_step_that_come_late_do_not_make_a_step_of_their_own() -> None:
    load = Load("one", "fitted", (0.0, 0.0), (0.1, 0.115), (0.5, 0.52), (4, 4), (5, 5),
                ((0.1, 0.2, 0.3, 0.4, 0.5), (0.115, 0.202, 0.318, 0.4, 0.52)))
    assert [(round(step.ms), step.decoding, step.prompt_tokens) for step in steps_of(load)] == [(100, 2, 0)] * 4


def test_what_was_measured_is_told_in_users_terms() -> None:
    seen = measured(Load("one", "scored", (0.0,), (0.5,), (2.5,), (10,), (5,), ((0.5, 2.5),)))
    assert seen.ttft_ms.tolist() == [500.0]
    assert seen.tpot_ms.tolist() == [500.0]
    assert seen.tokens_per_s == pytest.approx(2.0)
