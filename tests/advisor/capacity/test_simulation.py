"""The simulation: single steps that can be checked by hand, what must hold of every run, and both ways to run it."""

from __future__ import annotations

import importlib.util
import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.capacity import simulation
from advisor.capacity.arrivals import Arrivals, from_process
from advisor.capacity.bounds import MeanRequest, saturation_rps
from advisor.capacity.rates import DEFAULT_EFFORT, Stream, saturated_rps
from advisor.capacity.simulation import EngineModel, Run, simulate
from profiles.workload import Lengths
from tests.advisor.capacity.engines import engine, requests

ROOT = Path(__file__).resolve().parents[3]


def test_one_request_takes_its_prefill_and_one_step_a_token() -> None:
    run = simulate(engine(), requests([0.5], [100], [5]), compiled=False)
    # 10 ms and 100 x 0.01 ms, then four steps of 10 ms.
    assert run.ttft_ms[0] == pytest.approx(11.0)
    assert run.tpot_ms[0] == pytest.approx(10.0)
    assert run.finish_s[0] == pytest.approx(0.5 + 0.011 + 0.040)
    assert run.steps == 5


def test_drafts_that_are_always_accepted_give_k_more_tokens_a_step() -> None:
    run = simulate(engine(k=3, accept=(1.0, 1.0, 1.0)), requests([0.0], [10], [9]), compiled=False)
    # The first token, then two steps of four.
    assert run.steps == 3


def test_drafts_that_are_never_accepted_give_nothing() -> None:
    run = simulate(engine(k=3, accept=(0.0, 0.0, 0.0)), requests([0.0], [10], [9]), compiled=False)
    assert run.steps == 9


def test_acceptance_comes_out_as_it_was_put_in() -> None:
    accept = (0.8, 0.5, 0.3)
    arrivals = requests([0.0] * 50, [10] * 50, [2001] * 50)
    run = simulate(engine(k=3, accept=accept), arrivals, compiled=False)
    per_request = run.mean_running * run.steps / 50
    assert 2000 / (per_request - 1) == pytest.approx(1 + sum(accept), rel=0.02)


def test_a_schedule_drafts_only_where_it_says() -> None:
    # One running request drafts 3, two or more draft none.
    model = engine(seqs=4, k_of=(3, 3, 0, 0, 0), accept=(1.0, 1.0, 1.0))
    alone = simulate(model, requests([0.0], [10], [41]), compiled=False)
    together = simulate(model, requests([0.0, 0.0], [10, 10], [41, 41]), compiled=False)
    assert alone.steps == 11
    assert together.steps == 41


def test_a_long_prompt_is_cut_into_chunks_of_the_token_budget_while_others_decode() -> None:
    model = engine(budget=100)
    run = simulate(model, requests([0.0, 0.005], [10, 1000], [50, 2]), compiled=False)
    # It waits 5.1 ms for the step in progress; then 99 prompt tokens fit beside the decoding request: ten steps of
    # 10.99 ms, and one with the last ten tokens.
    assert run.ttft_ms[1] == pytest.approx(5.1 + 10 * 10.99 + 10.1)


def test_cached_prompt_tokens_cost_no_prefill() -> None:
    fresh = simulate(engine(), requests([0.0], [1000], [2]), compiled=False)
    cached = simulate(engine(), requests([0.0], [1000], [2], cached=[900]), compiled=False)
    assert fresh.ttft_ms[0] - cached.ttft_ms[0] == pytest.approx(9.0)


def test_no_more_requests_run_than_max_num_seqs() -> None:
    run = simulate(engine(seqs=2), requests([0.0] * 6, [10] * 6, [11] * 6), compiled=False)
    assert run.mean_running <= 2.0
    # Three rounds of two.
    assert sorted(np.round(run.finish_s / run.finish_s[0]).tolist()) == [1, 1, 2, 2, 3, 3]


def test_short_memory_preempts_the_youngest_and_it_still_ends() -> None:
    model = engine(kv_tokens=640)
    run = simulate(model, requests([0.0, 0.0, 0.0], [200, 200, 160], [200, 200, 200]), compiled=False)
    assert run.preemptions.tolist()[0] == 0
    assert run.preemptions.sum() > 0
    assert (run.finish_s > 0).all()
    assert run.peak_kv_tokens <= 640
    assert run.finish_s[0] <= run.finish_s[2]


def test_a_request_longer_than_the_cache_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        simulate(engine(kv_tokens=100), requests([0.0], [100], [50]))


def test_a_token_budget_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        simulate(engine(budget=1, extra_slots=1), requests([0.0], [10], [5]))


