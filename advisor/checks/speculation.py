"""The speculation a config asks for, whatever its release calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiles.yaml_lines import KeyPath

if TYPE_CHECKING:
    from advisor.checks.subject import Subject


@dataclass(frozen=True)
class Speculation:
    """One reading of `speculative-config`, of the separate options before 0.8, and of the `spec-*` short cuts."""

    method: str | None
    """Name as in `profiles.methods`; None where it cannot be told (an unknown name, a head of unknown kind)."""
    stated_method: str | None
    """As written; None where it is left to the engine."""
    k: int | None
    """num_speculative_tokens; None where it is left out or no whole number."""
    model: str | None
    """Draft or head, as written."""
    settings: Mapping[str, Any]
    """Keys of speculative-config (underscores); options of releases before 0.8 under the keys that replaced them."""
    paths: Mapping[str, KeyPath]
    """Key of `settings` to its key path in the config."""

    def path(self, key: str) -> KeyPath:
        """Where a key of `settings` stands, or where the speculation itself does."""
        return self.paths.get(key) or self.paths.get("", ("speculative-config",))


def read_speculation(subject: Subject) -> Speculation | None:
    """The speculation of a config, or None where it asks for none."""
    raise NotImplementedError
