"""A running server's /metrics, scraped over a window (or read from saved dumps), as `ServerEvidence`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from probes.server.differences import server_evidence
from probes.server.pacing import SHORTEST_PAUSE_S, elapsed_s, paced
from probes.server.pairing import one_server
from probes.server.reading import Scrape
from probes.server.scraping import (
    Fetcher,
    looks_like_address,
    public_source,
    read_dump,
    server_address,
)
from profiles.errors import InputError, ProbeError
from profiles.evidence import ServerEvidence
from profiles.mistakes import first_mistake

__all__ = ["probe_server"]

GAUGE_SCRAPES = 8
"""Scrapes in between, for gauges only: two ends say little of a load that comes and goes."""
LIVE_WINDOW_S = 15.0


def probe_server(source: str, second: str | None = None, window_s: float | None = None, token: str | None = None,
                 timeout_s: float = 10.0, *, headers: Mapping[str, str] | None = None, model: str | None = None,
                 sleep: Callable[[float], None] = time.sleep) -> ServerEvidence:
    """What a server did over `window_s` seconds (15 by default), or between two saved dumps.

    source: http(s)://host:port[/metrics], host:port, or a file. second: a later dump of the same server. window_s
    between two dumps is what the user states; with None their modification times tell. token is sent as a bearer
    token; neither it, nor headers, nor credentials in the URL are stored. timeout_s bounds each page.
    Raises ProbeError where a server does not answer as one, InputError for unreadable files, URLs and models.
    """
    from pydantic import ValidationError

    try:
        return _probe(source, second, window_s, token, timeout_s, headers, model, sleep)
    except ValidationError as error:
        failure = ProbeError if looks_like_address(source) else InputError
        raise failure(f"{public_source(source)} holds a number that no engine can have: "
                      f"{first_mistake(error, 'the page')}; check what answers there") from None


def _probe(source: str, second: str | None, window_s: float | None, token: str | None, timeout_s: float,
           headers: Mapping[str, str] | None, model: str | None, sleep: Callable[[float], None]) -> ServerEvidence:
    if looks_like_address(source):
        if second is not None:
            raise InputError("a second dump goes with a first dump: give two files, or one URL alone")
        window_s = LIVE_WINDOW_S if window_s is None else window_s
        if window_s <= 0:
            raise InputError(f"--window {window_s} is no time to scrape twice in: give seconds above 0, e.g. 15s")
        return _probe_live(source, window_s, Fetcher(token, headers or {}, timeout_s), model, sleep)
    paths = [Path(source)] + ([Path(second)] if second is not None else [])
    if second is not None and looks_like_address(second):
        raise InputError(f"the second source is a URL and the first, {public_source(source)}, is a file: give two "
                         "files, or one URL")
    return _read_dumps(paths, window_s if second is not None else None, model)


def _probe_live(source: str, window_s: float, fetcher: Fetcher, model: str | None,
                sleep: Callable[[float], None]) -> ServerEvidence:
    address = server_address(source)
    scrapes = [fetcher.page(address)]
    version = fetcher.version(address, scrapes[0].names.engine)
    pages = list(paced(fetcher, address, window_s, GAUGE_SCRAPES + 1, sleep, time.monotonic))
    # One missed page in between costs a gauge reading; without the last one there is no window.
    if isinstance(pages[-1], ProbeError):
        raise pages[-1]
    seen = [page for page in pages if isinstance(page, Scrape)]
    scrapes, missed = scrapes + seen, len(pages) - len(seen)
    notes = [f"{missed} of {len(pages) + 1} scrapes had no answer: the server may be overloaded"] if missed else []
    found = server_evidence(scrapes, url=address.display, window_s=elapsed_s(scrapes), engine_version=version,
                            model=model, notes=notes)
    return found.model_copy(update={"model_roots": fetcher.model_roots(address)})


def _read_dumps(paths: list[Path], window_s: float | None, model: str | None) -> ServerEvidence:
    scrapes = [read_dump(path) for path in paths]
    notes: list[str] = []
    seconds = 0.0
    if len(scrapes) > 1:
        unsure = one_server(scrapes[0], scrapes[1], (paths[0], paths[1]))
        notes += [unsure] if unsure is not None else []
        if window_s is not None:
            seconds = window_s
        else:
            seconds = paths[1].stat().st_mtime - paths[0].stat().st_mtime
            if seconds >= SHORTEST_PAUSE_S:
                notes.append(f"window of {seconds:.0f} s from the files' modification times: state it with --window "
                             "where they were copied")
            else:
                seconds = 0.0
                notes.append("the time between the dumps is unknown, so there are no rates: state it with --window")
    return server_evidence(scrapes, url=str(paths[-1]), window_s=seconds, model=model, notes=notes)
