"""What no published measurement says of a step's cost: assumed numbers with their sources, read once."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=1)
def constants() -> dict[str, Any]:
    """advisor/cost/constants.json: every number with its source."""
    loaded: dict[str, Any] = json.loads(files("advisor.cost").joinpath("constants.json").read_text(encoding="utf-8"))
    return loaded
