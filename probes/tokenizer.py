"""The fingerprint of a tokenizer: whether two models speak the same tokens, without running either's code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiles.catalog.shapes import TokenizerFingerprint
from profiles.errors import InputError
from profiles.json_text import json_problem

MAX_BYTES = 256 * 2**20


def sha256_of(value: object) -> str:
    """sha256 of canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read_json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES >> 20} MiB: expected a tokenizer file; fetch it again")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as JSON ({json_problem(error)}): expected a tokenizer file; fetch it "
            "again, or remove it to go on without"
        ) from error


def _vocabulary(vocab: object) -> list[list[object]]:
    """[id, token] sorted by id, however the file writes it: token to id (BPE), or [token, score] in order."""
    if isinstance(vocab, Mapping):
        return sorted([number, token] for token, number in vocab.items() if isinstance(number, int))
    if isinstance(vocab, list):
        return [[number, item[0] if isinstance(item, list) and item else item] for number, item in enumerate(vocab)]
    return []


def _merges(merges: object) -> list[list[str]]:
    """Pairs, whether written as pairs or as one string with a space."""
    if not isinstance(merges, list):
        return []
    return [
        item.split(" ", 1) if isinstance(item, str) else [str(part) for part in item]
        for item in merges
        if isinstance(item, (str, list))
    ]


def _added(tokens: object) -> list[list[object]]:
    """[id, content] sorted: special or not makes no difference to what an id means."""
    if isinstance(tokens, Mapping):
        return sorted(
            [int(number), entry.get("content")]
            for number, entry in tokens.items()
            if str(number).isdigit() and isinstance(entry, Mapping)
        )
    if isinstance(tokens, list):
        return sorted(
            [entry["id"], entry.get("content")]
            for entry in tokens
            if isinstance(entry, Mapping) and isinstance(entry.get("id"), int)
        )
    return []


def fingerprint(folder: Path, vocab_size: int, family: str | None = None) -> TokenizerFingerprint | None:
    """The tokenizer in a folder; None where it holds none and no family is known.

    Reads tokenizer.json; else vocab.json and merges.txt; else hashes tokenizer.model or tekken.json as they are.
    Hashes of different file kinds never agree, so equal hashes mean equal tokens, different ones may not.

    Args:
        vocab_size: the model's, padding included, which is what vLLM compares.

    Raises:
        InputError: a file is there and unreadable.
    """
    path = folder / "tokenizer.json"
    if path.is_file():
        document = _read_json(path)
        model = document.get("model") if isinstance(document, Mapping) else None
        if not isinstance(model, Mapping):
            raise InputError(
                f"{path} holds no `model`: expected a tokenizer file; fetch it again, or remove it to go on without"
            )
        added = _added(document.get("added_tokens")) or _added_of_config(folder)
        return TokenizerFingerprint(
            vocab_size=vocab_size,
            vocab_hash=sha256_of(_vocabulary(model.get("vocab"))),
            merges_hash=sha256_of(_merges(model.get("merges"))),
            added_tokens_hash=sha256_of(added),
            family=family,
        )
    if (folder / "vocab.json").is_file():
        merges = folder / "merges.txt"
        lines = (
            [
                line
                for line in merges.read_text(encoding="utf-8").splitlines()
                if line and not line.startswith("#version")
            ]
            if merges.is_file()
            else []
        )
        return TokenizerFingerprint(
            vocab_size=vocab_size,
            vocab_hash=sha256_of(_vocabulary(_read_json(folder / "vocab.json"))),
            merges_hash=sha256_of(_merges(lines)),
            added_tokens_hash=sha256_of(_added_of_config(folder)),
            family=family,
        )
    for name in ("tokenizer.model", "tekken.json"):
        path = folder / name
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return TokenizerFingerprint(
                vocab_size=vocab_size,
                vocab_hash=hashlib.sha256(path.read_bytes()).hexdigest(),
                added_tokens_hash=sha256_of(_added_of_config(folder)),
                family=family,
            )
    return TokenizerFingerprint(vocab_size=vocab_size, family=family) if family else None


def _added_of_config(folder: Path) -> list[list[object]]:
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return []
    document = _read_json(path)
    return _added(document.get("added_tokens_decoder")) if isinstance(document, Mapping) else []
