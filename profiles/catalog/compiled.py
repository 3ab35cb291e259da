"""Readable YAML sources in `data/`, and the compact JSON compiled from them that the command line reads.

Parsing the YAML takes half a second, the compiled form some milliseconds; a test holds the two equal.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from profiles.errors import InputError

DATA = Path(__file__).parent / "data"
COMPILED = DATA / "compiled"


@cache
def compiled(name: str) -> Any:
    """The compiled document `name` (gpus, models, mtp, options, releases), parsed once. Callers must not change it.

    Raises:
        InputError: the file is missing or damaged, that is, the installation is.
    """
    path = COMPILED / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"the catalog file {path} cannot be read ({error}): expected compiled JSON; reinstall the "
            "package, or rebuild it with `python -m profiles.catalog.compile`"
        ) from error
