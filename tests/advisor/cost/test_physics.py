"""The step-time model over many setups: properties that hold whatever the fitted constants are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cases.case import parse_case
from advisor.cases.model import shipped_model
from advisor.cases.pricing import matched_share
from advisor.cases.table import table_of
from advisor.cost.gain import most_running, speedup
from advisor.cost.physics import step_times

CONSTANTS = shipped_model().constants
METHODS = st.sampled_from(["eagle3", "eagle", "mtp", "draft_model", "ngram", "suffix", "dflash", "medusa"])
TARGETS = st.sampled_from(["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B",
                           "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3.6-27B"])
GPUS = st.sampled_from(["H100", "A100 80GB", "RTX 3090", "B200", "MI300X", "L40S"])


def columns(**case: Any) -> dict[str, Any]:
    """One case's columns, each of length one."""
    stated = {"gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "eagle3", "k": 3,
              "concurrency": 1, "prompt_len": 100, "output_len": 400, "tensor_parallel": 1, **case}
    table, refused = table_of([parse_case(stated)])
    assert not refused
    return table.of


def ratio(c: dict[str, Any], acceptance: float) -> float:
    length = np.array([acceptance])
    return float(speedup(c, CONSTANTS, length, matched_share(c, CONSTANTS, length))[0])


def changed(c: dict[str, Any], **values: float) -> dict[str, Any]:
    return {**c, **{name: np.full_like(c[name], value) for name, value in values.items()}}


@settings(max_examples=40, deadline=None)
@given(METHODS, TARGETS, GPUS, st.integers(1, 8), st.integers(1, 256))
def test_more_accepted_tokens_never_slow_a_drafter_down(method: str, target: str, gpu: str, k: int, n: int) -> None:
    c = columns(method=method, target=target, gpu=gpu, k=k, concurrency=n, tensor_parallel=8)
    lengths = np.linspace(1.05, k + 1, 6)
    matched = np.full(6, 0.6)
    many = {name: np.repeat(column, 6) for name, column in c.items()}
    found = speedup(many, CONSTANTS, lengths, matched)
    assert (np.diff(found) > 0).all()


@settings(max_examples=40, deadline=None)
@given(METHODS, TARGETS, GPUS, st.floats(1.05, 4.0), st.integers(1, 512))
def test_a_faster_card_never_takes_longer_for_a_step(method: str, target: str, gpu: str, by: float, n: int) -> None:
    c = columns(method=method, target=target, gpu=gpu, concurrency=n)
    matched = np.array([0.5])
    running = np.array([float(n)])
    here = step_times(c, CONSTANTS, running, matched)
    for better in (changed(c, bandwidth=float(c["bandwidth"][0]) * by),
                   changed(c, tflops16=float(c["tflops16"][0]) * by, tflops8=float(c["tflops8"][0]) * by,
                           tflops4=float(c["tflops4"][0]) * by)):
        there = step_times(better, CONSTANTS, running, matched)
        assert there.baseline[0] <= here.baseline[0] + 1e-9
        assert there.speculating[0] <= here.speculating[0] + 1e-9


@settings(max_examples=40, deadline=None)
@given(METHODS, TARGETS, GPUS, st.integers(1, 200), st.integers(1, 200), st.integers(1, 8))
def test_a_step_of_more_requests_takes_longer(method: str, target: str, gpu: str, n: int, more: int, k: int) -> None:
    c = columns(method=method, target=target, gpu=gpu, k=k)
    matched = np.array([0.5])
    few, many = (step_times(c, CONSTANTS, np.array([float(load)]), matched) for load in (n, n + more))
    assert many.baseline[0] > few.baseline[0]
    assert many.verify[0] > few.verify[0]


@pytest.mark.parametrize("gpu", ["H100", "A100 80GB", "RTX 3090", "L40S"])
@pytest.mark.parametrize("method", ["eagle3", "ngram"])
def test_gains_fall_with_load_at_short_context_once_compute_binds(gpu: str, method: str) -> None:
    ratios = [ratio(columns(gpu=gpu, method=method, concurrency=n, k=4), 2.4) for n in (1, 32, 128)]
    assert ratios[0] > ratios[1] > ratios[2]




