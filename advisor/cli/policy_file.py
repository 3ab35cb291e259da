"""Finds and reads the policy file: `.specadvise.yaml`, upward from a config, or the one that `--policy` names."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from advisor.checks.suppression import PolicyFile
from profiles import mistakes
from profiles.errors import InputError
from profiles.schema import shown
from profiles.yaml_lines import KeyPath, LinedYaml, read_yaml

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

POLICY_NAME = ".specadvise.yaml"


@lru_cache(maxsize=4096)
def find_policy(folder: Path) -> Path | None:
    """The nearest policy file in a folder or above it, None where there is none.

    A repository's root (a folder with `.git`) is the last one looked at.
    """
    for place in (folder, *folder.parents):
        candidate = place / POLICY_NAME
        if os.path.lexists(candidate):
            return candidate
        if os.path.lexists(place / ".git"):
            return None
    return None


@lru_cache(maxsize=64)
def load_policy(path: Path, name: str) -> PolicyFile:
    """The policy of a file; `name` is what messages call it. InputError names each mistake with its line."""
    # Most runs have no policy: its model is built where there is one.
    from profiles.policy import Policy

    document = read_yaml(path)
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise InputError(f"{name}:1: the policy is {mistakes.given(value)}: expected a mapping with `severities` or "
                         "`ignore`; see docs/check.md")
    try:
        policy = Policy.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False)[:12]
        sentences = [_sentence(detail, document, name) for detail in details]
        raise InputError("\n".join(dict.fromkeys(sentences))) from None
    lines: dict[KeyPath, int] = {path: line for path, line in document.lines.items() if len(path) == 2}
    # The model's keys are codes in capitals, the file may have them in any case.
    lines.update({(section, key.strip().upper()): line for (section, key), line in list(lines.items())
                  if section == "severities" and isinstance(key, str)})
    return PolicyFile(policy, name, lines)


def _sentence(detail: ErrorDetails, document: LinedYaml, name: str) -> str:
    place, kind, given = mistakes.place_of(detail), detail["type"], detail["input"]
    line = document.line(place)
    where = name if line is None else f"{name}:{line}"
    if kind == "extra_forbidden":
        expected = "code, reason, until or paths" if place[0] == "ignore" else "severities or ignore"
        return f"{where}: the policy has no field {shown(place[-1])}: expected {expected}"
    if kind == "missing":
        return f"{where}: {mistakes.dotted(place)} is missing: every ignore needs a code and a reason"
    if kind == "string_pattern_mismatch":
        return (f"{where}: {shown(given)} is no rule's code: expected SPD and three digits; `specadvise rules` lists "
                "them")
    said = mistakes.own_sentence(detail) or f"expected {mistakes.expected(detail)}"
    return f"{where}: {mistakes.dotted(place)} is {mistakes.given(given)}: {said}"
