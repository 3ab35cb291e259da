"""Two saved pages: of one server and in order, or refused with what to give instead."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from probes.server import probe_server
from profiles.errors import InputError
from profiles.evidence import ServerEvidence

sys.path.insert(0, str(Path(__file__).parent))
import synthetic_pages as syn


def saved(path: Path, requests: int, start: float | None = syn.BORN, **changes: Any) -> str:
    lengths = [50.0] * requests
    path.write_text(syn.page(syn.v1_engine(prompts=lengths, outputs=lengths, **changes), start=start))
    return str(path)


def probe(first: str, second: str) -> ServerEvidence:
    return probe_server(first, second, window_s=60)


def test_dumps_of_servers_of_different_models_are_refused_by_name(tmp_path: Path) -> None:
    one, other = saved(tmp_path / "a", 1, model="org/one"), saved(tmp_path / "b", 5, model="org/other")
    with pytest.raises(InputError, match=r"org/one.*org/other.*one server") as caught:
        probe(one, other)
    assert caught.value.exit_code == 2


def test_models_that_came_in_between_are_the_same_server(tmp_path: Path) -> None:
    first = saved(tmp_path / "a", 1)
    lengths = [50.0] * 2
    (tmp_path / "b").write_text(syn.page(syn.v1_engine(prompts=lengths, outputs=lengths),
                                         syn.v1_engine(prompts=lengths, outputs=lengths, model="adapter")))
    assert probe(first, str(tmp_path / "b")).requests_in_window == 3


def test_a_server_that_started_earlier_is_another_one_or_the_order_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="earlier one first"):
        probe(saved(tmp_path / "a", 1, start=syn.BORN + 500), saved(tmp_path / "b", 5))


def test_the_later_dump_first_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="earlier dump first"):
        probe(saved(tmp_path / "a", 5), saved(tmp_path / "b", 1))


def test_a_later_start_is_a_restart_or_another_server_and_only_the_second_counts(tmp_path: Path) -> None:
    found = probe(saved(tmp_path / "a", 1), saved(tmp_path / "b", 5, start=syn.BORN + 500))
    assert any("or they are of two servers" in note for note in found.notes)
    assert found.requests_in_window is None
    assert found.requests_total == 5


def test_births_of_series_stand_for_a_start_that_is_not_exported(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "a", 1, start=None), saved(tmp_path / "b", 5, start=None)
    assert probe(first, second).requests_in_window == 4
    page = Path(second).read_text()
    later = str(syn.BORN + 500)
    Path(second).write_text("\n".join(line.replace(str(syn.BORN), later) if "_created" in line else line
                                      for line in page.split("\n")))
    assert probe(first, second).requests_in_window is None
