"""The published measurements are facts that can be counted, cited and trusted in their units."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from profiles.catalog import measurements as module
from profiles.catalog.measurements import Measurement, measurements
from profiles.errors import InputError


def test_every_row_is_there_once_with_its_split() -> None:
    rows = measurements()
    assert len({row.id for row in rows}) == len(rows)
    assert Counter(row.split for row in rows) == {"open": 442, "rest": 1049}
    assert len({row.source_group for row in rows if row.split == "open"}) == 18


def test_rows_to_fit_on_have_speedup_load_and_an_address() -> None:
    for row in measurements():
        assert row.locator, row.id
        if row.split == "open":
            assert row.url, row.id
            assert (row.speedup or 0) > 0, row.id
            assert row.load_kind in ("batch_size", "concurrency", "qps"), row.id
            assert (row.k or 0) >= 1, row.id
            assert row.tree is False, row.id


def test_losses_are_kept() -> None:
    assert sum(1 for row in measurements() if row.split == "open" and row.speedup is not None and row.speedup < 1) == 38


@pytest.mark.parametrize("row", [r for r in measurements() if r.per_position_acceptance], ids=lambda r: r.id)
def test_per_position_acceptance_never_rises_and_stays_a_share(row: Measurement) -> None:
    positions = row.per_position_acceptance or ()
    assert all(0 <= p <= 1 for p in positions)
    assert all(later <= earlier for earlier, later in pairwise(positions))


def test_chain_acceptance_length_never_exceeds_k_plus_one() -> None:
    over = [
        row.id
        for row in measurements()
        if row.tree is False and row.k and row.acceptance_length and row.acceptance_length > row.k + 1.005
    ]
    assert over == []


def test_rows_carry_no_prose() -> None:
    texts = {v for r in measurements() for v in (r.locator, r.task, r.unit, r.acceptance_rate_def, r.dtype) if v}
    assert max(map(len, texts)) <= 110
    assert {flag for r in measurements() for flag in r.flags if not re.fullmatch("[a-z0-9_]+", flag)} == set()


def test_a_damaged_file_says_which_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"publication": "x", "shared": {}, "fields": ["id"], "rows": [[]]}))
    monkeypatch.setattr(module, "DATA", tmp_path)
    with pytest.raises(InputError, match=r"x\.json cannot be read .* reinstall"):
        measurements.__wrapped__()
