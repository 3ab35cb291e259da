"""The longest request an engine lets in: what memory holds, what is written, what keeps it from starting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.memory import plan_memory
from advisor.cost.window import UNSURE, needed_tokens, rounded_down
from advisor.record import Memory
from advisor.situation import Situation
from tests.advisor.situations import gpu_situation

MODEL_TAKES = 131_072
LENGTHS = {"prompt_tokens": 500, "output_tokens": 300, "concurrency": 1}


def small_card(takes: int | None = MODEL_TAKES, gpu: str = "RTX 4090", **stated: Any) -> Situation:
    """An 8B target with a 1B draft on a card that holds far less than one request of the model's own length."""
    found = gpu_situation(gpu, **{**LENGTHS, **stated})
    return replace(found, target=found.target.model_copy(update={"max_position_embeddings": takes}))


def plan(situation: Situation, k: int = 3) -> Memory:
    return plan_memory(situation, situation.candidates[0], k)


def test_a_window_that_memory_does_not_hold_is_written_shorter_and_with_a_margin() -> None:
    found = plan(small_card())
    assert found.window == MODEL_TAKES
    assert (found.window_fits_with, found.window_fits_without) == (False, False)
    assert found.max_model_len_with is not None
    assert found.write_max_model_len_with is not None
    assert 800 <= found.write_max_model_len_with <= found.max_model_len_with * (1.0 - 0.5 * UNSURE)
    # The target alone leaves more room.
    assert found.write_max_model_len_without is not None
    assert found.write_max_model_len_without > found.write_max_model_len_with
    assert (found.fits, found.target_fits) == (True, True)


def test_a_window_that_fits_is_left_to_the_engine() -> None:
    found = plan(small_card(gpu="H200"))
    assert (found.window_fits_with, found.window_fits_without) == (True, True)
    assert (found.write_max_model_len_with, found.write_max_model_len_without) == (None, None)


def test_a_stated_window_is_kept_and_rules_out_what_does_not_hold_it() -> None:
    alone = plan(small_card()).max_model_len_without
    beside = plan(small_card()).max_model_len_with
    assert alone is not None
    assert beside is not None
    between = (alone + beside) // 2
    found = plan(small_card(engine={"max_model_len": between}))
    assert (found.write_max_model_len_with, found.write_max_model_len_without) == (None, None)
    assert (found.target_fits, found.fits) == (True, False)
    assert plan(small_card(engine={"max_model_len": MODEL_TAKES})).target_fits is False
    assert plan(small_card(engine={"max_model_len": 4096})).fits is True


def test_a_stated_window_within_the_plans_error_is_neither_ruled_out_nor_sure() -> None:
    beside = plan(small_card()).max_model_len_with
    assert beside is not None
    found = plan(small_card(engine={"max_model_len": round(beside * (1.0 + 0.4 * UNSURE))}))
    assert (found.window_fits_with, found.fits) == (None, True)


def test_a_workload_longer_than_what_is_left_does_not_fit() -> None:
    beside = plan(small_card()).max_model_len_with
    assert beside is not None
    tail = {"mean": 500, "p99": beside}
    found = plan(small_card(prompt_tokens=tail))
    assert found.fits is False
    assert found.target_fits is True


def test_the_workloads_longest_is_covered_even_where_the_margin_has_to_go() -> None:
    beside = plan(small_card()).max_model_len_with
    assert beside is not None
    needed = beside - 32
    found = plan(small_card(prompt_tokens={"mean": 500, "p99": needed - 300}))
    assert found.fits is True
    assert found.write_max_model_len_with == needed


def test_the_99th_percentile_counts_before_the_longest_ever_seen() -> None:
    stated = small_card(prompt_tokens={"mean": 500, "p99": 4000, "max": 60_000},
                        output_tokens={"mean": 300, "max": 1000})
    assert needed_tokens(stated) == (5000, True)
    assert needed_tokens(small_card()) == (800, False)


def test_a_model_whose_window_nobody_knows_gets_none_written() -> None:
    found = plan(small_card(takes=None))
    assert (found.window, found.window_fits_with, found.write_max_model_len_with) == (None, None, None)


def test_rope_scaling_that_is_passed_through_makes_the_window_unknown() -> None:
    stretched = small_card(engine={"extra_args": {"hf-overrides": {"rope_scaling": {"factor": 2.0}}}})
    assert plan(stretched).window is None


def test_each_side_is_planned_on_the_runner_it_is_served_on() -> None:
    """The release takes V2, the draft is served on V1: what its start takes is V1's, as if V1 had been stated."""
    served, stated = small_card(runner="v2"), small_card(runner="v1", engine={"runner": "v1"})
    on_v2 = small_card(runner="v2", engine={"runner": "v2"})
    assert plan(served).kv_tokens_with == plan(stated).kv_tokens_with
    assert plan(served).kv_tokens_with != plan(on_v2).kv_tokens_with
    assert plan(served).kv_tokens_without == plan(on_v2).kv_tokens_without


@pytest.mark.parametrize(("tokens", "rounded"), [(19_312, 18_432), (16_384, 16_384), (5000, 4864), (100, 96), (7, 0)])
def test_a_written_length_is_one_that_people_can_read(tokens: int, rounded: int) -> None:
    assert rounded_down(tokens) == rounded


@settings(max_examples=40, deadline=None)
@given(utilization=st.floats(0.5, 1.0), prompt=st.integers(1, 60_000), tail=st.floats(1.0, 4.0),
       takes=st.integers(2048, 200_000), gpu=st.sampled_from(("RTX 4090", "L4", "A100 40GB", "H100")))
def test_what_is_written_is_held_and_covers_the_workload(
    utilization: float, prompt: int, tail: float, takes: int, gpu: str
) -> None:
    stated = small_card(takes, gpu, engine={"gpu_memory_utilization": utilization},
                        prompt_tokens={"mean": prompt, "p99": prompt * tail})
    found = plan(stated)
    for written, longest, fits, serves in (
        (found.write_max_model_len_with, found.max_model_len_with, found.window_fits_with, found.fits),
        (found.write_max_model_len_without, found.max_model_len_without, found.window_fits_without, found.target_fits),
    ):
        assert longest is not None
        if written is None:
            assert fits is True or longest < 16
        else:
            assert written <= longest
            assert written >= min(needed_tokens(stated)[0], takes) or not serves
        if fits is False:
            assert longest < takes
