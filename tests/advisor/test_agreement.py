"""Without a measurement `advise` answers what `predict` answers to the same question: one model, two ways of asking."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cases.lines import predict_rows
from advisor.prediction import Pricing, price
from advisor.situation import Situation
from advisor.workload_load import little
from profiles.catalog.gpus import find_gpu
from profiles.catalog.models import find_model
from profiles.catalog.releases import release
from profiles.deployment import NO_SPECULATION, Candidate, Deployment
from profiles.schema import Quantity, Source
from tests.advisor.situations import gpu_situation

LLAMA, QWEN, EXPERTS = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"
CANDIDATES: list[tuple[str, str, str | None, tuple[int, ...]]] = [
    (LLAMA, "draft_model", "meta-llama/Llama-3.2-1B-Instruct", (1, 3, 5)),
    (LLAMA, "eagle3", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", (1, 3, 7)),
    (QWEN, "ngram", None, (2, 4)),
    (QWEN, "suffix", None, (8,)),
    (EXPERTS, "draft_model", "Qwen/Qwen3-0.6B", (1, 4)),
    (EXPERTS, "ngram", None, (3,)),
    ("Qwen/Qwen3-8B-AWQ", "ngram", None, (3,)),
    ("Qwen/Qwen3-8B-FP8", "draft_model", "Qwen/Qwen3-0.6B", (3,)),
]
GPUS = ("H100", "A100 80GB", "RTX PRO 6000", "B200")
LOADS = (1, 8, 64)
WORKLOADS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("stated", {"tasks": "code", "sampling": {"temperature": 0.0}}, {"task_family": "code", "temperature": 0.0}),
    ("hot", {"tasks": "chat", "sampling": {"temperature": 1.0}}, {"task_family": "chat", "temperature": 1.0}),
    ("unstated", {}, {}),
]


def asked(
    gpu: str, target: str, method: str, draft: str | None, ks: tuple[int, ...], *, tp: int = 1, version: str = "0.32.0",
    engine: dict[str, Any] | None = None, **workload: Any,
) -> Pricing:
    """The pricing of one candidate at 400 prompt and 300 output tokens."""
    candidate = {"method": method, "k": list(ks), **({"draft": draft} if draft else {})}
    deployment = Deployment.model_validate({
        "target": target, "hardware": {"gpu": gpu}, "candidates": [candidate], "objective": {"worthwhile_gain": 0},
        "engine": {"tensor_parallel_size": tp, **(engine or {})},
        "workload": {"prompt_tokens": 400, "output_tokens": 300, "concurrency": 8, **workload},
    })  # fmt: skip
    shapes = {name: shape for name in (draft,) if name is not None and (shape := find_model(name)) is not None}
    known = find_model(target)
    assert known is not None
    return price(Situation(deployment, known, shapes, deployment.candidates, release(version), "v2", find_gpu(gpu), tp))


def predicted(
    gpu: str, target: str, method: str, draft: str | None, cells: Sequence[tuple[int, int]], *, tp: int = 1,
    version: str = "0.32.0", **case: Any,
) -> list[dict[str, Any]]:
    """What predict says of (k, load) cells of the same candidate."""
    return predict_rows([
        {"gpu": gpu, "n_gpus": tp, "tensor_parallel": tp, "target": target, "draft": draft, "method": method,
         "engine": "vllm", "engine_version": version, "k": k, "concurrency": load, "prompt_len": 400, "output_len": 300,
         **case} for k, load in cells
    ])  # fmt: skip


def assert_alike(pricing: Pricing, cells: Sequence[tuple[int, int]], lines: list[dict[str, Any]]) -> None:
    within = 0
    for (k, load), line in zip(cells, lines, strict=True):
        assert line["error"] is None, line
        if load > min(pricing.limit(pricing.candidates[0], k), pricing.limit(NO_SPECULATION)):
            continue  # A deployment's memory plan knows more than a line does; what does not fit at once waits.
        within += 1
        cell = pricing.at(pricing.candidates[0], k, load)
        found = (cell.speedup.value, cell.speedup.low, cell.speedup.high, cell.acceptance_length.value)
        wanted = (line["speedup"], line["speedup_low"], line["speedup_high"], line["acceptance_length"])
        assert found == pytest.approx(wanted, rel=0.01), (k, load)
        assert cell.probability_of_gain == pytest.approx(line["probability_of_gain"], abs=0.03), (k, load)
        assert cell.limited_by == line["limited_by"], (k, load)
    assert within >= len(cells) // 2


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("target", "method", "draft", "ks"), CANDIDATES)
@pytest.mark.parametrize(("workload", "case"), [(w, c) for _, w, c in WORKLOADS], ids=[n for n, _, _ in WORKLOADS])
def test_every_cell_is_what_predict_answers(
    gpu: str, target: str, method: str, draft: str | None, ks: tuple[int, ...], workload: dict[str, Any],
    case: dict[str, Any],
) -> None:
    cells = list(itertools.product(ks, LOADS))
    pricing = asked(gpu, target, method, draft, ks, **workload)
    assert_alike(pricing, cells, predicted(gpu, target, method, draft, cells, **case))


def with_known_length(pricing: Pricing, length: float) -> Pricing:
    """The same pricing with a measured acceptance length, known exactly."""
    label = pricing.candidates[0].label
    known = Quantity(value=length, low=length, high=length, source=Source.MEASURED)
    old = pricing.acceptance[label]
    pricing.acceptance[label] = dataclasses.replace(old, lengths=(known,) * len(old.lengths), source=Source.MEASURED)
    return pricing


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("target", "method", "draft", "ks"), CANDIDATES)
def test_with_a_measured_acceptance_every_cell_is_what_predict_answers_with_it_given(
    gpu: str, target: str, method: str, draft: str | None, ks: tuple[int, ...]
) -> None:
    cells = list(itertools.product(ks, LOADS))
    pricing = with_known_length(asked(gpu, target, method, draft, ks, tasks="code"), 1.9)
    lines = predicted(gpu, target, method, draft, cells, task_family="code", mean_acceptance_length=1.9)
    assert_alike(pricing, cells, lines)


def test_tensor_parallel_targets_and_older_releases_agree_too() -> None:
    target, draft = "meta-llama/Llama-3.3-70B-Instruct", "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"
    cells = [(2, 1), (2, 16), (5, 4)]
    for version in ("0.12.0", "0.24.0", "0.32.0"):
        pricing = asked("H100", target, "eagle3", draft, (2, 5), tp=4, version=version, tasks="math")
        lines = predicted("H100", target, "eagle3", draft, cells, tp=4, version=version, task_family="math")
        assert_alike(pricing, cells, lines)


def test_an_uncertain_measurement_widens_what_a_certain_one_gives() -> None:
    exact = with_known_length(asked("H100", LLAMA, "eagle3", CANDIDATES[1][2], (3,), tasks="code"), 2.5)
    vague = with_known_length(asked("H100", LLAMA, "eagle3", CANDIDATES[1][2], (3,), tasks="code"), 2.5)
    label = vague.candidates[0].label
    known = Quantity(value=2.5, low=2.2, high=2.84, source=Source.RECORDED)
    vague.acceptance[label] = dataclasses.replace(vague.acceptance[label], lengths=(known,) * 3)
    one, other = (pricing.at(pricing.candidates[0], 3, 8).speedup for pricing in (exact, vague))
    assert one.value == pytest.approx(other.value)
    assert one.low is not None
    assert other.low is not None
    assert other.low < one.low


def test_a_mix_of_tasks_lies_between_them() -> None:
    eagle = CANDIDATES[1]
    mixed, code, chat = (
        asked("H100", *eagle, tasks=tasks).length(asked("H100", *eagle).candidates[0], 3).value
        for tasks in (["code", "chat"], "code", "chat")
    )
    assert chat < mixed < code
    assert mixed == pytest.approx(2 / (1 / code + 1 / chat))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(CANDIDATES[:4]), st.sampled_from(GPUS), st.integers(1, 128))
def test_the_null_candidate_is_exactly_one_everywhere(
    asked_of: tuple[str, str, str | None, tuple[int, ...]], gpu: str, running: int
) -> None:
    pricing = asked(gpu, *asked_of)
    cell = pricing.at(NO_SPECULATION, 0, running)
    assert (cell.speedup.low, cell.speedup.value, cell.speedup.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("target", "method", "draft", "ks"), CANDIDATES[:2])
@pytest.mark.parametrize("gpu", GPUS)
def test_at_short_contexts_the_gain_falls_as_the_batch_grows(
    gpu: str, target: str, method: str, draft: str | None, ks: tuple[int, ...]
) -> None:
    pricing = asked(gpu, target, method, draft, ks, prompt_tokens=50, output_tokens=400, tasks="code")
    gains = [pricing.at(pricing.candidates[0], 3, load).speedup.value for load in (4, 16, 64, 128)]
    assert gains == sorted(gains, reverse=True)


def test_a_draft_model_that_nobody_measured_is_never_certain() -> None:
    pricing = price(gpu_situation(concurrency=4, prompt_tokens=400, output_tokens=384, tasks="json",
                                  sampling={"temperature": 0.0}))
    chances = [cell.probability_of_gain for cell in pricing.table if cell.k > 0 and cell.running <= 8]
    assert max(chances) < 0.99


@pytest.mark.parametrize("rate", [4.0, 16.0])
def test_at_a_rate_predict_prices_each_side_at_the_load_that_its_own_latency_keeps(rate: float) -> None:
    """`advise` decides at the requests that run without speculation, and so leaves out what a lighter load adds."""
    target, method, draft, _ = CANDIDATES[1]
    pricing = asked("H100", target, method, draft, (3,), tasks="code", concurrency=None, arrival_rate_rps=rate)
    candidate = pricing.candidates[0]
    sides = ((NO_SPECULATION, 0), (candidate, 3))

    def latency(arm: Candidate, k: int, running: float) -> float:
        return pricing.request(arm, k, running).total_ms

    loads = [little(rate, partial(latency, arm, k), pricing.limit(arm, k))[0] for arm, k in sides]
    assert loads[1] < loads[0]
    without, beside = (latency(arm, k, load) for (arm, k), load in zip(sides, loads, strict=True))
    case = {"gpu": "H100", "n_gpus": 1, "tensor_parallel": 1, "target": target, "draft": draft, "method": method,
            "engine": "vllm", "engine_version": "0.32.0", "k": 3, "prompt_len": 400, "output_len": 300,
            "task_family": "code"}
    at_rate, at_load = predict_rows([{**case, "qps": rate}, {**case, "concurrency": pricing.running}])
    assert at_rate["speedup"] == pytest.approx(without / beside, rel=0.04)
    decided = pricing.at(candidate, 3, pricing.running).speedup.value
    assert decided == pytest.approx(at_load["speedup"], rel=0.01)
    assert decided < at_rate["speedup"]
