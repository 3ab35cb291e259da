"""True and false are no numbers, whoever writes them in the place of one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from probes.requests import misread, probe_requests
from profiles.errors import InputError
from tests.probes.requests.synthetic_logs import document, jsonl, write

ROWS: list[dict[str, Any]] = [{"timestamp": 1.7e9 + i, "prompt_tokens": 10, "completion_tokens": 5} for i in range(9)]
REASON = "true or false where a number belongs"


@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens", "timestamp"])
@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_token_count_or_time_is_a_bad_line_with_its_number(tmp_path: Path, field: str, value: bool) -> None:
    rows = [*ROWS, {**ROWS[0], field: value}]
    for path in (jsonl(tmp_path / "a.jsonl", rows), document(tmp_path / "a.json", rows),
                 write(tmp_path / "a.jsonl.gz", gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))):
        found = probe_requests([path])
        assert (found.requests, found.skipped) == (9, {REASON: 1})
        assert found.skipped_at[REASON][0].endswith(":10")
        assert found.prompt_tokens is not None
        assert found.prompt_tokens.mean == 10


def test_nested_counts_are_looked_at_too(tmp_path: Path) -> None:
    rows = [{"request": {"messages": [{"role": "user", "content": "hi"}]},
             "response": {"usage": {"prompt_tokens": n, "completion_tokens": 4}}} for n in [7] * 5 + [True]]
    found = probe_requests([jsonl(tmp_path / "a.jsonl", rows)])
    assert (found.requests, found.skipped) == (5, {REASON: 1})


def test_a_log_of_booleans_alone_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=REASON):
        probe_requests([jsonl(tmp_path / "a.jsonl", [{**row, "prompt_tokens": True} for row in ROWS])])


def test_flags_that_are_no_numbers_change_nothing(tmp_path: Path) -> None:
    rows = [{**row, "stream": True, "text": '{"prompt_tokens": true}'} for row in ROWS]
    found = probe_requests([jsonl(tmp_path / "a.jsonl", rows)])
    assert (found.requests, found.skipped) == (9, {})


def test_tables_refuse_them_too(tmp_path: Path) -> None:
    import duckdb

    head = "timestamp,prompt_tokens,completion_tokens\n"
    found = probe_requests([write(tmp_path / "a.csv", head + "1700000000,10,5\n" * 3 + "1700000001,true,5\n")])
    assert (found.requests, found.skipped) == (3, {"no prompt tokens": 1})
    path = tmp_path / "a.parquet"
    duckdb.sql("SELECT 1.7e9 AS timestamp, true AS prompt_tokens, 5 AS completion_tokens").write_parquet(str(path))
    with pytest.raises(InputError, match="no prompt tokens"):
        probe_requests([str(path)])


def test_a_large_log_is_looked_at_in_parts_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misread, "LOOKED_THROUGH_BYTES", 1000)
    monkeypatch.setattr(misread, "SAMPLE_BYTES", 4000)
    rows = [{**ROWS[0], "completion_tokens": True if i % 3 == 0 else 5} for i in range(300)]
    found = probe_requests([jsonl(tmp_path / "a.jsonl", rows)])
    assert (found.requests, found.skipped) == (200, {REASON: 100})
