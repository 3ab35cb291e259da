"""All rules, by code. Adding a family is adding one file in `advisor/checks/rules/` with a tuple `RULES`."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from advisor.checks.rule import Rule
from profiles.errors import InputError

_FOLDER = Path(__file__).parent / "rules"


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code; a code that stands twice is a mistake of this program (ValueError)."""
    found: dict[str, Rule] = {}
    for module in pkgutil.iter_modules([str(_FOLDER)]):
        family = module.name.replace("_", "-")
        for rule in importlib.import_module(f"advisor.checks.rules.{module.name}").RULES:
            if rule.code in found:
                raise ValueError(f"two rules have the code {rule.code}: {found[rule.code].title!r} and {rule.title!r}")
            found[rule.code] = replace(rule, family=family)
    return tuple(found[code] for code in sorted(found))


def find_rule(code: str) -> Rule:
    """The rule of a code, in any case; InputError names near ones."""
    wanted = code.strip().upper()
    for rule in all_rules():
        if rule.code == wanted:
            return rule
    codes = [rule.code for rule in all_rules()]
    near = [known for known in codes if known[:4] == wanted[:4]] or codes
    raise InputError(f"there is no rule {code!r}: expected one of {', '.join(near)}; `specadvise rules` lists them")
