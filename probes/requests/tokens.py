"""Counting tokens of a text: by the target's own tokenizer, or from characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from probes.requests.shapes import encodable
from probes.requests.texts import estimated_tokens
from profiles.errors import InputError

CountTokens = Callable[[str], float]


def counter(folder: Path | None) -> CountTokens:
    """The tokenizer in a model's folder (tokenizer.json), or the estimate from characters. No code of the model runs.

    InputError where the folder holds none or it cannot be read.
    """
    if folder is None:
        return estimated_tokens
    path = folder if folder.is_file() else folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"--tokenizer {folder}: there is no tokenizer.json in it; name the folder of the target model")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputError("--tokenizer needs the tokenizers library: pip install 'specadvise[logs]'") from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises Exception itself.
        raise InputError(f"{path} is no tokenizer ({str(error)[:120]}): fetch it again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> float:
        return float(len(tokenizer.encode(encodable(text), add_special_tokens=False).ids))

    return count
