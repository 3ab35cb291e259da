"""Logs of several models: said, or one of them alone."""

from __future__ import annotations

from probes.requests.database import quoted
from probes.requests.plan import FAILED
from probes.requests.reading import Reading
from probes.requests.shapes import shown
from probes.requests.table import Table
from profiles.errors import InputError
from profiles.traffic import pooled

OTHER = 101
"""In the column `bad`: a request of another model than the one asked for."""
_MOST = 1000
_NAMED = 10


def models(reading: Reading) -> dict[str, int]:
    """Requests of each model, the most used first; 0 where a document names several and does not say whose is whose."""
    found = _of_rows(reading.table)
    for total in reading.totals:
        for name in map(shown, total.models):
            found[name] = found.get(name, 0) + (total.requests if len(total.models) == 1 else 0)
    return found


def _of_rows(table: Table) -> dict[str, int]:
    if not table.has("model"):
        return {}
    rows = table.database.execute("SELECT model, count(*) FROM r WHERE bad = 0 AND model IS NOT NULL GROUP BY 1 "
                                  f"ORDER BY 2 DESC, 1 LIMIT {_MOST}").fetchall()
    return {str(name)[:200]: int(n) for name, n in rows}


def only(reading: Reading, model: str) -> None:
    """Leave the requests of one model. InputError names those there are where it is none of them."""
    table, found = reading.table, models(reading)
    if model not in found:
        there = ", ".join(list(found)[:_NAMED]) or "none: these logs name no model"
        raise InputError(f"--model {model!r} is in none of these logs: expected one of {there}")
    mixed = [one for one in reading.totals if model in map(shown, one.models) and len(one.models) > 1]
    if mixed:
        raise InputError(f"--model {model!r}: a document states totals of {pooled(dict.fromkeys(mixed[0].models, 0))}: "
                         "give one that is of this model alone")
    reading.totals = [one for one in reading.totals if not one.models or model in map(shown, one.models)]
    if not table.has("model"):
        return
    before = table.good()
    table.change(f"UPDATE r SET bad = {OTHER} WHERE bad = 0 AND model IS DISTINCT FROM {quoted(model)}")
    reading.failed = int(table.database.one(
        f"SELECT count(*) FROM r WHERE bad = {FAILED} AND model = {quoted(model)}")[0])
    if before > table.good():
        reading.note(f"{before - table.good():,} requests of other models are left out")


def say_pooled(reading: Reading, found: dict[str, int]) -> None:
    """Notes where several models or documents are taken as one."""
    if len(found) > 1:
        apart = all(len(one.models) < 2 for one in reading.totals)
        reading.note(f"{pooled(found)}: " + ("choose one with --model" if apart else
                                             "cut the log where one ends to tell them apart"))
    counted = [one for one in reading.totals if one.requests]
    if len(counted) > 1:
        reading.note(f"{len(counted)} documents that state totals are taken together: counts are added up, means "
                     "weighted by requests")
