"""The base of every document that crosses a border, and the one way a number crosses it.

A quantity is never a bare float at a border: its unit is in the field's NAME (`draft_step_ms`), its interval,
sample size and source travel with it.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from enum import Enum
from functools import cache
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

SCHEMA_VERSION = 1
"""Version of record.json and evidence.json. Raise it when a reader of the old shape would misread the new one."""


FROM_A_FILE: Final = {"from": "a file"}
"""`context` of a validation whose document somebody may have edited."""


class Schema(BaseModel):
    """Immutable, refuses unknown keys and numbers that are not finite; a field's docstring is its help, JSON-schema
    text and docs entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=(),
                              allow_inf_nan=False)

    @model_validator(mode="after")
    def _as_read(self, info: ValidationInfo) -> Schema:
        if info.context is FROM_A_FILE:
            self.refuse_contradiction()
        return self

    def refuse_contradiction(self) -> None:
        """ValueError where what a file says cannot be true together. Asked of files alone (`FROM_A_FILE`): what was
        just measured is written down as it was seen.

        Here: a field NAME lies between NAME_low and NAME_high, wherever a document has them.
        """
        for name in _with_interval(type(self)):
            found = (getattr(self, f"{name}_low"), getattr(self, name), getattr(self, f"{name}_high"))
            lists = isinstance(found[1], tuple)
            for low, value, high in zip(*found, strict=False) if lists else (found,):
                refuse_outside(name, low, value, high)


@cache
def _with_interval(model: type[Schema]) -> tuple[str, ...]:
    fields = model.model_fields
    return tuple(name for name in fields if f"{name}_low" in fields and f"{name}_high" in fields)


_NOISE = 1e-6
"""Share by which a number may exceed its own bound: what is left of rounding."""


def refuse_outside(name: str, low: float | None, value: float | None, high: float | None) -> None:
    """ValueError where an interval is upside down, or does not hold its own value. None is open, or not known."""
    if low is not None and high is not None and low > high:
        raise ValueError(f"the interval of {name}, {low:.10g} to {high:.10g}, is upside down")
    if value is None:
        return
    if (low is not None and value < low - _NOISE * abs(low)) or (
            high is not None and value > high + _NOISE * abs(high)):
        ends = f"at least {low:.10g}" if high is None else f"at most {high:.10g}" if low is None else (
            f"from {low:.10g} to {high:.10g}")
        raise ValueError(f"{name} is {value:.10g}, outside of its own interval: expected a number {ends}")


def shown(value: object) -> str:
    """A value as an error sentence quotes it: enough to recognise it, never pages of it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def counted(number: float, noun: str) -> str:
    """`1 running request`, `2,500 running requests`."""
    return f"{number:,.10g} {noun}{'' if number == 1 else 's'}"


def as_sentence(text: str) -> str:
    """The text with a capital at its beginning, where that is no name (vLLM, draft_model, max-model-len, eagle3)."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+(?=[ ,]|$)", text) else text


# --- numbers -------------------------------------------------------------------------------------------------------
# Every number that crosses a border is one of these: finite, no boolean, and within what a deployment can have. The
# upper bounds are far beyond any machine; they are there so that a slip (a unit, a stray exponent) is said at the
# border instead of overflowing far from it.
def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("boolean_number", "a number, not true or false")
    return value


number = BeforeValidator(_no_boolean)
"""Booleans are integers to Python, not to a user: put this behind the bounds of every number."""

MAX_TOKENS = 10**8
MAX_CONCURRENCY = 10**6
MAX_SECONDS = 10**7
MAX_GIB = 10**5
MAX_COUNT = 10**15
MAX_K = 64
MAX_TEMPERATURE = 5
"""Of sampling; engines take at most 2, and a slip in the unit is far above."""

FIRST_YEAR = 2020
"""No engine of this kind ran before."""


