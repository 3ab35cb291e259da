"""The one way from a table to answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.cases.answer import answer
from advisor.cases.case import parse_case
from advisor.cases.lines import predict_rows
from advisor.cases.table import table_of

CASE: dict[str, Any] = {"gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "eagle3"}
CASES = [{**CASE, "id": f"{k}-{n}", "k": k, "concurrency": n} for k in (0, 1, 3, 7) for n in (1, 16, 128)]


def test_answers_are_ordered_bounded_and_agree_with_the_lines() -> None:
    table, refused = table_of([parse_case(case) for case in CASES])
    found = answer(table)
    assert not refused
    k = table.of["k"]
    assert (found.low <= found.speedup).all()
    assert (found.speedup <= found.high).all()
    assert (found.high <= k + 1).all()
    assert ((found.probability_of_gain >= 0) & (found.probability_of_gain <= 1)).all()
    lines = predict_rows(CASES)
    assert [row["speedup"] for row in lines] == [round(float(value), 5) for value in found.speedup]
    assert [row["limited_by"] for row in lines] == list(found.limited_by)


def test_without_drafted_tokens_the_answer_is_exactly_no_change() -> None:
    table, _ = table_of([parse_case(case) for case in CASES])
    found = answer(table)
    null = table.of["k"] == 0
    for column in (found.speedup, found.low, found.high, found.acceptance_length):
        assert np.all(column[null] == 1.0)
    assert not found.enable[null].any()
    assert (found.log_sd[null] == 0).all()


def test_a_median_above_one_is_more_likely_a_gain_than_not() -> None:
    table, _ = table_of([parse_case(case) for case in CASES])
    found = answer(table)
    own = table.of["k"] > 0
    assert ((found.speedup > 1.0) == (found.probability_of_gain > 0.5))[own].all()
