"""Options of `vllm serve` by release: which there are, what each takes, and which keys a mapping has.

Derived from the releases' own source (`python -m profiles.catalog.derive_releases`), read from `data/options.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from profiles.catalog.compiled import compiled
from profiles.catalog.releases import newest, version_tuple

KINDS = ("int", "size", "window", "float", "switch", "switch or text", "flag", "text", "choice", "list", "json", "any")
"""size: whole numbers, also 8k and 8K. window: the same, `auto` and -1 too. switch: on, and off by `no-`. flag: on
only. any: taken by name alone, nothing is known of its values."""
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([kmgt])|(\d{1,15})([KMGT])")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Option:
    """What one option, or one key of a mapping, takes."""

    kind: str
    optional: bool = False
    """null means unset; where not, it is refused."""
    choices: tuple[Any, ...] = ()
    of: str | None = None
    """Kind of a list's items, where it is fixed."""
    above: float | None = None
    min: float | None = None
    below: float | None = None
    max: float | None = None
    loose: bool = False
    """Choices are compared in small letters, dashes as underscores."""
    any_case: bool = False
    """Choices are names of the engine's own, compared whatever their case; a plugin of it may register further ones."""

    @property
    def range(self) -> str:
        """The bounds in words; empty where there are none."""
        low = f"above {self.above:g}" if self.above is not None else f"at least {self.min:g}" if self.min is not None \
            else ""
        high = f"below {self.below:g}" if self.below is not None else f"at most {self.max:g}" if self.max is not None \
            else ""
        return " and ".join(filter(None, (low, high)))

    def holds(self, number: float) -> bool:
        """Whether a number is within the bounds."""
        return not ((self.above is not None and number <= self.above) or (self.min is not None and number < self.min)
                    or (self.below is not None and number >= self.below)
                    or (self.max is not None and number > self.max))


def size_of(text: str) -> int | None:
    """The whole number that `8k` (thousands) or `8K` (of 1,024) or a plain one stands for, as vLLM reads a size; None
    where it is none. Only the small units take a fraction."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return int(text) if re.fullmatch(r"\s*-?\d{1,18}\s*", text) else None
    return int(float(found[1] or found[3]) * _UNITS[found[2] or found[4]])


@lru_cache(maxsize=4096)
def was_read(rules: str) -> bool:
    """Whether this release's own list was read; of others only neighbours are known."""
    first, last = (version_tuple(version) for version in _read_ends())
    version = version_tuple(rules)
    return first <= version and version[:2] <= last[:2]


@lru_cache(maxsize=4096)
def is_newer_than_read(rules: str) -> bool:
    """Whether the release came after the last one that was read."""
    return version_tuple(rules)[:2] > version_tuple(_read_ends()[1])[:2]


def newest_read() -> str:
    """The newest release whose options were read."""
    return _read_ends()[1]


def newest_whole() -> str:
    """The newest release of which both the rules and the options were read: what is taken where nobody states one, so
    that every command knows all of the release it speaks of."""
    return min(newest(), newest_read(), key=version_tuple)


@lru_cache(maxsize=4096)
def find_option(name: str, rules: str) -> Option | None:
    """What an option takes in a release; None where the release does not have it.

    For a release older than the first one read, the first list that has the option speaks.
    """
    spans = compiled("options")["options"].get(name)
    return None if spans is None else _option(_fact(spans, rules), name)


def ever(name: str) -> bool:
    """Whether any release has the option."""
    return name in compiled("options")["options"] or name in compiled("releases")["serve_options"]


@lru_cache(maxsize=64)
def option_names(rules: str) -> frozenset[str]:
    """Options of a release."""
    return frozenset(name for name, spans in compiled("options")["options"].items()
                     if _fact(spans, rules) is not None)


@lru_cache(maxsize=4096)
def completed(name: str, rules: str) -> str | None:
    """The option that a shortened name stands for: vLLM's parser takes any beginning that only one option has."""
    found = [option for option in option_names(rules) if option.startswith(name)]
    return found[0] if len(found) == 1 and name not in found else None


@lru_cache(maxsize=4096)
def mapping_keys(option: str, rules: str) -> frozenset[str]:
    """Keys that an option's mapping has in a release; empty where they are not fixed or not known."""
    keys: Mapping[str, Any] = compiled("options")["mappings"].get(option, {})
    return frozenset(key for key, spans in keys.items() if _fact(spans, rules) is not None)