def test_the_crossover_rises_with_context_where_reading_kv_dominates() -> None:
    # Decode only: a prompt's own pass would hide what the step does.
    found = []
    for context in (100.0, 2000.0, 8000.0):
        c = changed(columns(k=4), memory=1e6)
        at = 4096.0
        for n in np.geomspace(1, 4096, 60):
            moved = changed(c, prompt=context, running=float(n))
            times = step_times(moved, CONSTANTS, np.array([float(n)]), np.array([1.0]))
            if 1.9 * times.baseline[0] < times.speculating[0]:
                at = float(n)
                break
        found.append(at)
    assert found[0] < found[1] <= found[2]


def test_kv_is_shared_by_tensor_parallel_only_up_to_the_number_of_kv_heads() -> None:
    long = {"target": "Qwen/Qwen3-235B-A22B", "prompt_len": 100_000, "concurrency": 32}

    def kv(parallel: int) -> float:
        c = changed(columns(**long, tensor_parallel=parallel), read_always=1.0, routed=0.0, nvlink=1.0)
        here, none = (step_times(changed(c, kv_bytes=float(b)), CONSTANTS, np.array([64.0]), np.array([1.0]))
                      for b in (c["kv_bytes"][0], 0.0))
        return float(here.baseline[0] - none.baseline[0])

    assert kv(2) == pytest.approx(kv(1) / 2)
    assert kv(4) == pytest.approx(kv(1) / 4)
    assert kv(8) == pytest.approx(kv(4))


def test_a_load_whose_kv_does_not_fit_is_priced_at_what_does() -> None:
    c = columns(gpu="RTX 3090", concurrency=512, prompt_len=4000)
    assert most_running(c)[0] < 64
    assert ratio(c, 2.0) == pytest.approx(ratio(changed(c, running=float(most_running(c)[0])), 2.0))


def test_a_drafter_takes_room_from_the_requests_that_run_beside_it() -> None:
    c = columns(gpu="RTX 3090", method="draft_model", draft_params_b=1.0, concurrency=64, output_len=1000)
    fewer, plain = most_running(c, speculating=True)[0], most_running(c)[0]
    assert fewer < plain < 64
    # The same steps in a card that holds both: only the requests that wait are missing.
    roomy = changed(c, memory=1e6)
    held = min(ratio(changed(roomy, running=float(n)), 2.5) for n in (fewer, plain))
    assert ratio(c, 2.5) < held
    few = {"running": float(fewer)}
    assert ratio(changed(c, **few), 2.5) == pytest.approx(ratio(changed(roomy, **few), 2.5))


def test_recurrent_layers_keep_a_state_for_every_drafted_token() -> None:
    few, many = (columns(gpu="RTX 3090", target="Qwen/Qwen3.6-27B", quantization="awq", method="mtp", k=k,
                         tensor_parallel=2, concurrency=64) for k in (1, 8))
    assert most_running(many, speculating=True)[0] < 0.5 * most_running(few, speculating=True)[0]
    assert most_running(many)[0] == most_running(few)[0]



def test_without_drafted_tokens_nothing_changes() -> None:
    assert ratio(columns(k=0), 1.0) == 1.0


def test_a_higher_arrival_rate_is_a_higher_load() -> None:
    c = columns(target="meta-llama/Llama-3.3-70B-Instruct", tensor_parallel=4, method="draft_model", k=4)
    slow, fast = (ratio(changed(c, qps=rate, running=1.0), 2.5) for rate in (0.5, 20.0))
    assert fast < slow


def test_prompts_that_fill_the_steps_leave_little_to_gain() -> None:
    agents = {"gpu": "A100 80GB", "method": "eagle3", "k": 3, "engine_version": "0.10.1", "output_len": 100,
              "concurrency": 32}
    short, long = (ratio(columns(**agents, prompt_len=prompt), 2.4) for prompt in (100, 8000))
    assert long < 1.05 < short


def test_the_first_engine_reads_the_kv_again_for_every_drafted_token() -> None:
    def growth(version: str) -> float:
        c = columns(engine_version=version, method="ngram", k=4, prompt_len=8000)
        times = step_times(c, CONSTANTS, np.array([16.0]), np.array([1.0]))
        return float(times.verify[0] - times.baseline[0])

    assert growth("V0, 2024-10") > 2.0 * growth("0.10.1")


