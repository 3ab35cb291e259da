"""Model folders on disk: whether one is whole, and how one comes to be without ever being half."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GB = 1_000_000_000

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)


class PairError(Exception):
    """Something that the user can mend, said in one line."""


def is_whole(folder: Path) -> bool:
    """Whether a folder holds everything that the engine loads, with weights of their full size."""
    if not all((folder / name).is_file() for name in (CONFIG, WEIGHTS, *TOKENIZER_FILES)):
        return False
    from safetensors import SafetensorError, safe_open

    try:
        # Opening compares the header's offsets with the size of the file and reads no tensor.
        with safe_open(folder / WEIGHTS, framework="np"):
            return True
    except SafetensorError:
        return False


def describe(folder: Path) -> str:
    """The folder's name and what it takes on disk."""
    size = sum(file.stat().st_size for file in folder.iterdir())
    return f"{folder.name}: {size / GB:.2f} GB in {folder}"


def demand_packages(*names: str) -> None:
    """Say at once which packages are missing, and not as an import that fails half way."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise PairError(f"missing packages: {', '.join(missing)} (run: pip install {' '.join(missing)})")


def demand_space(parent: Path, needed_bytes: int, what: str) -> None:
    free = shutil.disk_usage(parent).free
    if free < needed_bytes:
        raise PairError(
            f"{what} needs {needed_bytes / GB:.2f} GB in {parent}, where {free / GB:.2f} GB are "
            "free: make room or choose another --out"
        )


@contextmanager
def staged(final: Path, like: Path | None = None) -> Iterator[Path]:
    """A folder to write into, which becomes `final` at the end and vanishes on any failure.

    With `like`, it starts with the tokenizer of that folder: every model of a pair has the same.
    """
    part = final.parent / f".{final.name}.{os.getpid()}.part"
    part.mkdir(parents=True)
    try:
        if like is not None:
            for name in TOKENIZER_FILES:
                shutil.copyfile(like / name, part / name)
        yield part
        # What stands there was found not to be whole, or nobody would be writing it again.
        if final.exists():
            shutil.rmtree(final)
        part.rename(final)
    finally:
        shutil.rmtree(part, ignore_errors=True)
