"""Request logs and traces as `RequestsEvidence`: what users send, how often, and how many requests run at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profiles.errors import InputError
from profiles.mistakes import first_mistake
from profiles.traffic import RequestsEvidence

__all__ = ["Options", "probe_requests", "refuse_empty"]


@dataclass(frozen=True)
class Options:
    """How logs are read."""

    columns: str | None = None
    """A mapping for tables of no known format: `arrival=T:ms,prompt=IN,output=OUT`."""
    format: str | None = None
    """Read every file as this format instead of recognising it."""
    tokenizer: Path | None = None
    """Folder of the target's tokenizer, for logs with text and no token counts."""
    tpot_ms: float | None = None
    """Time per output token, for running requests of a log without ends (Little's law)."""
    ttft_ms: float | None = None
    model: str | None = None
    """Of logs of several models, this one alone."""
    lenient: bool = False
    """Go on with a file that has more bad lines than good ones."""


def probe_requests(names: Sequence[str], options: Options = Options()) -> RequestsEvidence:
    """Read logs and traces (paths, globs, `-`) and say what they say of the workload.

    Formats are recognised by content; plain, gzip, zstd and Parquet. Memory stays bounded whatever the size; nothing
    of a text is kept. Raises InputError for files that cannot be read, are of no known format, or have more bad lines
    than good ones (unless lenient).
    """
    from pydantic import ValidationError

    from probes.requests.assembly import evidence_of
    from probes.requests.loading import loaded

    if not names:
        raise InputError("no log is named: give files, patterns, or - for stdin")
    with loaded(names, options) as found:
        reading = found.reading
        _refuse_unreadable(reading.lines, reading.bad, reading.places, options.lenient,
                           {source.shown: source.damage for source in found.sources})
        try:
            return evidence_of(reading, found.sources, found.forms, found.plans, options)
        except ValidationError as error:
            raise InputError(f"{', '.join(names)}: no traffic is like that: {first_mistake(error, 'the log')}; check "
                             "the units of the columns, or map them with --columns") from error


def refuse_empty(names: Sequence[str], found: RequestsEvidence) -> None:
    """InputError where logs hold neither requests nor figures without them: a server's log states its load, a result
    its totals."""
    figures = (found.arrival_rate_rps, found.prompt_tokens, found.output_tokens, found.ttft_ms, found.tpot_ms,
               found.concurrency.get("mean"), any((found.engine or {}).values()))
    if not (found.requests or found.failed or any(figures)):
        raise InputError(f"{', '.join(names)}: no requests in it: expected a log or trace of requests; name the right "
                         "file")


def _refuse_unreadable(lines: dict[str, tuple[int, int]], reasons: dict[str, int], places: dict[str, list[str]],
                       lenient: bool, damage: dict[str, str]) -> None:
    for name, (good, bad) in lines.items():
        if bad > good and not lenient:
            why = "; ".join(f"{reason} ({', '.join(places.get(reason, ())[:3]) or count})"
                            for reason, count in sorted(reasons.items(), key=lambda one: -one[1])[:3])
            harmed = damage.get(name)
            what = f"{name} {harmed}: it" if harmed else name
            mend = "fetch the file again" if harmed else "correct the file, map its columns with --columns"
            raise InputError(f"{what} has more bad lines ({bad:,}) than good ones ({good:,}): {why}; {mend}, or read "
                             "it all the same with --lenient")
