"""Published measurements of speculative decoding, as facts: one data file a publication, read when first asked for.

A data file states what every row of the publication shares once, then one row a line. The rows are numbers and
names as published; how the fields are to be read is said on `Measurement`. Whole publications share
`source_group`, by which anything fitted on these rows must be cross-validated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from profiles.errors import InputError

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One published number with its setup. None is: not stated by the publication."""

    id: str
    source_group: str
    """The publication; rows of one publication are never independent."""
    split: Literal["open", "rest"]
    """open: chains on vLLM and SGLang with a speed-up, for fitting. rest: other engines, trees, rows with holes,
    good for acceptance priors."""
    url: str | None
    locator: str
    """Table, figure or heading inside the publication."""
    gpu: str | None
    n_gpus: int | None
    tensor_parallel: int | None
    target: str | None
    target_params_b: float | None
    """Parameters in 10^9, as are the next two."""
    active_params_b: float | None
    moe: bool | None
    draft: str | None
    draft_params_b: float | None
    method: str
    engine: str | None
    engine_version: str | None
    dtype: str | None
    quantization: str | None
    k: int | None
    """Draft tokens a step; of a tree, all tokens verified."""
    tree: bool | None
    load_kind: Literal["batch_size", "concurrency", "qps"] | None
    load_value: float | None
    temperature: float | None
    task: str | None
    task_family: str | None
    prompt_len: int | None
    output_len: int | None
    acceptance_length: float | None
    """Mean tokens a step, bonus included."""
    acceptance_rate: float | None
    acceptance_rate_def: str | None
    """What the published rate is a rate of; publications differ."""
    per_position_acceptance: tuple[float, ...] | None
    """Unconditional, position 1 first."""
    metric: str
    """What the speed-up is a ratio of: output_throughput, tpot or e2e_latency."""
    baseline_value: float | None
    spec_value: float | None
    unit: str | None
    """Unit of the two values before."""
    speedup: float | None
    """Above 1: speculation was faster."""
    draft_ms: float | None
    """Draft time of one step (all k tokens), where the publication splits the step."""
    verify_ms: float | None
    """Verify time of one step, likewise."""
    quality: str
    """A: every input known and read from a table or vector figure. B: acceptance missing or one field unsure.
    C and D: more unsure. AL: acceptance length only."""
    read: str
    """How the number was read: table, vector (figure), digitised, approx or third_party."""
    flags: tuple[str, ...]
    tier: int | None
    sign_only: bool
    """The load is stated too loosely for the size of the speed-up to count; gain or loss does."""


_OPTIONAL = {field.name for field in fields(Measurement)} - {"id", "source_group"}


@cache
def measurements() -> tuple[Measurement, ...]:
    """Every published measurement, by publication and then in the order published. Read once, some 30 ms.

    Raises:
        InputError: a data file is missing or damaged, that is, the installation is.
    """
    rows: list[Measurement] = []
    for path in sorted(DATA.glob("*.json")):
        try:
            rows.extend(_rows(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"the measurements file {path} cannot be read ({error}): expected the publication, its shared fields "
                "and its rows as JSON; reinstall the package"
            ) from error
    if not rows:
        raise InputError(f"no measurements under {DATA}: expected one JSON file a publication; reinstall the package")
    return tuple(rows)


def _rows(document: dict[str, Any]) -> list[Measurement]:
    shared = dict.fromkeys(_OPTIONAL) | document["shared"] | {"source_group": document["publication"]}
    return [
        Measurement(**_frozen(shared | dict(zip(document["fields"], row, strict=True)))) for row in document["rows"]
    ]


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, so that a row can be hashed and shared."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
