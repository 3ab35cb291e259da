"""The base of every document that crosses a border, and the one way a number crosses it.

A quantity is never a bare float at a border: its unit is in the field's NAME (`draft_step_ms`), its interval,
sample size and source travel with it.
"""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, ConfigDict, model_validator

SCHEMA_VERSION = 1
"""Version of record.json and evidence.json. Raise it when a reader of the old shape would misread the new one."""


class Schema(BaseModel):
    """Immutable, refuses unknown keys; a field's docstring is its help, JSON-schema text and docs entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class Source(str, Enum):
    """Where a number comes from, from strongest to weakest."""

    MEASURED = "measured"
    """Measured by this tool on the user's own hardware and traffic."""
    RECORDED = "recorded"
    """Read from something a running system had recorded: /metrics, a log, a saved result."""
    MODELLED = "modelled"
    """Computed from published facts by a stated model."""
    ASSUMED = "assumed"
    """Stated by nobody: a default, wide on purpose."""


class Quantity(Schema):
    """One number with its interval (80 % unless the note says otherwise), sample size and source."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    """How many independent observations stand behind it (requests, blocks, restarts: the note says which)."""
    source: Source
    note: str = ""

    @model_validator(mode="after")
    def _interval_holds_value(self) -> Quantity:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] is upside down")
        return self


def measured(
    value: float, low: float | None = None, high: float | None = None, n: int | None = None, note: str = ""
) -> Quantity:
    return Quantity(value=value, low=low, high=high, n=n, source=Source.MEASURED, note=note)


def modelled(value: float, low: float | None = None, high: float | None = None, note: str = "") -> Quantity:
    return Quantity(value=value, low=low, high=high, source=Source.MODELLED, note=note)
