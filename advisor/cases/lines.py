"""From case lines to prediction lines: one out for one in, in order, whatever the line holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.cases.case import Case, decode_line, parse_case
from advisor.cases.model import Model, shipped_model
from advisor.cases.pricing import limits, price
from advisor.cases.residual import Z80, enable_by_regret, judge
from advisor.cases.table import Table, table_of
from profiles.errors import InputError

_BLOCK = 20_000
"""Rows priced at once: the columns of more would only take memory."""
_WIDEST = 60.0


def predict_lines(lines: Iterable[str], model: Model | None = None) -> Iterable[dict[str, Any]]:
    """Predictions of the lines that are not blank, in order."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        if len(block) >= _BLOCK:
            yield from predict_rows([_decoded(text) for text in block], model)
            block = []
    if block:
        yield from predict_rows([_decoded(text) for text in block], model)


def _decoded(line: str) -> object:
    try:
        return decode_line(line)
    except InputError as error:
        return error


def predict_rows(rows: Sequence[object], model: Model | None = None) -> list[dict[str, Any]]:
    """Predictions of decoded rows, in order. A row that cannot be priced gets its `error`; none is dropped."""
    model = model or shipped_model()
    results: list[dict[str, Any]] = [{} for _ in rows]
    cases: list[Case] = []
    positions: list[int] = []
    for number, row in enumerate(rows):
        try:
            if isinstance(row, InputError):
                raise row
            cases.append(parse_case(row))
            positions.append(number)
        except InputError as error:
            results[number] = refused(echoed(row.get("id")) if isinstance(row, dict) else None, str(error))
    table, without = table_of(cases)
    for at, message in without.items():
        results[positions[at]] = refused(echoed(cases[at].id), message)
    kept = [position for at, position in enumerate(positions) if at not in without]
    if len(table):
        for position, prediction in zip(kept, predict_table(table, model), strict=True):
            results[position] = prediction
    return results


def echoed(row_id: object) -> str | int | float | None:
    """A case's `id` as its answer repeats it; None for what JSON has no name for, or no id can be."""
    if isinstance(row_id, float):
        return row_id if math.isfinite(row_id) else None
    return row_id if isinstance(row_id, (str, int)) else None


def refused(row_id: Any, message: str) -> dict[str, Any]:
    """The prediction of a line that cannot be priced."""
    return {"id": row_id, "speedup": None, "speedup_low": None, "speedup_high": None, "enable": None,
            "probability_of_gain": None, "acceptance_length": None, "limited_by": None, "error": message}


def predict_table(table: Table, model: Model) -> list[dict[str, Any]]:
    """Predictions of a table's rows. No step of k drafted tokens is more than k + 1 times as fast."""
    import numpy as np

    priced = price(table, model)
    judged = judge(table, priced, model)
    enable, gain = enable_by_regret(judged)
    reasons = limits(table, model, priced)
    k = table.of["k"]
    most = np.minimum(k + 1.0, _WIDEST)
    middle = np.minimum(np.exp(judged.log_speedup), most)
    low = np.minimum(np.exp(judged.log_speedup - Z80 * judged.log_sd), middle)
    high = np.maximum(middle, np.minimum(np.exp(judged.log_speedup + Z80 * judged.log_sd), most))
    found = []
    for i, case in enumerate(table.cases):
        if k[i] <= 0:
            found.append({"id": echoed(case.id), "speedup": 1.0, "speedup_low": 1.0, "speedup_high": 1.0,
                          "enable": False, "probability_of_gain": 0.0, "acceptance_length": 1.0,
                          "limited_by": "nothing", "error": None})
            continue
        numbers = (float(middle[i]), float(low[i]), float(high[i]), float(priced.acceptance[i]))
        if not all(math.isfinite(number) for number in numbers):
            found.append(refused(case.id, "the case's numbers are too large or too small to price: check its lengths "
                                          "and sizes"))
            continue
        found.append({
            "id": echoed(case.id), "speedup": round(numbers[0], 5), "speedup_low": round(numbers[1], 5),
            "speedup_high": round(numbers[2], 5), "enable": bool(enable[i]),
            "probability_of_gain": round(float(gain[i]), 4), "acceptance_length": round(numbers[3], 4),
            "limited_by": reasons[i], "error": None,
        })
    return found
