"""Reads saved evidence; one that another version would misread is refused, never guessed at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from profiles.errors import InputError
from profiles.evidence import Evidence
from profiles.reading import read_whole
from profiles.schema import SCHEMA_VERSION, shown

MAX_RATE = 1.05
"""A scrape between two counters of one step may show a little more accepted than drafted."""
MAX_BYTES = 256 * 1024 * 1024
"""Evidence of a long trial is a few megabytes."""


def load_evidence(path: Path) -> Evidence:
    """The evidence in `path`. InputError names the file, what is wrong, and what to do."""
    document = read_json(path, "evidence")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(
            f"{path}: evidence of schema_version {shown(version)}: this release of specadvise reads version "
            f"{SCHEMA_VERSION}; {_advice(version)}"
        )
    try:
        found = Evidence.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part)[:80] for part in first["loc"]) or "the document"
        given = f" is {shown(first['input'])}" if isinstance(first["input"], (int, float, str)) else ""
        raise InputError(
            f"{path}: not evidence as `probe --save` or `trial --save` writes it: {place}{given}: "
            f"{first['msg'][:300]}; collect it again"
        ) from None
    _refuse_impossible(found, path)
    return found


def _refuse_impossible(found: Evidence, path: Path) -> None:
    """An acceptance above one is only read where the probe itself said that these counters cannot be right."""
    speculation = found.server.speculation if found.server is not None else None
    if found.server is None or speculation is None or found.server.notes:
        return
    for position, rate in enumerate(speculation.per_position):
        if rate > MAX_RATE:
            raise InputError(
                f"{path}: server.speculation.per_position.{position} is {rate:g}: expected a share from 0 to 1; "
                "collect it again"
            )


def _advice(version: object) -> str:
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        return "it was written by a newer one: update specadvise, or collect it again"
    if isinstance(version, int) and not isinstance(version, bool):
        return "it was written by an older one: collect it again with this one"
    return "it is not a file that `--save` wrote: collect it again"


class _NotFinite(ValueError):
    pass


def _no_constant(name: str) -> NoReturn:
    raise _NotFinite(name)


def read_json(path: Path, what: str) -> dict[str, object]:
    """A JSON mapping from a file; InputError in one sentence otherwise."""
    data = read_whole(path, f"a file with {what}", MAX_BYTES)
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON ({error.msg}): expected a file with {what}") from None
    except _NotFinite as error:
        raise InputError(
            f"{path}: {error} is not a JSON number: expected a file with {what}; collect it again"
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not JSON text: expected a file with {what}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON mapping with {what}")
    return document
