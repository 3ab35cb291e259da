"""The fitted and published constants of the cost model, read once."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=1)
def constants() -> dict[str, Any]:
    """advisor/cost/constants.json: every constant with its source."""
    loaded: dict[str, Any] = json.loads(files("advisor.cost").joinpath("constants.json").read_text(encoding="utf-8"))
    return loaded


def constant(name: str) -> float:
    """One constant's value."""
    return float(constants()[name]["value"])
