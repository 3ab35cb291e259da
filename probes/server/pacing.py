"""Scrapes at an even pace: those of a window, and of each interval of a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from probes.server.reading import Scrape
from probes.server.scraping import Fetcher, ServerAddress
from profiles.errors import ProbeError

SHORTEST_PAUSE_S = 1.0


def paced(fetcher: Fetcher, address: ServerAddress, span_s: float, most: int, sleep: Callable[[float], None],
          clock: Callable[[], float]) -> Iterator[Scrape | ProbeError]:
    """A page at the end of each of `most` equal parts of the span, the last at its end, or why there is none. Fewer
    parts where they would be shorter than SHORTEST_PAUSE_S."""
    parts, begun = max(1, min(most, int(span_s / SHORTEST_PAUSE_S))), clock()
    for part in range(1, parts + 1):
        sleep(max(0.0, begun + span_s * part / parts - clock()))
        try:
            yield fetcher.page(address)
        except ProbeError as error:
            yield error


def elapsed_s(scrapes: Sequence[Scrape]) -> float:
    """Seconds between the first and the last of live scrapes."""
    first, last = scrapes[0].at_s, scrapes[-1].at_s
    return last - first if first is not None and last is not None else 0.0
