"""Whether two saved pages are of one server, the earlier one first: what a difference between them would mean."""

from __future__ import annotations

from pathlib import Path

from probes.server.differences import counters_fell
from probes.server.reading import Scrape
from profiles.errors import InputError

SAME_START_S = 1.0
"""Starts that lie nearer together are one."""


def one_server(first: Scrape, second: Scrape, paths: tuple[Path, Path]) -> str | None:
    """A note where it cannot be told; InputError, with what to give instead, where the pages are of two servers or in
    the wrong order."""
    one, other = paths
    if first.names.engine != second.names.engine:
        raise InputError(f"{one} is of {first.names.engine} and {other} of {second.names.engine}: give two dumps of "
                         "one server")
    models, others = first.models, second.models
    if models and others and not set(models) & set(others):
        raise InputError(f"{one} is of a server of {_named(models)} and {other} of one of {_named(others)}: give two "
                         "dumps of one server")
    start, later = first.process_start_s, second.process_start_s
    if start is not None and later is not None:
        if later < start - SAME_START_S:
            raise InputError(f"the server of {other} was started before that of {one}: give two dumps of one server, "
                             "the earlier one first")
        if later > start + SAME_START_S:
            return ("the server was restarted between the dumps, or they are of two servers: only the second is used, "
                    "its counts are since its start")
        if counters_fell(first, second):
            raise InputError(f"counters of {other} stand below those of {one}, although both are of one start of one "
                             "server: give the earlier dump first")
    return None


def _named(models: tuple[str, ...]) -> str:
    return ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
