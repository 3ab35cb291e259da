"""The break-even map: what draft size and acceptance would pay, by the code that prices every candidate."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.draft_map import REFERENCE_K, draft_map, head_like, length_of, model_like, rate_of
from advisor.prediction import price
from advisor.record import DraftMap
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation, llama_8b


def made(gpu: str = "H100", version: str = "0.32.0", **workload: Any) -> DraftMap:
    engine = {"max_model_len": 8192}
    found = draft_map(price(gpu_situation(gpu, version=version, engine=engine, tasks="chat", **workload)))
    assert found is not None
    return found


def test_more_acceptance_never_pays_less_and_a_larger_draft_never_more() -> None:
    found = made(concurrency=8)
    models = [row for row in found.rows if row.method == "draft_model" and row.fits]
    for row in models:
        speeds = [s for s in row.speedup if s is not None]
        assert speeds == sorted(speeds)
    for small, large in pairwise(models):
        assert small.params < large.params
        assert all((a or 0) >= (b or 0) for a, b in zip(small.speedup, large.speedup, strict=True))
        assert (small.break_even_acceptance_length or 9) <= (large.break_even_acceptance_length or 9)


def test_break_even_is_where_the_speed_up_crosses_one() -> None:
    found = made(concurrency=64)
    for row in found.rows:
        for length, speed in zip(found.acceptance_lengths, row.speedup, strict=True):
            if speed is not None and row.break_even_acceptance_length is not None:
                assert (speed > 1.0) == (length > row.break_even_acceptance_length) or abs(speed - 1.0) < 2e-3


def test_the_load_raises_the_acceptance_a_draft_must_reach() -> None:
    quiet, busy = made(concurrency=1), made(concurrency=64)
    for idle, loaded in zip(quiet.rows, busy.rows, strict=True):
        assert (idle.break_even_acceptance_length or 0) < (loaded.break_even_acceptance_length or 99)


def test_a_draft_that_does_not_fit_has_no_figures() -> None:
    large = made("RTX 4090", concurrency=1).rows[-1]
    assert large.params == 3_000_000_000
    assert not large.fits
    assert set(large.speedup) == {None}
    assert large.break_even_acceptance_length is None


def test_only_drafts_that_the_release_could_use_are_on_the_map() -> None:
    assert {row.method for row in made(version="0.14.1", concurrency=1).rows} == {"eagle3"}
    assert {row.method for row in made(concurrency=1).rows} == {"eagle3", "draft_model"}
    old = price(gpu_situation(version="0.7.0", concurrency=1, tasks="chat"))
    found = draft_map(old)
    assert found is None or {row.method for row in found.rows} <= {"draft_model", "eagle"}


def test_a_trial_on_the_cpu_engine_gets_a_map_too() -> None:
    found = draft_map(price(cpu_situation(cpu_trial(), concurrency=1, tasks="code")))
    assert found is not None
    assert found.running == 1
    assert any(row.fits for row in found.rows)


@pytest.mark.parametrize("params", [0.03e9, 0.5e9, 7e9])
def test_made_up_models_have_about_the_size_they_are_named_for(params: float) -> None:
    shape = model_like(llama_8b(), params)
    layers = 12 * shape.num_layers * shape.hidden_size**2
    assert layers + shape.embedding_params == pytest.approx(params, rel=0.15)
    assert shape.vocab_size == llama_8b().vocab_size


def test_a_made_up_head_is_a_fraction_of_one_percent_of_a_large_target_and_reads_its_vocabulary() -> None:
    head = head_like(llama_8b())
    assert 0.01 < head.params / llama_8b().params < 0.06
    assert head.active_params - head.params == llama_8b().vocab_size * llama_8b().hidden_size


@given(st.floats(1.0, REFERENCE_K + 1.0))
def test_a_length_comes_back_from_its_rate(length: float) -> None:
    assert length_of(rate_of(length, REFERENCE_K), REFERENCE_K) == pytest.approx(length, abs=1e-6)
