"""A saved record back from its text, or one sentence that says why not."""

from __future__ import annotations

import json

from pydantic import ValidationError

from advisor.record import Record
from profiles.errors import InputError
from profiles.json_text import json_problem, parse_json
from profiles.mistakes import first_mistake
from profiles.plausibility import judged
from profiles.schema import FROM_A_FILE, MAX_K, SCHEMA_VERSION, shown

_ROUNDED = 1 + 1e-6
"""What is left of rounding."""


def parse_record(text: str | bytes, where: str) -> Record:
    """Validate the JSON of a record; `where` (a path) begins every sentence.

    InputError where the text is not JSON, was written with another schema_version, or does not hold a record.
    """
    try:
        # Decoded here: json would take a stray byte-order mark for another encoding.
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        document = parse_json(decoded, where)
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 text: expected a record.json written by `specadvise advise`") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not JSON (line {error.lineno}, column {error.colno}: {json_problem(error)}): expected a "
            "record.json written by `specadvise advise`, whole"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where} is not JSON that can be read ({json_problem(error)}): expected a record.json written by "
            "`specadvise advise`"
        ) from error
    if not isinstance(document, dict) or "decision" not in document or "schema_version" not in document:
        raise InputError(
            f"{where} is not a record (no decision, no schema_version in it): expected a record.json written "
            "by `specadvise advise`"
        )
    version = document["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise InputError(
            f"{where}: schema_version is {shown(version)}, expected the number {SCHEMA_VERSION}; run "
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
        record = Record.model_validate(document, context=FROM_A_FILE)
    except ValidationError as error:
        raise InputError(
            f"{where}: {first_mistake(error, 'the record')}; the record was changed or cut, run `specadvise advise` "
            "again to write a new one"
        ) from error
    problem = _contradiction(record)
    if problem is not None:
        raise InputError(
            f"{where}: {problem}; the record was changed, run `specadvise advise` again to write a new one"
        )
    return record


def _contradiction(record: Record) -> str | None:
    """What cannot be true together in this record; None for one that `advise` may have written."""
    decision = record.decision
    if decision.enable is True and (decision.method in (None, "none") or decision.k is None):
        return "decision.enable is true, but no method or no k is chosen"
    if decision.enable is False and (decision.method not in (None, "none") or decision.k is not None):
        return "decision.enable is false, but a method or k is chosen"
    if decision.k == 0:
        return f"decision.k is 0: expected a number between 1 and {MAX_K}"
    last = 0
    for start, end, k in decision.schedule or ():
        if not last < start <= end or not 0 <= k <= MAX_K:
            return (f"decision.schedule has the band [{shown(start)}, {shown(end)}, {shown(k)}]: expected rising loads "
                    f"from 1 and k between 0 and {MAX_K}")
        last = end
    for number, cell in enumerate(record.candidates):
        if cell.acceptance_length.value > (cell.k + 1) * _ROUNDED:
            return (f"candidates[{number}].acceptance_length is {cell.acceptance_length.value:.10g} with k {cell.k}: "
                    f"expected at most {cell.k + 1} tokens per step")
    for number, one in enumerate(record.evidence):
        found = set(judged(one).implausible) - set(one.implausible)
        if found:
            return f"evidence[{number}]: {found.pop().message}"
    return None
