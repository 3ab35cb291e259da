"""The policy file `.specadvise.yaml`: what a team decided about the checklist, for all of its configs.

`specadvise check` finds it upward from each config. docs/policy.schema.json is exported from these fields.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from profiles.schema import Schema

Level = Literal["error", "warn", "info", "off"]


def _level(value: object) -> object:
    # YAML 1.1 reads `off` as false: people who write off mean off.
    return "off" if value is False else value.lower() if isinstance(value, str) else value


def _code(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _day(value: object) -> object:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise ValueError("expected a day such as 2027-01-31")
    if isinstance(value, (int, float)):
        raise ValueError("expected a day such as 2027-01-31")
    return value


Code = Annotated[str, BeforeValidator(_code), StringConstraints(pattern=r"^SPD\d{3}$")]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class PolicyIgnore(Schema):
    """One finding that is accepted, why, and until when."""

    code: Code
    """The rule, such as SPD104."""
    reason: Reason
    """Why it is accepted, for whoever reads this next."""
    until: Annotated[date, BeforeValidator(_day)] | None = None
    """Last day on which it counts, such as 2027-01-31; from the next day on the finding is back, and says so."""
    paths: tuple[str, ...] = ()
    """Configs it holds for, as patterns relative to this file (`deploy/**/*.yaml`); all of them when left out."""


class Policy(Schema):
    """Severities and accepted findings."""

    severities: dict[Code, Annotated[Level, BeforeValidator(_level)]] = Field(default_factory=dict)
    """Rule to the severity its findings get here: error, warn, info, or off."""
    ignore: tuple[PolicyIgnore, ...] = ()
    """Findings that are accepted."""

    @field_validator("ignore", mode="before")
    @classmethod
    def _nothing_is_none(cls, value: object) -> object:
        return () if value is None else value

    @field_validator("severities", mode="before")
    @classmethod
    def _empty_section(cls, value: object) -> object:
        return {} if value is None else value
