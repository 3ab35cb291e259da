"""From an engine child's rows (synthetic) to evidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.trial.comparison import between_run_spread
from probes.trial.samples import (
    LONGEST_CELL,
    beside,
    context_bucket,
    kept_at_load_s,
    prefill_samples,
    request_samples,
    step_samples,
    timed_block,
)
from profiles.workload import Task


def row(step_ms=10.0, running=4, prefilling=0, prompt_tokens=0, scheduled=16, drafts=12, output=9, context=100.0,
        draft_ms=2.0, beside_ms=None):
    return [step_ms, running, prefilling, prompt_tokens, scheduled, drafts, output, context, draft_ms, beside_ms]


def test_only_decode_steps_are_cells_and_each_load_is_its_own():
    rows = [row(prefilling=4, prompt_tokens=80), row(step_ms=11), row(step_ms=12), row(running=3, scheduled=12)]
    cells = step_samples(rows, 3, Task.CODE)
    assert [(c.running, c.step_ms) for c in cells] == [(3, (10.0,)), (4, (11, 12))]
    assert cells[1].tokens_per_step == 16
    assert cells[1].output_tokens == 18
    assert cells[1].draft_ms == (2.0, 2.0)


def test_contexts_of_another_size_are_another_cell():
    cells = step_samples([row(context=100), row(context=600)], 1, None)
    assert [round(c.context_tokens) for c in cells] == [100, 600]


def test_where_the_drafter_was_not_timed_no_share_is_claimed():
    assert step_samples([row(), row(draft_ms=None)], 3, None)[0].draft_ms == ()


def test_steps_that_mix_prompts_and_decoding_are_neither_prefill_nor_cell():
    rows = [row(running=4, prefilling=4, prompt_tokens=64), row(running=4, prefilling=1, prompt_tokens=16)]
    assert [(p.tokens, p.step_ms) for p in prefill_samples(rows)] == [(64, 10.0)]
    assert step_samples(rows, 2, None) == []


def test_a_step_is_read_beside_the_plain_steps_before_and_after_it():
    rows = [row(beside_ms=100.0), row(), row(beside_ms=120.0), row()]
    assert beside(rows) == [110.0, 110.0, 120.0, 120.0]
    assert beside([row(), row(beside_ms=90.0)]) == [90.0, 90.0]
    assert beside([row(), row()]) == [None, None]
    (cell,) = step_samples(rows, 3, Task.CODE, beside_running=4)
    assert (cell.beside_ms, cell.beside_running) == ((110.0, 110.0, 120.0, 120.0), 4)
    (prompt,) = prefill_samples([row(running=4, prefilling=4, prompt_tokens=64), row(beside_ms=90.0)], 4)
    assert (prompt.beside_ms, prompt.beside_running) == (90.0, 4)


def test_without_plain_steps_none_are_claimed():
    (cell,) = step_samples([row()], 3, None, beside_running=4)
    assert (cell.beside_ms, cell.beside_running) == ((), 0)


def test_a_long_cell_is_thinned_and_counts_only_what_it_keeps():
    cell = step_samples([row(output=2) for _ in range(5 * LONGEST_CELL + 3)], 1, None)[0]
    assert len(cell.step_ms) <= LONGEST_CELL
    assert cell.output_tokens == 2 * len(cell.step_ms)


def test_requests_that_never_decoded_are_no_observation():
    requests = [{"place": 0, "prompt_tokens": 5, "ids": [1], "steps": 0, "drafted": [], "accepted": []},
                {"place": 1, "prompt_tokens": 6, "ids": [1, 2, 3], "steps": 1, "drafted": [1, 1], "accepted": [1, 0]}]
    only = request_samples(requests, [Task.CODE, Task.CHAT], k=3)
    assert [(r.task, r.k, r.steps, r.output_tokens) for r in only] == [(Task.CHAT, 3, 1, 3)]


def test_a_blocks_decode_rate_counts_full_load_decode_steps_only():
    rows = [row(prefilling=4, prompt_tokens=9), row(), row(), row(running=2)]
    data = {"wall_s": 5.0, "output_tokens": 40, "steps": rows}
    block = timed_block(data, 3, 4, None, 1)
    assert (block.decode_s, block.decode_tokens, block.start) == (0.02, 18, 1)


@given(st.floats(0, 1e6))
def test_a_bucket_holds_its_own_lower_edge_and_less_than_twice_of_it(tokens):
    bucket = context_bucket(tokens)
    assert bucket <= tokens
    assert tokens < max(64, 2 * bucket)


def test_two_starts_at_different_paces_of_the_machine_do_not_differ():
    blocks = [timed_block({"wall_s": 1.0, "output_tokens": 9, "steps": [row(step_ms=ms, beside_ms=0.5 * ms)] * 4}, 3, 4,
                          None, start) for start, ms in ((0, 20.0), (1, 34.0))]
    assert [block.beside_ms for block in blocks] == [10.0, 17.0]
    assert between_run_spread([], blocks) == pytest.approx(0.0, abs=1e-9)
    untold = [block.model_copy(update={"beside_ms": None}) for block in blocks]
    assert between_run_spread([], untold) > 0.2


def test_a_blocks_end_counts_as_if_others_ran_beside_it():
    # Eight tokens of two requests side by side, then four of one alone, whose steps are cheaper.
    rows = [row(running=2, step_ms=20.0)] * 4 + [row(running=1, step_ms=14.0)] * 4
    data = {"wall_s": 0.15, "output_tokens": 12, "steps": rows}
    assert kept_at_load_s(data, 2) == pytest.approx(0.15 - 4 * 0.014 + 4 * 0.010)


def test_a_block_that_never_reached_its_load_keeps_its_own_time():
    assert kept_at_load_s({"wall_s": 0.5, "output_tokens": 3, "steps": [row(running=1)] * 3}, 4) == 0.5


@given(st.integers(1, 8), st.lists(st.floats(1.0, 1e3), min_size=1, max_size=9))
def test_a_block_kept_at_its_load_takes_what_it_took(load, times):
    data = {"wall_s": 9.0, "output_tokens": 9, "steps": [row(running=load, step_ms=ms) for ms in times]}
    assert kept_at_load_s(data, load) == pytest.approx(9.0)