def test_draft_slots_count_against_the_token_budget() -> None:
    # Beside a decoding request of 2 tokens a step, 6 prompt tokens fit; with 2 slots each, only 2.
    plain, slotted = (simulate(engine(budget=8, k=1, accept=(0.0,), extra_slots=slots),
                               requests([0.0, 0.0], [4, 40], [60, 2]), compiled=False) for slots in (0, 2))
    assert slotted.first_token_s[1] > plain.first_token_s[1]


arrival_lists = st.lists(
    st.tuples(st.floats(0, 2), st.integers(1, 300), st.integers(1, 60), st.floats(0, 1)), min_size=1, max_size=40
)


def _arrivals(rows: list[tuple[float, int, int, float]]) -> Arrivals:
    rows = sorted(rows)
    return requests([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows],
                    [int(r[1] * r[3]) for r in rows])


def _model(seqs: int, budget: int, kv: int | None, k: int) -> EngineModel:
    return engine(seqs=seqs, extra_slots=1 if k == 2 else 0, budget=budget, kv_tokens=kv, k=k,
                  accept=(0.7, 0.5, 0.3)[:k], per_request_ms=0.3, per_draft_ms=0.5, per_context_ms=1e-4)


@settings(max_examples=60, deadline=None)
@given(rows=arrival_lists, seqs=st.integers(1, 8), budget=st.integers(4, 400),
       kv=st.one_of(st.none(), st.integers(400, 1500)), k=st.integers(0, 3))
def test_every_request_is_served_in_a_possible_order(
    rows: list[tuple[float, int, int, float]], seqs: int, budget: int, kv: int | None, k: int
) -> None:
    arrivals = _arrivals(rows)
    run = simulate(_model(seqs, budget, kv, k), arrivals, compiled=False)
    assert (run.first_token_s > arrivals.arrival_s).all()
    assert (run.finish_s >= run.first_token_s).all()
    # Nobody's tokens come faster than a step's length divided by k + 1.
    assert (run.tpot_ms * (k + 1) + 1e-9 >= np.where(arrivals.output_tokens > k + 2, 10.0, 0.0)).all()
    assert run.mean_running <= seqs + 1e-9
    assert kv is None or run.peak_kv_tokens <= kv
    assert run.busy_s <= run.finish_s.max() - arrivals.arrival_s[0] + 1e-9
    # Little's law holds of every run: requests in the engine or waiting are at most those that are there.
    assert run.mean_running * run.busy_s <= run.latency_s.sum() + 1e-6


@settings(max_examples=30, deadline=None)
@given(rows=arrival_lists, seed=st.integers(0, 1000))
def test_the_same_seed_gives_the_same_run(rows: list[tuple[float, int, int, float]], seed: int) -> None:
    arrivals, model = _arrivals(rows), _model(4, 200, 800, 3)
    one, two = (simulate(model, arrivals, seed=seed, compiled=False) for _ in range(2))
    assert one.finish_s.tolist() == two.finish_s.tolist()


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="the extra `plan` (numba) is not installed")
@settings(max_examples=25, deadline=None)
@given(rows=arrival_lists, seqs=st.integers(1, 8), budget=st.integers(4, 400),
       kv=st.one_of(st.none(), st.integers(400, 1500)), k=st.integers(0, 3), seed=st.integers(0, 99))
def test_compiled_and_plain_loops_give_the_same_bits(
    rows: list[tuple[float, int, int, float]], seqs: int, budget: int, kv: int | None, k: int, seed: int
) -> None:
    arrivals, model = _arrivals(rows), _model(seqs, budget, kv, k)
    plain: Run = simulate(model, arrivals, seed=seed, compiled=False)
    compiled: Run = simulate(model, arrivals, seed=seed, compiled=True)
    assert plain.first_token_s.tolist() == compiled.first_token_s.tolist()
    assert plain.finish_s.tolist() == compiled.finish_s.tolist()
    assert plain.preemptions.tolist() == compiled.preemptions.tolist()
    assert (plain.busy_s, plain.steps, plain.mean_kv_tokens) == (
        compiled.busy_s, compiled.steps, compiled.mean_kv_tokens)


