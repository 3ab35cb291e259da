"""Whether vLLM takes a value: for an option of a config file or command line, and for a key inside a mapping.

An option's value becomes text before vLLM's parser reads it (`key: value` is `--key value`), so what counts is how that
text parses; a key of a mapping arrives as JSON and is compared by type, numbers in quotes being numbers all the same.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from advisor.emit.options import carries_secret
from profiles.catalog.options import Option, size_of
from profiles.schema import shown

WORDS_FOR_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off"})
_EXPECTED = {
    "int": "a whole number", "size": "a whole number (8k and 8K are read too)",
    "window": "a whole number, auto or -1", "float": "a number", "switch": "true or false", "flag": "true or nothing",
    "json": "a mapping", "list": "a list", "text": "one text", "choice": "one of a list",
}
_MOST_NAMED = 12
_NEAR = 0.75
_SECRET_IN_TEXT = re.compile(
    r"\b(?:(?:auth|access|api|hf|bearer)[-_]?token|token|\w*(?:secret|password|passwd)|\w*api[-_]?key)\b"
    r"[\"']?\s*[:=]", re.IGNORECASE)
"""Text that is no JSON any more, and still says that what follows is a secret."""


def expected(option: Option) -> str:
    """What an option takes, in words."""
    if option.choices:
        named = [str(choice) for choice in option.choices]
        shortened = named if len(named) <= _MOST_NAMED else [*named[:_MOST_NAMED], "..."]
        return f"one of {', '.join(shortened)}"
    return " ".join(filter(None, (_EXPECTED.get(option.kind, "another value"), option.range)))


def refusal(name: str, value: Any, option: Option, version: str) -> str:
    """What is wrong with a value that an option or a key of a mapping does not take, in one sentence."""
    return f"{name} is {said(value, name)}: vLLM {version} takes {expected(option)}, and the server does not start."


def taken_as_option(option: Option, value: Any) -> bool:
    """Whether the server's parser takes this value of an option. What it drops unread counts as taken (`dropped`)."""
    if option.kind == "any" or dropped(option, value):
        return True
    if value is None:
        # The text None: unset where the option knows that, and a stray word behind a switch.
        return option.kind == "text" or (option.optional and option.kind not in ("switch", "flag"))
    if isinstance(value, bool):
        # `key: true` is the option alone; `key: false` is `--no-key`.
        return option.kind in ("switch", "switch or text") or (option.kind == "flag" and value)
    if option.kind in ("switch", "flag"):
        return False
    if isinstance(value, list):
        items = [item for item in value if not isinstance(item, (dict, list))]
        if option.kind == "list":
            return len(items) == len(value) and (option.of != "int" or all(_whole(str(item)) is not None
                                                                           for item in items))
        return len(value) == 1 and len(items) == 1 and taken_as_option(option, items[0])
    if isinstance(value, Mapping):
        # It arrives as JSON text, which no name and no path is.
        return option.kind in ("json", "switch or text")
    return _text_taken(option, str(value))


def taken_as_key(option: Option, value: Any) -> bool:
    """Whether a key of a mapping takes this value."""
    kind = option.kind
    if kind == "any" or value is None:
        # What null means is each key's own affair: most take it for "not stated".
        return True
    if kind in ("int", "size", "window", "float"):
        if isinstance(value, bool):
            return False
        number = value if isinstance(value, (int, float)) else _number(value) if isinstance(value, str) else None
        whole = number is not None and (kind == "float" or float(number).is_integer())
        return number is not None and whole and option.holds(number)
    if kind in ("switch", "flag"):
        return isinstance(value, bool) or value in (0, 1) or (isinstance(value, str)
                                                             and value.lower() in WORDS_FOR_SWITCHES)
    if kind == "choice":
        return not isinstance(value, (dict, list)) and (value in option.choices or (
            option.any_case and str(value).upper() in option.choices))
    if kind == "list":
        return isinstance(value, list)
    if kind == "json":
        return isinstance(value, Mapping)
    return kind != "text" or isinstance(value, str)


def dropped(option: Option | None, value: Any) -> bool:
    """Whether the line is left out without a word: `false` where there is no `--no-`, and an empty list."""
    if isinstance(value, list) and not value:
        return True
    return value is False and (option is None or option.kind not in ("switch", "any"))


def nearest(option: Option, value: Any) -> str | None:
    """The choice that was probably meant; None where none is near."""
    named = [str(choice) for choice in option.choices]
    text = str(value).upper() if option.any_case else str(value)
    return next(iter(difflib.get_close_matches(text, named, n=1, cutoff=_NEAR)), None)


def number_of(option: Option, value: Any) -> float | None:
    """The number an option's value is read as; None where it is none."""
    if isinstance(value, bool) or option.kind not in ("int", "size", "window", "float"):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        return None
    size = size_of(value) if option.kind in ("size", "window") else None
    return float(size) if size is not None else _number(value.strip())


def out_of_range(option: Option, value: Any) -> bool:
    """Whether the value parses and lies outside the bounds."""
    number = number_of(option, value)
    return number is not None and not option.holds(number)


def said(value: Any, name: str = "") -> str:
    """A value as messages name it. One that carries a secret, or a name beside it that says so, is never quoted: a
    finding goes into a pipeline's log."""
    if carries_secret(name.replace(".", "-"), value) or (isinstance(value, str) and _SECRET_IN_TEXT.search(value)):
        return "a value that carries a secret (not shown)"
    return "a mapping" if isinstance(value, Mapping) else "null" if value is None else str(value).lower() \
        if isinstance(value, bool) else shown(value)


def _text_taken(option: Option, text: str) -> bool:
    if option.optional and text in ("", "None"):
        return True
    kind = option.kind
    if kind == "int":
        return _whole(text) is not None
    if kind in ("size", "window"):
        automatic = kind == "window" and (text.strip() == "-1" or text.strip().lower() == "auto")
        return automatic or _whole(text) is not None or size_of(text) is not None
    if kind == "float":
        return _number(text) is not None
    if kind == "json":
        try:
            return isinstance(json.loads(_plain_sizes(text)), (dict, list))
        except (ValueError, RecursionError):
            return False
    if kind == "list" and option.of == "int":
        return _whole(text) is not None
    if kind == "choice":
        known = {str(choice) for choice in option.choices}
        return (text in known or (option.loose and text.lower().replace("-", "_") in known)
                or (option.any_case and text.upper() in known))
    return True


def _plain_sizes(text: str) -> str:
    """`80m` as a bare word of JSON is a number to vLLM."""
    return re.sub(r"(?<=[:\[,\s])(\d+)(?:\.\d+)?[kKmMgGtT](?=\s*[,}\]])", r"\1", text)


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
