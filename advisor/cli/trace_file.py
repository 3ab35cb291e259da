"""Recorded arrivals for `plan --trace`, under the names and in the formats that `probe requests` knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from profiles.errors import InputError

if TYPE_CHECKING:
    from advisor.capacity.arrivals import Arrivals

MAX_REQUESTS = 2_000_000


def read_arrivals(path: Path, warn: Callable[[str], None]) -> Arrivals:
    """The trace as arrivals; `warn` is told what is assumed of it. InputError names the line and what it lacks."""
    from advisor.capacity.arrivals import from_trace
    from probes.requests.trace import read_trace

    found = read_trace(path, MAX_REQUESTS)
    for note in found.notes:
        warn(f"the trace {path.name}: {note}")
    times = found.arrival_s
    if len(times) < 2 or times.max() <= times.min():
        raise InputError(f"the trace {path} has fewer than two requests at different times: expected recorded arrivals")
    return from_trace(times, found.prompt_tokens, found.output_tokens)
