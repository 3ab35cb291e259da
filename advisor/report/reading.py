"""A saved record back from its text, or one sentence that says why not."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from advisor.record import Record
from profiles.errors import InputError
from profiles.schema import SCHEMA_VERSION


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def parse_record(text: str | bytes, where: str) -> Record:
    """Validate the JSON of a record; `where` (a path) begins every sentence.

    InputError where the text is not JSON, was written with another schema_version, or does not hold a record.
    """
    try:
        # Decoded here: json would take a stray byte-order mark for another encoding.
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        document = json.loads(decoded, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 text: expected a record.json written by `specadvise advise`") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not JSON (line {error.lineno}, column {error.colno}: {error.msg}): expected a "
            "record.json written by `specadvise advise`, whole"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where} is not JSON that can be read ({error}): expected a record.json written by `specadvise advise`"
        ) from error
    if not isinstance(document, dict) or "decision" not in document or "schema_version" not in document:
        raise InputError(
            f"{where} is not a record (no decision, no schema_version in it): expected a record.json written "
            "by `specadvise advise`"
        )
    version = document["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise InputError(
            f"{where}: schema_version is {version!r}, expected the number {SCHEMA_VERSION}; run "
            "`specadvise advise` again to write a new record"
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{where} was written by a newer specadvise (schema_version {version}, this one reads "
            f"{SCHEMA_VERSION}): upgrade specadvise, then run again"
        )
    if version < SCHEMA_VERSION:
        raise InputError(
            f"{where} was written by an older specadvise (schema_version {version}, this one reads "
            f"{SCHEMA_VERSION}): run `specadvise advise` again to write a new record"
        )
    try:
        return Record.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise InputError(
            f"{where}: {place}: {first['msg'][:200]}{more}; the record was changed or cut, run "
            "`specadvise advise` again to write a new one"
        ) from error
