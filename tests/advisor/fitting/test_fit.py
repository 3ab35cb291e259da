"""The fit: reproducible, and blind to the publication that it is judged on."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the fitting needs scikit-learn (pip install specadvise[fit])")

from advisor.cases.lines import predict_table
from advisor.cases.model import shipped_model
from advisor.fitting.crossval import Folds, cross_validated, unseen_blocks
from advisor.fitting.train import train
from profiles.catalog.measurements import measurements


def test_the_shipped_constants_are_what_the_catalogs_measurements_give() -> None:
    folds = Folds.of()
    fitted = train(folds.acceptance, folds.speedups)
    shipped = shipped_model()
    for name, value in fitted.constants.items():
        assert value == pytest.approx(shipped.constants[name], rel=1e-6), name
    assert fitted.acceptance["intercept"] == pytest.approx(shipped.acceptance["intercept"], rel=1e-6)


def test_a_publications_own_numbers_do_not_enter_its_cross_validated_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One inner fold: what is tested is who is read, not how well.
    monkeypatch.setattr("advisor.fitting.crossval.INNER_FOLDS", 1)
    name = "domino-card"
    honest = measurements()
    changed = tuple(
        replace(row, speedup=(row.speedup or 1.0) * 1.7,
                acceptance_length=row.acceptance_length and min((row.k or 1) + 1.0, row.acceptance_length * 1.2))
        if row.source_group == name else row
        for row in honest
    )
    found = []
    for source in (honest, changed):
        model = cross_validated(Folds.of(source), only=[name])[name]
        blocks = unseen_blocks(Folds.of(honest).scored, name, model)
        found.append([predict_table(block.table, model) for block in blocks])
    assert found[0] == found[1]


def test_every_fitted_file_says_which_command_made_it_and_from_what() -> None:
    for package, name in (("advisor.cost", "physics.json"), ("advisor.cases", "acceptance.json"),
                          ("advisor.cases", "residual.json")):
        document = json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
        assert document["command"] == "make fit"
        assert document["releases"]
        assert document["hardware"]
    constants = json.loads(files("advisor.cost").joinpath("physics.json").read_text(encoding="utf-8"))["constants"]
    assert all(entry["unit"] and entry["about"] and entry["source"] for entry in constants.values())


def test_the_correction_chosen_is_the_simplest_within_a_point_of_the_best() -> None:
    residual = shipped_model().residual
    compared = {k: v for k, v in residual["compared"].items() if isinstance(v, dict)}
    best = min(entry["median"] for entry in compared.values())
    simplest = next(name for name, entry in compared.items() if entry["median"] <= best + 1.0)
    assert residual["compared"]["chosen"] == simplest


def test_standard_deviations_are_positive_and_intervals_are_scaled() -> None:
    residual = shipped_model().residual
    assert all(np.isfinite(v) and v > 0 for v in residual["doubt_sd"].values())
    assert set(residual["conformal"]) == {"given", "not_given", "calibrated"}
