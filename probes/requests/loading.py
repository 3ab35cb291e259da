"""Files into the table of requests: expanded, recognised, planned and read, whatever is asked of them afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from probes.requests import Options
from probes.requests.database import connect
from probes.requests.plan import Plan, mapped_format, plan_of
from probes.requests.queries import COLUMNS, columns_of
from probes.requests.reading import Reading
from probes.requests.recognise import UnknownFormat, format_of, head, named_format
from probes.requests.shapes import Format, Head, RecordFormat
from probes.requests.sources import Source, expand
from probes.requests.table import Table
from probes.requests.tokens import counter
from profiles.errors import InputError


@dataclass(frozen=True)
class Loaded:
    """What was read, while the table of it is there."""

    reading: Reading
    sources: Sequence[Source]
    forms: Sequence[Format]
    plans: Sequence[Plan | None]
    """How the table engine reads each file; None for those that are read record by record."""


@contextmanager
def loaded(names: Sequence[str], options: Options) -> Iterator[Loaded]:
    """Read the files (paths, globs, `-`). InputError for those that cannot be read or are of no known format."""
    count_tokens = counter(options.tokenizer)
    with tempfile.TemporaryDirectory(prefix="specadvise-") as folder, connect() as database:
        sources = expand(names, Path(folder))
        heads = [head(source) for source in sources]
        forms = [_format(source, one, options) for source, one in zip(sources, heads, strict=True)]
        plans = [_plan(form, one, options) for form, one in zip(forms, heads, strict=True)]
        columns = {name for plan in plans for name in (COLUMNS if plan is None else columns_of(plan))}
        reading = Reading(Table(database, columns, len(sources)), count_tokens, options.model)
        for number, (source, one, form, planned) in enumerate(zip(sources, heads, forms, plans, strict=True)):
            for note in (*source.notes, *form.notes, *one.doubled_notes()):
                reading.note(note)
            by_records = partial(reading.by_records, form, one, number) if isinstance(form, RecordFormat) else None
            if planned is not None:
                reading.by_table(planned, source, number, by_records)
            elif by_records is not None:
                by_records(source)
        yield Loaded(reading, sources, forms, plans)


def _format(source: Source, found: Head, options: Options) -> Format:
    try:
        return _asked_or_recognised(found, options)
    except UnknownFormat as error:
        damage = source.damage or (_MISNAMED if source.compression == "none" and source.shown.endswith(_PACKED) else "")
        if not damage:
            raise
        raise InputError(f"{source.shown} {damage}; what was read of it is of no known format: fetch the file again"
                         ) from error


_PACKED = (".gz", ".gzip", ".zst")
_MISNAMED = "is named as a packed file and does not begin as one"


def _asked_or_recognised(found: Head, options: Options) -> Format:
    if options.columns is not None:
        return mapped_format(options.columns, found)
    return named_format(options.format) if options.format is not None else format_of(found)


def _plan(form: Format, found: Head, options: Options) -> Plan | None:
    if not isinstance(form, RecordFormat):
        return plan_of(form, found)
    exact = options.tokenizer is not None or found.container != "jsonl"
    return None if exact or form.as_columns is None else form.as_columns(found)
