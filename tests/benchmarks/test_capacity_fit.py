"""The check against the real engine finds the constants of an engine it knows, and says so where it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.capacity.arrivals import from_process
from advisor.capacity.simulation import simulate
from benchmarks.capacity_fit import Constants, Load, engine_of, fitted, measured, medians, rows_of, table_of
from profiles.workload import Lengths

TRUE = Constants(step=90.0, per_request=12.0, per_prompt_token=3.0, server=25.0)
ACCEPTED = (0.8, 0.6)


def _load(name: str, role: str, rate: float, n: int, k: int, slower: float = 1.0) -> Load:
    """A synthetic measurement: what an engine of known constants would have shown."""
    arrivals = from_process(rate, n, Lengths(mean=60), Lengths(mean=32), seed=len(name))
    if role == "saturation":
        arrivals = replace(arrivals, arrival_s=np.zeros(n))
    truth = Constants(*(slower * v for v in (TRUE.step, TRUE.per_request, TRUE.per_prompt_token, TRUE.server)))
    run = simulate(engine_of(truth, k, ACCEPTED), arrivals, seed=77)
    late = truth.server / 1e3
    return Load(name, role, tuple(arrivals.arrival_s), tuple(run.first_token_s + late), tuple(run.finish_s + late),
                tuple(arrivals.prompt_tokens.tolist()), tuple(arrivals.output_tokens.tolist()))


@pytest.mark.parametrize("k", [0, 2])
def test_constants_fitted_on_two_loads_foresee_the_others(k: int) -> None:
    loads = [_load("quarter", "fitted", 0.4, 24, k), _load("half", "scored", 0.7, 40, k),
             _load("more", "fitted", 1.0, 50, k), _load("flood", "saturation", 1.0, 40, k)]
    constants = fitted(loads, k, ACCEPTED)
    # With drafts, how far the few requests got is chance: it moves what is fitted to them.
    assert constants.step + constants.per_request == pytest.approx(TRUE.step + TRUE.per_request, rel=0.1)
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


def test_what_was_measured_is_told_in_users_terms() -> None:
    seen = measured(Load("one", "scored", (0.0,), (0.5,), (2.5,), (10,), (5,)))
    assert seen.ttft_ms.tolist() == [500.0]
    assert seen.tpot_ms.tolist() == [500.0]
    assert seen.tokens_per_s == pytest.approx(2.0)
