"""The registry of log formats: every module of this folder that holds a `FORMAT` or `FORMATS`.

Adding a format is adding a file: state how it is recognised, and where its columns stand.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from probes.requests.shapes import Format


@lru_cache(maxsize=1)
def formats() -> tuple[Format, ...]:
    """All formats, those to be asked first in front."""
    found: list[Format] = []
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        found += getattr(loaded, "FORMATS", ())
        if hasattr(loaded, "FORMAT"):
            found.append(loaded.FORMAT)
    return tuple(sorted(found, key=lambda one: (one.rank, one.name)))