@lru_cache(maxsize=4096)
def find_key(option: str, key: str, rules: str) -> Option | None:
    """What a key of an option's mapping takes in a release; None where it is not known there."""
    spans = compiled("options")["mappings"].get(option, {}).get(key)
    return None if spans is None else _option(_fact(spans, rules), f"{option}.{key}")


@lru_cache(maxsize=4096)
def refuses_unknown_keys(rules: str) -> bool:
    """Whether a key that a mapping does not have ends the start; before, it is dropped."""
    return _in_force(compiled("options")["refuses_unknown_keys"], rules) is not None


def dates(name: str) -> tuple[str | None, str | None]:
    """(release that had the option first, release that had it no longer); None where no list says."""
    spans = compiled("options")["options"].get(name, [])
    since = spans[0]["since"] if spans and spans[0]["since"] != _read_ends()[0] else None
    return since, spans[-1].get("until") if spans else None


def _read_ends() -> tuple[str, str]:
    read = compiled("options")["read"]
    return str(read[0]), str(read[-1])


@lru_cache(maxsize=4096)
def _neighbours(rules: str) -> tuple[str, str]:
    """The releases read last before and first after this one; twice the same where it was read itself, and beyond the
    ends."""
    read = [str(version) for version in compiled("options")["read"]]
    version = version_tuple(rules)
    before = [one for one in read if version_tuple(one) <= version]
    after = [one for one in read if version_tuple(one) >= version]
    return (before or read)[-1 if before else 0], (after or read)[0 if after else -1]


def _in_force(spans: Sequence[Mapping[str, Any]], rules: str) -> Mapping[str, Any] | None:
    version = version_tuple(rules)
    for span in spans:
        if version >= version_tuple(span["since"]) and not ("until" in span
                                                             and version >= version_tuple(span["until"])):
            return {key: value for key, value in span.items() if key not in ("since", "until")}
    return None


def _fact(spans: Sequence[Mapping[str, Any]], rules: str) -> Mapping[str, Any] | None:
    """What holds in a release. Between two that were read, whatever either of them takes; before the first, what the
    first list that names it says."""
    if spans and version_tuple(rules) < version_tuple(_read_ends()[0]):
        return _in_force(spans, spans[0]["since"])
    one, other = (_in_force(spans, version) for version in _neighbours(rules))
    if one is None or other is None or one == other:
        return one or other
    if one["kind"] != other["kind"]:
        return {"kind": "any", "optional": True}
    both: dict[str, Any] = {key: value for key, value in one.items() if other.get(key) == value}
    if "choices" in one and "choices" in other:
        both["choices"] = [*one["choices"], *(choice for choice in other["choices"] if choice not in one["choices"])]
    return both


def _option(span: Mapping[str, Any] | None, name: str) -> Option | None:
    if span is None:
        return None
    facts = dict(span)
    if "choices" in facts:
        facts["choices"] = tuple(facts["choices"])
    by_hand = compiled("options")["always"].get(name, {})
    if "names" in by_hand and facts["kind"] == "any":
        # `auto` is what leaving the option out means.
        choices = (*compiled("options")["names"][by_hand["names"]], "AUTO")
        return Option(**{**facts, "kind": "choice", "choices": choices, "any_case": True})
    always = by_hand if not facts.keys() & {"above", "min", "below", "max"} and "names" not in by_hand else {}
    return Option(**{**always, **facts})


def merged(facts: Iterable[tuple[str, Mapping[str, Mapping[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    """Spans from one table of facts a release, oldest first: releases that agree on an entry share a span."""
    found: dict[str, list[dict[str, Any]]] = {}
    for version, table in facts:
        for name, fact in table.items():
            spans = found.setdefault(name, [])
            plain = {key: value for key, value in fact.items() if key != "keys_of"}
            if spans and "until" not in spans[-1] and {k: v for k, v in spans[-1].items() if k != "since"} == plain:
                continue
            if spans and "until" not in spans[-1]:
                spans[-1]["until"] = version
            spans.append({"since": version, **plain})
        for name, spans in found.items():
            if name not in table and "until" not in spans[-1]:
                spans[-1]["until"] = version
    return dict(sorted(found.items()))
