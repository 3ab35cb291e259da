"""The fitted step-time constants."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files


@lru_cache(maxsize=1)
def fitted_constants() -> dict[str, float]:
    """advisor/cost/physics.json by name; `make fit` writes it, with unit, usual value and source of each."""
    text = files("advisor.cost").joinpath("physics.json").read_text(encoding="utf-8")
    return {name: float(entry["value"]) for name, entry in json.loads(text)["constants"].items()}
