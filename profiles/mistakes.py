"""What a schema refuses in a document, in this tool's words: the field, its value, what was expected. The one place
where the validator's own words are translated.
"""

from __future__ import annotations

import datetime
import difflib
import typing
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from profiles.schema import shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from profiles.yaml_lines import KeyPath

_BOUNDS = {
    "greater_than": ("gt", "a number above"),
    "greater_than_equal": ("ge", "a number of at least"),
    "less_than": ("lt", "a number below"),
    "less_than_equal": ("le", "a number of at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}
_LENGTHS = {
    "too_short": ("min_length", "at least {} of them"),
    "too_long": ("max_length", "at most {} of them"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
}
_DAY = "a day such as 2027-01-31"
_TIME = "a time such as 2027-01-31T12:00:00Z"
_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text (put it in quotes)",
    "string_sub_type": "text (put it in quotes)",
    "string_unicode": "text without halves of characters",
    "string_pattern_mismatch": "text of another form",
    "tuple_type": "a list",
    "list_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "dict_type": "a mapping of name to value",
    "mapping_type": "a mapping of name to value",
    "model_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
    "invalid_key": "text for a key (put it in quotes)",
    "none_required": "nothing",
    "recursion_loop": "a value that does not contain itself",
    "date_type": _DAY,
    "date_parsing": _DAY,
    "date_from_datetime_parsing": _DAY,
    "date_from_datetime_inexact": _DAY,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
}
_OWN_SENTENCE = ("value_error", "assertion_error")


def dotted(place: KeyPath) -> str:
    """`candidates[0].draft.id`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{str(part)[:80]}" if text else str(part)[:80]
    return text


def place_of(detail: ErrorDetails) -> KeyPath:
    """Where in the document it stands, without the validator's own steps on the way."""
    return tuple(part for part in detail["loc"] if part != "[key]" and not str(part).startswith("function-"))


def given(value: object) -> str:
    """A value as a sentence quotes it, in the words of whoever wrote the file."""
    if value is None:
        return "empty"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return "binary data"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return shown(value)


def expected(detail: ErrorDetails) -> str:
    """What should have stood there, to go behind `expected `."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{words} {context[key]:,.10g}"
    if kind in _LENGTHS:
        key, words = _LENGTHS[kind]
        least = context[key]
        return "text that is not empty" if (kind, least) == ("string_too_short", 1) else words.format(least)
    if kind in ("enum", "literal_error"):
        return f"one of {context['expected'].replace(chr(39), '')}"
    if kind in _KINDS:
        return _KINDS[kind]
    # Errors that a schema of this tool makes itself are in its words already.
    return "another kind of value" if kind in _of_the_validator() else detail["msg"]


def own_sentence(detail: ErrorDetails) -> str | None:
    """What a check of this tool said, which names value and expectation; None where the validator itself refused."""
    if detail["type"] not in _OWN_SENTENCE:
        return None
    return str(detail.get("ctx", {}).get("error", "it cannot be")).rstrip(".")


def mistake(detail: ErrorDetails, whole: str = "the document", fields: Collection[str] = ()) -> str:
    """One mistake as a sentence without its file.

    whole: what the document is called. fields: the names it may have, for slips in one.
    """
    place, own = place_of(detail), own_sentence(detail)
    if own is not None:
        return f"{dotted(place) or whole}: {own}"
    if detail["type"] == "extra_forbidden":
        return f"{dotted(place[:-1]) or whole} has no field {shown(place[-1])}{_meant(str(place[-1]), fields)}"
    if detail["type"] == "missing":
        return f"{dotted(place)} is missing"
    return f"{dotted(place) or whole} is {given(detail['input'])}: expected {expected(detail)}"


def first_mistake(error: ValidationError, whole: str = "the document", fields: Collection[str] = ()) -> str:
    """The first mistake, and how many more there are."""
    more = error.error_count() - 1
    return mistake(error.errors(include_url=False)[0], whole, fields) + (f" (and {more} more)" if more else "")


def _meant(name: str, fields: Collection[str]) -> str:
    if not fields:
        return ""
    near = difflib.get_close_matches(name.lower(), fields, n=1, cutoff=0.6)
    return f": did you mean {near[0]!r}?" if near else f": expected one of {', '.join(fields)}"


def _of_the_validator() -> Collection[Any]:
    """The kinds of errors that it makes itself."""
    from pydantic_core import core_schema

    return typing.get_args(core_schema.ErrorType)
