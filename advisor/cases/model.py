"""The fitted numbers a prediction reads: step-time constants, acceptance prior, residual model. JSON, no code in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from advisor.cost.fitted import fitted_constants


@dataclass(frozen=True)
class Model:
    """What `make fit` writes and prediction evaluates."""

    constants: Mapping[str, float]
    """Step-time constants by name, as `advisor.cost.physics` wants them."""
    acceptance: Mapping[str, Any]
    residual: Mapping[str, Any]
    constant_log_sd: Mapping[str, float] = field(default_factory=dict)
    """How far the fit left each constant unknown (standard deviation of its logarithm); 0 where it is not named."""


def _read(package: str, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
    return loaded


@lru_cache(maxsize=1)
def shipped_model() -> Model:
    """The model of this release, from its data files."""
    physics = _read("advisor.cost", "physics.json")["constants"]
    return Model(
        constants=fitted_constants(),
        acceptance=_read("advisor.cases", "acceptance.json"),
        residual=_read("advisor.cases", "residual.json"),
        constant_log_sd={name: float(entry.get("log_sd", 0.0)) for name, entry in physics.items()},
    )
