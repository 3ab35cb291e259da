"""What a trial has measured so far, on disk: written whole after every block, refused by another plan.

Holds evidence and the names of the blocks done: no prompt, no output, no token id.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from profiles.errors import InputError
from profiles.evidence import TrialEvidence
from profiles.json_text import json_problem, parse_json
from profiles.mistakes import first_mistake
from profiles.schema import SCHEMA_VERSION, Schema, shown

Write = Callable[[Path, str], object]
"""Puts a text in the place of a file; OSError or InputError where it cannot."""


def written(path: Path, text: str) -> None:
    """The simplest `Write`: half a file stays where it is broken off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class CheckpointDocument(Schema):
    """The file's shape."""

    schema_version: int = SCHEMA_VERSION
    kind: str = "trial-checkpoint"
    plan: str
    """Digest of the plan it belongs to."""
    done: dict[str, tuple[str, ...]]
    """Arm key to the keys of its finished blocks."""
    trial: TrialEvidence


@dataclass
class Checkpoint:
    """One checkpoint file. A disk that refuses it is told once to `note`; the trial goes on in memory."""

    path: Path
    digest: str
    note: Callable[[str], None]
    write: Write
    refused: str | None = field(default=None, init=False)
    """The system's reason while writes fail; None once one succeeds again."""
    _told: bool = field(default=False, init=False)

    def load(self) -> CheckpointDocument | None:
        """What an earlier run of the same plan left; None where there is none.

        InputError: it is unreadable, of another schema, or of another plan.
        """
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                # A pipe would wait for a writer for ever.
                raise InputError(f"the checkpoint {self.path} is no regular file: run without --resume")
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the checkpoint {self.path}: {json_problem(error)}; run without "
                             "--resume") from error
        document = self._document(text)
        if document.plan != self.digest:
            raise InputError(f"the checkpoint {self.path} belongs to another trial (deployment, prompts or a model "
                             "have changed since): run without --resume to start over, or name another --save file")
        return document

    def _document(self, text: str) -> CheckpointDocument:
        over = "run without --resume to start over"
        try:
            raw = parse_json(text, f"the checkpoint {self.path}")
        except InputError as error:
            raise InputError(f"{error}, or {over}") from error
        except json.JSONDecodeError as error:
            raise InputError(f"the checkpoint {self.path} is damaged: {over}") from error
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if version != SCHEMA_VERSION:
            raise InputError(f"the checkpoint {self.path} has schema version {shown(version)}, expected "
                             f"{SCHEMA_VERSION}: {over}")
        try:
            return CheckpointDocument.model_validate(raw)
        except ValidationError as error:
            raise InputError(f"the checkpoint {self.path} is damaged: {over} ({first_mistake(error)})") from error

    def save(self, done: dict[str, list[str]], trial: TrialEvidence) -> None:
        """What there is so far, in the place of what there was."""
        document = CheckpointDocument(plan=self.digest, done={a: tuple(b) for a, b in done.items()}, trial=trial)
        try:
            self.write(self.path, document.model_dump_json())
        except (OSError, InputError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            self.refused = getattr(cause, "strerror", None) or str(error)
            if not self._told:
                self._told = True
                self.note(f"cannot write the checkpoint {self.path}: {self.refused}; the trial goes on in memory, and "
                          "--resume will not know what comes from here on")
        else:
            self.refused = None

    def remove(self) -> None:
        """The trial is complete: nothing is left to resume."""
        with contextlib.suppress(OSError):
            self.path.unlink()
