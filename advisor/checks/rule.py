"""A rule: data for people and docs, one function for configs, and two examples that prove it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.checks.finding import Severity
from advisor.checks.subject import Subject
from profiles.yaml_lines import KeyPath


@dataclass(frozen=True)
class Fault:
    """What a rule's function found: a finding without what the rule itself knows."""

    where: KeyPath
    """Key path in the config; `()` for the config as a whole."""
    message: str
    """One or two sentences with the values that make it so."""
    severity: Severity | None = None
    """Where the consequence here differs from the rule's usual one."""
    remedy: str | None = None
    """Where what to do depends on the values."""
    thumb: bool = False
    """A rule of thumb about what speculation gains: it is weighed against what was measured (`checks.measured`), and
    said only where that does not refute it."""


@dataclass(frozen=True)
class Example:
    """A small config with all that a rule needs to judge it."""

    config: str
    """YAML of `vllm serve --config`."""
    vllm_version: str = "0.32.0"
    gpu: str = "H100"
    gpus: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model name in the config to its files: `config`, `generation`, `tokenizer` (contents of the JSON files). Names
    that the catalog knows need no entry."""


@dataclass(frozen=True)
class Rule:
    """One rule. Adding one is adding it to a file in `advisor/checks/rules/`."""

    code: str
    """SPD and three digits, never given to another rule."""
    title: str
    """What is wrong, in a few words."""
    why: str
    """What the engine does with such a config."""
    remedy: str
    """What to do about it, as findings print it unless the function knows better."""
    severity: Severity
    """The usual one; a function may differ where the consequence does."""
    source: str
    """Engine code, documentation or public report."""
    fails: Example
    passes: Example
    check: Callable[[Subject], Iterable[Fault]]
    releases: str = "all"
    """Releases it applies to, in words for the docs; the function asks `subject.release`."""
    family: str = ""
    """Filled from the registry file's name."""