def moment_of(text: str) -> datetime | None:
    """The moment that an ISO 8601 text names, UTC where it states no zone; None where it is empty. ValueError for any
    other text."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{shown(text)} is no time: expected one such as 2027-01-31T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def _moment(text: str) -> str:
    found = moment_of(text)
    if found is not None and found.year < FIRST_YEAR:
        raise ValueError(f"{shown(text)} is before {FIRST_YEAR}: expected the time at which it was written")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
"""When a document was made: UTC, ISO 8601; empty where nobody says."""
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63), number]
"""Any whole number, such as a seed."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT), number]
"""How many of something, or bytes."""
Amount = Annotated[float, Field(ge=0, le=MAX_COUNT), number]
"""A counter or a rate: Prometheus keeps counts as floats."""
Share = Annotated[float, Field(ge=0, le=1), number]
"""A part of a whole."""
Temperature = Annotated[float, Field(ge=0, le=MAX_TEMPERATURE), number]
"""Of sampling; 0 is greedy."""
TokenLimit = Annotated[int, Field(ge=1, le=MAX_TOKENS), number]
"""A limit in tokens."""
MeanTokens = Annotated[float, Field(ge=1e-3, le=MAX_TOKENS), number]
"""A mean or percentile of lengths."""
RequestLimit = Annotated[int, Field(ge=1, le=MAX_CONCURRENCY), number]
"""A limit or load in requests."""
Running = Annotated[int, Field(ge=0, le=MAX_CONCURRENCY), number]
"""Requests in a step."""
Load = Annotated[float, Field(gt=0, le=MAX_CONCURRENCY), number]
"""A mean load: requests running at once, or requests per second."""
Gpus = Annotated[int, Field(ge=1, le=10_000), number]
"""Accelerators."""
Speculated = Annotated[int, Field(ge=0, le=MAX_K), number]
"""k; 0 is a step without a draft."""
Gib = Annotated[float, Field(gt=0, le=MAX_GIB), number]
"""Memory of one device."""
Watts = Annotated[float, Field(ge=0, le=10**5), number]
"""Power of one device."""
PositiveSeconds = Annotated[float, Field(gt=0, le=MAX_SECONDS), number]
"""A duration that is divided by or waited for."""
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS), number]
"""A duration that was seen."""
PositiveMs = Annotated[float, Field(gt=0, le=MAX_SECONDS * 1000), number]
"""A limit in milliseconds."""
Ms = Annotated[float, Field(ge=0, le=MAX_SECONDS * 1000), number]
"""Milliseconds that were seen."""


def _switch_or_number(value: object) -> object:
    # Looked at before any of the three is tried: three failures of a union would be three sentences for one mistake.
    if not isinstance(value, (bool, int, float)) or not abs(value) <= MAX_TOKENS:
        raise PydanticCustomError("setting", "a switch, or a number of at most {most}", {"most": f"{MAX_TOKENS:,}"})
    return value


Setting = Annotated[bool | int | float, BeforeValidator(_switch_or_number)]
"""A further key of a method, e.g. the value of prompt_lookup_max."""


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


Quantified = Annotated[float, Field(ge=-(10**18), le=10**18), number]


class Quantity(Schema):
    """One number with its interval (80 % unless the note says otherwise), sample size and source."""

    value: Quantified
    low: Quantified | None = None
    high: Quantified | None = None
    n: Count | None = None
    """How many independent observations stand behind it (requests, blocks, restarts: the note says which)."""
    source: Source
    note: str = ""

    @model_validator(mode="after")
    def _interval_stands_upright(self) -> Quantity:
        refuse_outside("value", self.low, None, self.high)
        return self

    def refuse_contradiction(self) -> None:
        refuse_outside("value", self.low, self.value, self.high)


def measured(
    value: float, low: float | None = None, high: float | None = None, n: int | None = None, note: str = ""
) -> Quantity:
    return Quantity(value=value, low=low, high=high, n=n, source=Source.MEASURED, note=note)


def modelled(value: float, low: float | None = None, high: float | None = None, note: str = "") -> Quantity:
    return Quantity(value=value, low=low, high=high, source=Source.MODELLED, note=note)


def _not_negative(found: Quantity) -> Quantity:
    if found.value < 0:
        raise ValueError(f"value is {found.value:g}: expected 0 or more")
    return found


def _share(found: Quantity) -> Quantity:
    if not 0 <= found.value <= 1:
        raise ValueError(f"value is {found.value:g}: expected a share from 0 to 1")
    return found


Seen = Annotated[Quantity, AfterValidator(_not_negative)]
"""What a probe saw of a load, a rate or a time."""
SeenShare = Annotated[Quantity, AfterValidator(_share)]
"""What a probe saw of a part of a whole."""
