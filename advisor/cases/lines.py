"""From case lines to prediction lines: one out for one in, in order, whatever the line holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.cases.answer import answer
from advisor.cases.case import Case, decode_line, parse_case
from advisor.cases.model import Model, shipped_model
from advisor.cases.table import Table, table_of
from advisor.cases.unread import Unread
from advisor.cost.gain import most_running
from profiles.errors import InputError
from profiles.schema import Source

_BLOCK = 20_000
"""Rows priced at once: the columns of more would only take memory."""


def predict_lines(
    lines: Iterable[str], model: Model | None = None, unread: Unread | None = None
) -> Iterable[dict[str, Any]]:
    """Predictions of the lines that are not blank, in order.

    unread: gets the names of fields that no prediction reads (slips of the pen, mostly).
    """
    unread = unread or Unread()
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        if len(block) >= _BLOCK:
            yield from predict_rows([_decoded(text) for text in block], model, unread)
            block = []
    if block:
        yield from predict_rows([_decoded(text) for text in block], model, unread)


def _decoded(line: str) -> object:
    try:
        return decode_line(line)
    except InputError as error:
        return error


def predict_rows(
    rows: Sequence[object], model: Model | None = None, unread: Unread | None = None
) -> list[dict[str, Any]]:
    """Predictions of decoded rows, in order. A row that cannot be priced gets its `error`; none is dropped.

    unread: as in `predict_lines`.
    """
    model = model or shipped_model()
    unread = unread or Unread()
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
    for result, row in zip(results, rows, strict=True):
        ignored = unread.note(row) if isinstance(row, dict) else None
        if ignored is not None:
            result["note"] = f"{result['note']}; {ignored}" if result["note"] else ignored
    return results


def echoed(row_id: object) -> str | int | float | None:
    """A case's `id` as its answer repeats it; None for what JSON has no name for, or no id can be."""
    if isinstance(row_id, float):
        return row_id if math.isfinite(row_id) else None
    return row_id if isinstance(row_id, (str, int)) else None


def refused(row_id: Any, message: str) -> dict[str, Any]:
    """The prediction of a line that cannot be priced."""
    return {"id": row_id, "speedup": None, "speedup_low": None, "speedup_high": None, "enable": None,
            "probability_of_gain": None, "acceptance_length": None, "limited_by": None, "source": None,
            "acceptance_source": None, "note": None, "error": message}


def source_of(case: Case, k: float) -> Source:
    """Where a predicted speed-up comes from: measured where the line holds a local measurement of this very load and k,
    modelled where it holds one of another or states the acceptance, else assumed, as the acceptance is.

    k: the case's, or the one taken for it.
    """
    if k <= 0:
        return Source.MODELLED
    load = (case.load_kind or "concurrency", case.load_value or 1.0)
    if any((point.load_kind, point.load_value) == load and point.k in (0, k) for point in case.measured):
        return Source.MEASURED
    known = case.measured or case.acceptance_length is not None
    return Source.MODELLED if known else Source.ASSUMED


def kept_waiting(table: Table) -> dict[int, tuple[str]]:
    """What is said of the rows whose stated load is more than the KV memory holds at once, by row."""
    import numpy as np

    c = table.of
    plain, own = (np.maximum(1.0, np.floor(most_running(c, speculating=with_draft))) for with_draft in (False, True))
    found = {}
    for i in np.flatnonzero((c["qps"] <= 0) & (c["running"] > np.where(c["k"] > 0, own, plain))):
        beside = f", {own[i]:,.0f} beside the drafter" if c["k"][i] > 0 and own[i] < plain[i] else ""
        asked = table.cases[i].load_value or c["running"][i]
        found[int(i)] = (f"KV for about {plain[i]:,.0f} of the {asked:,.0f} requests fits at once{beside}: the rest "
                         "waits",)
    return found


def predict_table(table: Table, model: Model) -> list[dict[str, Any]]:
    """The answers of a table's rows as prediction lines."""
    found, waits = answer(table, model), kept_waiting(table)
    lines = []
    for i, case in enumerate(table.cases):
        numbers = (float(found.speedup[i]), float(found.low[i]), float(found.high[i]),
                   float(found.acceptance_length[i]))
        if not all(math.isfinite(number) for number in numbers):
            lines.append(refused(echoed(case.id), "the case's numbers are too large or too small to price: check its "
                                                  "lengths and sizes"))
            continue
        notes = (*(table.notes[i] if table.notes else ()), *waits.get(i, ()))
        lines.append({
            "id": echoed(case.id), "speedup": round(numbers[0], 5), "speedup_low": round(numbers[1], 5),
            "speedup_high": round(numbers[2], 5), "enable": bool(found.enable[i]),
            "probability_of_gain": round(float(found.probability_of_gain[i]), 4),
            "acceptance_length": round(numbers[3], 4), "limited_by": found.limited_by[i],
            "source": source_of(case, float(table.of["k"][i])).value,
            "acceptance_source": "assumed" if case.acceptance_length is None and table.of["k"][i] > 0 else "stated",
            "note": "; ".join(notes) or None, "error": None,
        })
    return lines
