"""Figures against numpy's own, and the table engine against Python's reading of the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.requests import Options, probe_requests
from probes.requests.clock import moment, unit_by_size
from probes.requests.figures import quantile
from tests.probes.requests.synthetic_logs import jsonl, write

COUNTS = st.lists(st.integers(1, 5000), min_size=1, max_size=60)


@given(COUNTS, st.floats(0, 1))
def test_quantiles_of_a_histogram_are_numpys(values: list[int], share: float) -> None:
    unique, counts = np.unique(values, return_counts=True)
    assert quantile(unique, counts, share) == pytest.approx(np.quantile(values, share), rel=1e-9, abs=1e-6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 9000), st.integers(0, 900), st.floats(0, 50)),
                     min_size=2, max_size=40))
def test_concurrency_is_the_sum_of_durations_over_the_span(tmp_path: Path, rows: list[tuple[float, int, int, float]]
                                                           ) -> None:
    path = jsonl(tmp_path / "c.jsonl", [{"arrival_time": a, "prompt_tokens": p, "output_tokens": o, "latency_s": d}
                                        for a, p, o, d in rows])
    found = probe_requests([path])
    start, end = min(a for a, *_ in rows), max(a + d for a, *_, d in rows)
    if end - start > 1e-3:
        assert found.concurrency["mean"] == pytest.approx(sum(d for *_, d in rows) / (end - start), rel=1e-3, abs=1e-4)
        assert found.concurrency["p95"] <= found.concurrency["max"] <= len(rows)
    assert found.requests == len(rows)


VALUE = st.one_of(st.integers(-5, 10**9), st.floats(allow_nan=False), st.none(), st.text(max_size=4), st.just("12"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.fixed_dictionaries({}, optional={
    "timestamp": VALUE, "prompt_tokens": VALUE, "completion_tokens": VALUE}), max_size=12))
def test_the_table_engine_and_python_agree_on_every_row(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    good = {"timestamp": 5.0, "prompt_tokens": 7, "completion_tokens": 3}
    rows = [good, *rows]
    lines = jsonl(tmp_path / "l.jsonl", rows)
    array = write(tmp_path / "a.json", json.dumps(rows, indent=1))
    by_table, by_python = (probe_requests([path], Options(lenient=True)) for path in (lines, array))
    assert by_table.requests == by_python.requests
    assert by_table.skipped == by_python.skipped
    assert by_table.prompt_tokens == by_python.prompt_tokens
    assert by_table.output_tokens == by_python.output_tokens


def test_the_busiest_hour_is_found_in_a_long_log(tmp_path: Path) -> None:
    quiet = [{"arrival_time": 1_700_000_000 + 600 * i, "prompt_tokens": 1, "output_tokens": 1} for i in range(200)]
    busy = [{"arrival_time": 1_700_000_000 + 36_000 + i, "prompt_tokens": 1, "output_tokens": 1} for i in range(3600)]
    found = probe_requests([jsonl(tmp_path / "h.jsonl", [*quiet, *busy])])
    assert found.arrivals is not None
    assert found.arrivals.busy_window_s == 3600
    assert found.arrivals.busy_start_s == pytest.approx(36_000, abs=120)
    assert found.arrivals.busy_rate_rps == pytest.approx(1.0, rel=0.02)
    assert sum(found.arrivals.counts) == 3800


def test_a_stated_tpot_turns_arrivals_into_running_requests(tmp_path: Path) -> None:
    rows = [{"arrival_time": float(i), "prompt_tokens": 1, "output_tokens": 101} for i in range(100)]
    path = jsonl(tmp_path / "t.jsonl", rows)
    assert probe_requests([path]).concurrency["mean"] is None
    found = probe_requests([path], Options(tpot_ms=20, ttft_ms=1000))
    assert found.concurrency["max"] == 3
    assert found.concurrency["mean"] == pytest.approx(300 / 102)
    assert "Little" in found.concurrency["basis"]


def test_joint_lengths_hold_every_request_once(tmp_path: Path) -> None:
    rows = [{"prompt_tokens": p, "output_tokens": o} for p in (0, 3, 4, 900) for o in (1, 64)]
    found = probe_requests([jsonl(tmp_path / "j.jsonl", rows)])
    assert sum(cell.share for cell in found.joint_lengths) == pytest.approx(1)
    assert all(any(c.prompt_from <= p < c.prompt_to and c.output_from <= o < c.output_to for c in found.joint_lengths)
               for p in (0, 3, 4, 900) for o in (1, 64))


@pytest.mark.parametrize(("text", "seconds"), [
    ("2023-11-16 18:17:03.9799600", 1700158623.97996), ("2024-05-10T00:00:00Z", 1715299200.0),
    ("2024-05-10 02:00:00+02:00", 1715299200.0), ("2024-05-10 00:00:00+00", 1715299200.0),
    ("10/May/2024:00:00:00 +0000", 1715299200.0), ("1715299200", 1715299200.0), (1715299200000, 1715299200.0),
    (1715299200000000000, 1715299200.0), ("soon", None), (None, None), (float("nan"), None), (True, None),
])
def test_times_are_read_as_logs_write_them(text: object, seconds: float | None) -> None:
    assert moment(text) == (None if seconds is None else pytest.approx(seconds))


def test_the_unit_of_numbers_follows_from_their_size() -> None:
    assert [unit_by_size([1.7 * 10**n]) for n in (2, 9, 12, 15, 18)] == ["s", "s", "ms", "us", "ns"]
