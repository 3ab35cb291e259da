"""Reads saved evidence; one that another version would misread is refused, never guessed at."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from advisor.cli.provenance import refuse_future
from profiles.errors import InputError
from profiles.evidence import Evidence
from profiles.json_text import json_problem, parse_json
from profiles.mistakes import first_mistake
from profiles.plausibility import judged
from profiles.reading import read_whole
from profiles.schema import FROM_A_FILE, SCHEMA_VERSION, shown

MAX_BYTES = 256 * 1024 * 1024
"""Evidence of a long trial is a few megabytes."""


def load_evidence(path: Path) -> Evidence:
    """The evidence in `path`, what is wrong with its counters said in it. InputError names the file, what is wrong, and
    what to do."""
    document = read_json(path, "evidence")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(
            f"{path}: evidence of schema_version {shown(version)}: this release of specadvise reads version "
            f"{SCHEMA_VERSION}; {_advice(version)}"
        )
    try:
        found = Evidence.model_validate(document, context=FROM_A_FILE)
    except ValidationError as error:
        raise InputError(f"{path}: not evidence as `probe --save` or `trial --save` writes it: {first_mistake(error)}; "
                         "collect it again") from None
    refuse_future(str(path), "collected_at", found.collected_at)
    return judged(found)


def _advice(version: object) -> str:
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        return "it was written by a newer one: update specadvise, or collect it again"
    if isinstance(version, int) and not isinstance(version, bool):
        return "it was written by an older one: collect it again with this one"
    return "it is not a file that `--save` wrote: collect it again"


def read_json(path: Path, what: str) -> dict[str, object]:
    """A JSON mapping from a file; InputError in one sentence otherwise."""
    data = read_whole(path, f"a file with {what}", MAX_BYTES)
    try:
        document = parse_json(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}): expected a file with {what}; name the right "
                         "file") from None
    except (ValueError, RecursionError) as error:
        place = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}{place}: not JSON ({json_problem(error)}): expected a file with {what}; collect it "
                         "again") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON mapping with {what}; name the right file")
    return document
