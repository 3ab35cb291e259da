"""The trial's progress line: how long it still takes, as far as that is known."""

from __future__ import annotations

import pytest

from advisor.cli.trial_progress import StderrProgress


def test_where_the_time_left_has_run_out_the_line_says_so_instead_of_zero_seconds(
        capsys: pytest.CaptureFixture[str]) -> None:
    progress = StderrProgress()
    for stage, left_s in (("k 3 load 8", 90.0), ("k 1 load 8", 3.0), ("k 1 load 4", 0.4), ("k 1 load 1", 0.0)):
        progress.update(stage, 60.0, left_s)
    assert capsys.readouterr().err.splitlines() == [
        "trial 1 min 00 s, about 1 min 30 s left: k 3 load 8",
        "trial 1 min 00 s, about 3 s left: k 1 load 8",
        "trial 1 min 00 s, nearly done: k 1 load 4",
        "trial 1 min 00 s, nearly done: k 1 load 1",
    ]
