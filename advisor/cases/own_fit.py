"""A user's own refit of the residual model: saved by `specadvise fit`, read by `predict` and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.cases.model import Model, shipped_model
from profiles.errors import InputError

SCHEMA = "specadvise-fit-1"


def model_with(path: str | None) -> Model:
    """The shipped model, its residual part replaced by a saved refit.

    Raises:
        InputError: the file cannot be read or is no refit.
    """
    model = shipped_model()
    if path is None:
        return model
    try:
        saved: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}): expected what `specadvise fit -o` wrote") from None
    if not isinstance(saved, dict) or saved.get("schema") != SCHEMA or not isinstance(saved.get("residual"), dict):
        raise InputError(f"{path}: is no refit of this tool: expected what `specadvise fit -o` wrote")
    return Model(model.constants, model.acceptance, {**model.residual, **saved["residual"]})