# --- against what is known without simulating ----------------------------------------------------------------------
def test_little_s_law_joins_rate_latency_and_load() -> None:
    arrivals = from_process(8.0, 3000, Lengths(mean=200), Lengths(mean=80), seed=2)
    run = simulate(engine(per_request_ms=0.2), arrivals, compiled=False)
    span = run.finish_s.max() - arrivals.arrival_s[0]
    in_engine = run.mean_running * run.busy_s / span
    waiting = (run.latency_s.sum() - run.mean_running * run.busy_s) / span
    assert in_engine == pytest.approx(3000 / span * run.latency_s.mean(), rel=0.02)
    assert waiting < 0.1 * in_engine


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_an_engine_for_one_request_at_a_time_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    # Ten steps of 10 ms and no prefill: a service of 100 ms, always the same.
    model = engine(seqs=1, prompt_ms=0.0)
    rate = load / 0.1
    waits = []
    for seed in range(4):
        arrivals = from_process(rate, 8000, Lengths(mean=10), Lengths(mean=10), seed=seed, spread=0.0)
        run = simulate(model, arrivals, compiled=False)
        waits.append(float((run.ttft_ms - 10.0).mean()) / 1000.0)
    # Rate times the mean square of the service, over twice what is left of the server.
    assert float(np.mean(waits)) == pytest.approx(rate * 0.1**2 / (2.0 * (1.0 - load)), rel=0.1)


@pytest.mark.parametrize(("k", "kv"), [(0, None), (3, None), (0, 12_000), (3, 20_000)])
def test_saturation_agrees_with_mean_values(k: int, kv: int | None) -> None:
    model = engine(k=k, accept=(0.75, 0.5, 0.25)[:k], per_request_ms=0.2, per_draft_ms=1.0, kv_tokens=kv, seqs=48)
    stream = Stream(Lengths(mean=300, p95=600), Lengths(mean=120, p95=250))
    simulated = saturated_rps(model, stream, DEFAULT_EFFORT)
    bound = saturation_rps(model, MeanRequest(300, 0, 120))
    assert 0.75 * bound < simulated < 1.05 * bound


# --- a loop that ends, and that can be ended -------------------------------------------------------------------------
@settings(max_examples=25, deadline=None)
@given(rows=arrival_lists, kv=st.one_of(st.none(), st.integers(400, 1500)), k=st.integers(0, 3),
       at_once=st.integers(1, 50))
def test_a_run_in_pieces_is_the_run_in_one_piece(
    rows: list[tuple[float, int, int, float]], kv: int | None, k: int, at_once: int
) -> None:
    arrivals, model = _arrivals(rows), _model(4, 100, kv, k)
    whole = simulate(model, arrivals, compiled=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "STEPS_AT_ONCE", at_once)
        pieces = simulate(model, arrivals, compiled=False)
    assert pieces.finish_s.tolist() == whole.finish_s.tolist()
    assert pieces.first_token_s.tolist() == whole.first_token_s.tolist()
    assert (pieces.busy_s, pieces.steps, pieces.mean_kv_tokens) == (whole.busy_s, whole.steps, whole.mean_kv_tokens)


@settings(max_examples=40, deadline=None)
@given(rows=arrival_lists, seqs=st.integers(1, 8), budget=st.integers(4, 400),
       kv=st.one_of(st.none(), st.integers(400, 1500)), k=st.integers(0, 3))
def test_there_are_no_more_steps_than_tokens(
    rows: list[tuple[float, int, int, float]], seqs: int, budget: int, kv: int | None, k: int
) -> None:
    arrivals = _arrivals(rows)
    run = simulate(_model(seqs, budget, kv, k), arrivals, compiled=False)
    assert run.steps <= int(arrivals.prompt_tokens.sum() + arrivals.output_tokens.sum())


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf])
def test_a_time_that_never_comes_is_refused_instead_of_waited_for(time: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        simulate(engine(), requests([0.0, time], [10, 10], [5, 5]), compiled=False)
    with pytest.raises(ValueError, match="finite"):
        simulate(engine(base_ms=time), requests([0.0], [10], [5]), compiled=False)


def test_arrivals_out_of_order_and_empty_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="rising order"):
        simulate(engine(), requests([1.0, 0.0], [10, 10], [5, 5]), compiled=False)
    with pytest.raises(ValueError, match="at least one token"):
        simulate(engine(), requests([0.0], [0], [5]), compiled=False)


@pytest.mark.parametrize("compiled", [
    False,
    pytest.param(True, marks=pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba")),
])
def test_a_signal_ends_a_simulation_that_would_take_hours(compiled: bool) -> None:
    program = f"""
import numpy as np
from advisor.capacity.simulation import simulate
from tests.advisor.capacity.engines import engine, requests
print("begun", flush=True)
simulate(engine(base_ms=0.0), requests([0.0], [10], [10**12]), compiled={compiled})
"""
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        # Hours without the pauses; the limit is for a machine with much else to do. A library that is still being
        # loaded may swallow a first signal.
        for _ in range(30):
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=2)
                break
        assert child.returncode not in (None, 0)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
