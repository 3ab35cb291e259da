"""Leave-one-publication-out: every row predicted by a model that never saw its publication, intervals included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.cases.case import parse_case
from advisor.cases.model import Model
from advisor.cases.table import Table, table_of
from advisor.fitting.residual_fit import Unseen, fit_residual
from advisor.fitting.rows import Rows, acceptance_rows, case_of, open_rows, speedup_rows, swept
from advisor.fitting.train import NO_RESIDUAL, train
from profiles.catalog.measurements import Measurement

INNER_FOLDS = 8
"""Of the publications that intervals are fitted on: a model that leaves a quarter of them out errs more than the one
that is judged, which leaves out one, and makes its intervals too wide."""


@dataclass(frozen=True)
class Folds:
    """Training rows, and the rows to predict, of one set of measurements."""

    acceptance: Rows
    speedups: Rows
    scored: tuple[Measurement, ...]

    @classmethod
    def of(cls, source: Sequence[Measurement] | None = None) -> Folds:
        return cls(acceptance_rows(source), speedup_rows(source), open_rows(source))

    def without(self, *publications: str) -> Folds:
        acceptance, speedups, scored = self.acceptance, self.speedups, self.scored
        for name in publications:
            acceptance, speedups = acceptance.without(name), speedups.without(name)
            scored = tuple(row for row in scored if row.source_group != name)
        return Folds(acceptance, speedups, scored)

    @property
    def publications(self) -> list[str]:
        return sorted({row.source_group for row in self.scored})


def _table(cases: Sequence[dict[str, Any]]) -> tuple[Table, list[int]]:
    table, refused = table_of([parse_case(case) for case in cases])
    return table, [i for i in range(len(cases)) if i not in refused]


def unseen_blocks(rows: Sequence[Measurement], publication: str, model: Model) -> list[Unseen]:
    """The publication's rows as the three kinds of case, with their answers."""
    import numpy as np

    own = [row for row in rows if row.source_group == publication and not row.sign_only]
    sweeps = swept(own)
    asked = {
        "given": [(row, case_of(row)) for row in own if row.acceptance_length],
        "not_given": [(row, case_of(row, acceptance=False)) for row in own],
        "calibrated": [(row, case_of(row, measured=points)) for row, points in sweeps],
    }
    blocks = []
    for kind, pairs in asked.items():
        table, kept = _table([case for _, case in pairs])
        answers = np.log([pairs[i][0].speedup or 1.0 for i in kept])
        if len(table):
            blocks.append(Unseen(publication, kind, table, answers, model))
    return blocks


def held_out_models(folds: Folds) -> dict[str, Model]:
    """A model for each publication, fitted on all others; its residual part is still the starting one."""
    return {name: train(*_training(folds.without(name))) for name in folds.publications}


def _training(folds: Folds) -> tuple[Rows, Rows]:
    return folds.acceptance, folds.speedups


def residual_for(folds: Folds, publication: str) -> dict[str, Any]:
    """The residual model from publications other than one, each predicted by a model that saw neither."""
    rest = folds.without(publication)
    names = rest.publications
    blocks: list[Unseen] = []
    for fold in range(INNER_FOLDS):
        left_out = names[fold::INNER_FOLDS]
        if not left_out:
            continue
        model = train(*_training(rest.without(*left_out)))
        for name in left_out:
            blocks += unseen_blocks(rest.scored, name, model)
    return fit_residual(blocks, NO_RESIDUAL)


def cross_validated(folds: Folds, only: Sequence[str] | None = None) -> dict[str, Model]:
    """A whole model by publication, none of whose numbers depends on a row of that publication."""
    found = {}
    for name in only or folds.publications:
        own = train(*_training(folds.without(name)))
        found[name] = replace(own, residual=residual_for(folds, name))
    return found
