"""Reads saved evidence; one that another version would misread is refused, never guessed at."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from profiles.errors import InputError
from profiles.evidence import Evidence
from profiles.schema import SCHEMA_VERSION

MAX_BYTES = 256 * 1024 * 1024
"""Evidence of a long trial is a few megabytes."""


def load_evidence(path: Path) -> Evidence:
    """The evidence in `path`. InputError names the file, what is wrong, and what to do."""
    document = read_json(path, "evidence")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(
            f"{path}: evidence of schema_version {version!r}: this release of specadvise reads version "
            f"{SCHEMA_VERSION}; {_advice(version)}"
        )
    try:
        return Evidence.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise InputError(
            f"{path}: not evidence as `probe --save` or `trial --save` writes it: {place}: {first['msg']}; "
            "collect it again"
        ) from None


def _advice(version: object) -> str:
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        return "it was written by a newer one: update specadvise, or collect it again"
    if isinstance(version, int) and not isinstance(version, bool):
        return "it was written by an older one: collect it again with this one"
    return "it is not a file that `--save` wrote: collect it again"


def read_json(path: Path, what: str) -> dict[str, object]:
    """A JSON mapping from a file; InputError in one sentence otherwise."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: expected a file with {what}; name the file inside it")
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: expected a file with {what}; check the path") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; check its permissions") from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path} is larger than {MAX_BYTES // 2**20} MiB: expected a file with {what}; name the right file"
        )
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON ({error.msg}): expected a file with {what}") from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError(f"{path}: not JSON text: expected a file with {what}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON mapping with {what}")
    return document
