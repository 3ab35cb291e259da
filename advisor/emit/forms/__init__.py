"""The forms in which a server is deployed: one a file here, each with `TITLE`, `FILES` and `write(serving)`.

`write` is pure and gives `Written`: the form's FILES by name, all of them written beside vllm.yaml. Adding a form is
adding a file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.emit.serving import Written
    from advisor.record import Record


def form_names() -> tuple[str, ...]:
    """Every form, in alphabetical order. None is imported: the command line's help asks for this."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])))


def form(name: str) -> ModuleType:
    return importlib.import_module(f"advisor.emit.forms.{name}")


def write_forms(record: Record, names: Iterable[str]) -> dict[str, Written]:
    """The named forms of a record's deployment, by name, each once.

    Raises:
        InputError: a form cannot express this deployment; the message says why and what to do.
    """
    from advisor.emit.serving import serving_of

    chosen = tuple(dict.fromkeys(names))
    if not chosen:
        return {}
    serving = serving_of(record)
    return {name: form(name).write(serving) for name in chosen}
