"""Rates come back from cells that were made with them; the timing itself runs at a toy shape where torch is there."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_step_time import CONTEXTS, SEQUENCES, TOKENS, Cell, Shape, fit, grid_of, main
from profiles.catalog.gpus import MeasuredRates

HAS_TORCH = importlib.util.find_spec("torch") is not None


def cells(launch: float = 0.8, weights: float = 3000.0, tflops: float = 700.0, kv: float = 2800.0) -> dict[str, Any]:
    """A document as the timing writes it, every cell made of known rates (GB/s, TFLOP/s, ms)."""
    made = []
    for layers in (32, 16):
        shape = replace(Shape(), layers=layers)
        for sequences, tokens, context in grid_of(SEQUENCES, TOKENS, CONTEXTS):
            new = sequences * tokens
            ms = launch + shape.params_read * 2 / weights / 1e6 + 2.0 * shape.params_read * new / tflops / 1e9
            ms += sequences * context * shape.kv_bytes_per_token / kv / 1e6
            made.append(asdict(Cell(layers, sequences, tokens, context, ms, ms, ms, 20, True)))
    device = {"name": "Synthetic GPU", "driver": "1.2", "torch": "2"}
    return {"format": 1, "device": device, "shape": asdict(Shape()), "cells": made, "skipped": []}


def test_the_fit_gives_back_the_rates_that_made_the_cells() -> None:
    found = fit(cells())
    assert found["weights_gbs"] == pytest.approx(3000, rel=1e-3)
    assert found["kv_gbs"] == pytest.approx(2800, rel=1e-3)
    assert found["bf16_tflops"] == pytest.approx(700, rel=1e-3)
    assert found["step_launch_ms"] == pytest.approx(0.8, rel=1e-3)
    assert found["median_error"] < 1e-6
    assert MeasuredRates.model_validate(found).device == "Synthetic GPU"


def test_a_card_that_follows_no_such_sum_says_so_in_its_errors() -> None:
    document = cells()
    for number, cell in enumerate(document["cells"]):
        cell["ms"] *= 1.0 + 0.4 * (number % 2)
    assert fit(document)["median_error"] > 0.1


def test_the_shape_timed_is_llama_8bs() -> None:
    shape = Shape()
    assert shape.params_read + shape.vocab * shape.hidden == pytest.approx(8.03e9, rel=0.01)
    assert shape.kv_bytes_per_token == 131072


def test_cells_of_one_depth_are_refused_with_what_was_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = cells()
    document["cells"] = [cell for cell in document["cells"] if cell["layers"] == 32]
    path = tmp_path / "cells.json"
    path.write_text(json.dumps(document))
    assert main(["--fit", str(path)]) == 2
    assert "of 1 depths: expected 8 or more, of two depths" in capsys.readouterr().err
    assert main(["--fit", str(tmp_path / "none.json")]) == 2


def test_expensive_cells_come_last_so_that_a_budget_cuts_them() -> None:
    work = [sequences * context for sequences, _, context in grid_of(SEQUENCES, TOKENS, CONTEXTS)]
    assert work == sorted(work)
    assert len(work) == len(SEQUENCES) * len(TOKENS) * len(CONTEXTS)


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed here: only the timing needs it")
def test_the_toy_shape_is_timed_cell_by_cell_on_the_cpu(tmp_path: Path) -> None:
    out = tmp_path / "toy.json"
    assert main(["--tiny", "--cpu", "--runs", "2", "-o", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["toy"] is True
    assert document["device"]["name"] == "cpu"
    assert {cell["layers"] for cell in document["cells"]} == {1, 2}
    assert all(cell["ms"] > 0 and not cell["graph"] for cell in document["cells"])
