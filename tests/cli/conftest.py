"""What tests of the command line share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.advisor.report import synthetic_record


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """The command line takes the signals over, and is called in this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def record(tmp_path: Path) -> str:
    """The path of a saved record that turned speculation on."""
    path = tmp_path / "record.json"
    path.write_text(synthetic_record.enabled().model_dump_json())
    return str(path)
