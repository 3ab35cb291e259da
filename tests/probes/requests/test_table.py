"""The table of requests: rows that are held as arrays say the same as rows that are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.requests import probe_requests, table
from profiles.errors import InputError
from profiles.traffic import RequestsEvidence
from tests.probes.requests.synthetic_logs import write

numbers = st.one_of(st.integers(-5, 9000), st.floats(0, 9000), st.none(), st.sampled_from(["12", "x", 10**30, True]))
lines = st.one_of(
    st.fixed_dictionaries({"timestamp": st.integers(0, 10**9), "input_length": st.integers(0, 9000),
                           "output_length": st.integers(0, 900)}).map(json.dumps),
    st.fixed_dictionaries({"timestamp": numbers, "input_length": numbers, "output_length": numbers}).map(json.dumps),
    st.just("torn {"),
)


def _probed(path: str, few: bool) -> RequestsEvidence | str:
    with pytest.MonkeyPatch.context() as patch:
        if not few:
            patch.setattr(table, "_few_lines", lambda source: False)
        try:
            return probe_requests([path])
        except InputError as error:
            return str(error)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(lines, min_size=1, max_size=40))
def test_held_and_written_rows_give_the_same_evidence(tmp_path_factory: pytest.TempPathFactory,
                                                      rows: list[str]) -> None:
    first = '{"timestamp": 5, "input_length": 3, "output_length": 2}'
    path = write(tmp_path_factory.mktemp("logs") / "m.jsonl", "\n".join([first, *rows]) + "\n")
    assert _probed(path, True) == _probed(path, False)


@pytest.mark.parametrize("chunk", [7, 1000])
def test_more_rows_than_are_looked_at_together_give_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                     chunk: int) -> None:
    rows: list[dict[str, Any]] = [{"timestamp": 1000 * (i ^ 1), "input_length": 10 + i, "output_length": 1 + i % 9}
                                  for i in range(100)]
    path = write(tmp_path / "m.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    whole = probe_requests([path])
    monkeypatch.setattr(table, "CHUNK", chunk)
    parts = probe_requests([path])
    assert parts == whole
    assert whole.arrivals is not None
    assert sum(whole.arrivals.counts) == 100
    assert any("50 requests stand behind a later one" in note for note in whole.notes)
