"""Causes of error: their slopes, and how far constants that nothing measured may be off."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.cases.case import parse_case
from advisor.cases.model import shipped_model
from advisor.cases.pricing import matched_share, price
from advisor.cases.residual import judge
from advisor.cases.spread import CAUSES, cause_sds, log_speedup, own_setting, slopes
from advisor.cases.table import Table, table_of

CASES: list[dict[str, Any]] = [
    {"gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": method, "k": 3, load: value,
     "engine": engine, "prompt_len": 300, "output_len": 300, "tensor_parallel": 1, "engine_version": version}
    for method, load, value, engine, version in (
        ("eagle3", "concurrency", 1, "vllm", "0.20.0"), ("eagle3", "concurrency", 64, "vllm", "0.20.0"),
        ("draft_model", "batch_size", 16, "vllm", "0.10.1"), ("ngram", "concurrency", 32, "vllm", "0.12.0"),
        ("eagle", "batch_size", 24, "sglang", "0.4.4"), ("eagle3", "qps", 4, "vllm", "0.10.1"),
        ("suffix", "concurrency", 8, "vllm", "0.20.0"))
]


def tabled(cases: list[dict[str, Any]] = CASES) -> Table:
    table, refused = table_of([parse_case(case) for case in cases])
    assert not refused
    return table


def unmoved(rows: int) -> dict[str, Any]:
    return {cause: np.zeros(rows) for cause in CAUSES}


def test_a_slope_is_what_a_small_shift_of_its_cause_changes() -> None:
    model, table = shipped_model(), tabled()
    setting = own_setting(table, price(table, model))
    found = slopes(setting, model)
    assert found.here == pytest.approx(log_speedup(setting, model, unmoved(len(table))))
    for number, cause in enumerate(CAUSES):
        ends = [log_speedup(setting, model, {**unmoved(len(table)), cause: np.full(len(table), way * 0.01)})
                for way in (-1, 1)]
        small = (ends[1] - ends[0]) / 0.02
        assert (np.sign(found.by_cause[number]) * small >= -1e-9).all(), cause
        assert found.by_cause[number] == pytest.approx(small, abs=0.05, rel=0.5), cause


def test_slower_drafting_rounds_and_requests_never_speed_anything_up() -> None:
    model, table = shipped_model(), tabled()
    found = slopes(own_setting(table, price(table, model)), model).by_cause
    by_cause = dict(zip(CAUSES, found, strict=True))
    for cause in ("drafting", "round", "requests", "graphs"):
        assert (by_cause[cause] <= 1e-9).all()
    assert (by_cause["acceptance"] > 0).all()
    # What a step costs by request matters more the more requests run.
    assert by_cause["requests"][1] < by_cause["requests"][0]


def test_a_constant_that_nothing_measured_moves_further_than_its_cause() -> None:
    table = tabled([CASES[4]])
    found = []
    for log_sd in (0.0, 1.5):
        model = replace(shipped_model(), constant_log_sd={"round_request_old_sglang_ms": log_sd})
        by_cause = slopes(own_setting(table, price(table, model)), model).by_cause
        found.append(by_cause[list(CAUSES).index("requests")][0])
    assert found[1] < 1.5 * found[0] < 0


def test_a_draft_model_of_unknown_size_makes_drafting_less_sure_and_nothing_else() -> None:
    stated = {**CASES[2], "draft": "Qwen/Qwen3-0.6B"}
    known, unknown = (cause_sds(table, price(table, shipped_model()), shipped_model().residual)
                      for table in (tabled([stated]), tabled([CASES[2]])))
    drafting = list(CAUSES).index("drafting")
    assert unknown[drafting] > known[drafting]
    others = [i for i in range(len(CAUSES)) if list(CAUSES)[i] not in ("drafting", "acceptance")]
    assert unknown[others] == pytest.approx(known[others])


def test_rows_at_a_rate_and_at_a_load_are_priced_together_as_apart() -> None:
    model, table = shipped_model(), tabled()
    together = price(table, model).log_speedup
    apart = [price(tabled([case]), model).log_speedup[0] for case in CASES]
    assert together == pytest.approx(apart)


def test_costs_that_only_add_time_let_a_speed_up_fall_further_than_rise() -> None:
    model, table = shipped_model(), tabled()
    found = slopes(own_setting(table, price(table, model)), model)
    for cause in ("drafting", "round", "requests"):
        number = list(CAUSES).index(cause)
        assert (found.fall[number] >= found.rise[number] - 1e-9).all()
    assert (found.fall >= 0).all()
    assert (found.rise >= 0).all()


def test_how_often_a_lookup_matches_matters_to_lookups_and_more_under_load() -> None:
    model = shipped_model()
    rows = [{**CASES[3], "concurrency": n, "engine_version": version}
            for version in ("0.10.1", "0.20.0") for n in (1, 128)]
    table = tabled([*rows, CASES[0]])
    found = slopes(own_setting(table, price(table, model)), model).by_cause[list(CAUSES).index("matching")]
    assert found[1] < found[0] <= 0
    # Where whole graphs are captured, one request that matches more often runs more of its steps under them.
    assert found[3] < 0 < found[2]
    assert found[4] == 0


def test_a_longer_draft_of_a_lookup_is_found_no_more_often() -> None:
    model = shipped_model()
    table = tabled([{**CASES[3], "k": k} for k in (3, 5, 12)])
    # What one text gives: the same matches, accepted further where more is drafted.
    depth = np.array([sum(0.55**i for i in range(1, k + 1)) for k in (3, 5, 12)])
    shares = matched_share(table.of, model.constants, 1.0 + 0.4 * depth)
    assert shares == pytest.approx(np.full(3, shares[0]))


def test_a_slow_local_point_of_a_lookup_is_put_down_to_its_text_before_its_costs() -> None:
    model = shipped_model()
    case = {**CASES[3], "k": 3, "engine_version": "0.10.1"}
    point = {"load_kind": "concurrency", "load_value": 1, "k": 3, "speedup": 1.05}
    table = tabled([{**case, "concurrency": 128}, {**case, "concurrency": 128, "measured": [point]}])
    free = judge(table, price(table, model), model).log_speedup
    steps = [price(tabled([{**case, "concurrency": n}]), model).log_speedup[0] for n in (1, 128)]
    # Of a text with fewer copies fewer tokens are verified in vain: the loss of speed at load 1 is not carried whole.
    assert steps[0] > math.log(1.1)
    assert free[0] - free[1] < 0.8 * (steps[0] - math.log(1.05))