def unsplit(running: float, context: float, **case: Any) -> float:
    """What verifying takes longer on a card whose attention kernel splits the KV for one query token only."""
    c = columns(gpu="A100 80GB", prompt_len=context, output_len=1, engine_version="0.20.0", **case)
    n, matched = np.array([running]), np.array([1.0])
    split = changed(c, older=0.0, consumer=0.0)
    # The older card's graphs in pieces do not depend on the context: what is left is the KV's.
    none = {**CONSTANTS, "piecewise_layer_ms": 0.0, "ragged_layer_ms": 0.0}
    return float((step_times(c, none, n, matched).verify - step_times(split, none, n, matched).verify)[0])


def test_verifying_reads_a_long_context_slowly_where_the_kernel_does_not_split_it() -> None:
    assert unsplit(1, 16_000) > 8 * unsplit(1, 1_000) > 0
    # As much KV of many requests keeps the card busy by itself.
    assert unsplit(1, 16_000) > 3 * unsplit(16, 1_000) > 0
    assert unsplit(1, 16_000, engine="sglang") == pytest.approx(0.0)
    assert unsplit(1, 16_000, method="ngram") > 0


def test_one_token_a_request_is_read_as_fast_on_every_card() -> None:
    c = columns(gpu="A100 80GB", prompt_len=16_000, engine_version="0.20.0", method="ngram")
    n = np.array([4.0])
    none, always = (step_times(c, CONSTANTS, n, np.array([share])).verify[0] for share in (0.0, 1.0))
    split = changed(c, older=0.0, consumer=0.0)
    plain = [step_times(each, CONSTANTS, n, np.array([0.0])).baseline[0] for each in (c, split)]
    assert plain[0] == plain[1]
    assert none < always


@pytest.mark.parametrize(("version", "load", "runs"), [("0.4.4", 32, 64), ("0.4.4", 48, 64), ("0.4.6", 32, 32),
                                                       ("0.4.6", 48, 56), ("0.5.9", 32, 32), ("0.5.9", 48, 48),
                                                       ("0.4.4", 400, 400)])
def test_a_captured_verify_step_computes_as_many_tokens_as_its_graph_has(version: str, load: int, runs: int) -> None:
    c = changed(columns(engine="sglang", engine_version=version), kv_bytes=0.0)
    own, full, bare = (
        step_times(changed(c, eager=eager), CONSTANTS, np.array([float(n)]), np.array([1.0]))
        for n, eager in ((load, 0.0), (runs, 0.0), (load, 1.0)))
    # Sampling and attention are of the requests that are there.
    assert own.verify[0] == pytest.approx(full.verify[0], rel=0.06)
    padding = own.verify[0] - own.baseline[0] - (bare.verify[0] - bare.baseline[0])
    assert padding == pytest.approx(0.0, abs=1e-9) if runs == load else padding > 0.03 * own.verify[0]


def test_plain_steps_and_eager_ones_are_not_padded() -> None:
    padded, eager = (step_times(changed(columns(engine="sglang", engine_version="0.4.4", concurrency=48), eager=e),
                                CONSTANTS, np.array([48.0]), np.array([1.0])) for e in (0.0, 1.0))
    later = step_times(columns(engine="sglang", engine_version="0.4.4", concurrency=64), CONSTANTS, np.array([64.0]),
                       np.array([1.0]))
    assert padded.baseline[0] < later.baseline[0]
    assert padded.verify[0] - padded.baseline[0] > eager.verify[0] - eager.baseline[0]


@pytest.mark.parametrize(("method", "pays"), [("eagle3", True), ("dflash", False), ("ngram", False)])
def test_early_sglang_ran_one_pass_of_a_head_without_a_graph(method: str, pays: bool) -> None:
    early, later = (step_times(columns(engine="sglang", engine_version=version, method=method), CONSTANTS,
                               np.array([1.0]), np.array([0.5])) for version in ("0.4.6", "0.4.7"))
    expected = CONSTANTS["eager_layer_ms"] if pays else 0.0
    assert early.draft[0] - later.draft[0] == pytest.approx(expected)
