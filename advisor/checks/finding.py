"""What the checklist says: findings, and the verdict over them. These cross the border to CI, so names stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from profiles.schema import Schema

Severity = Literal["error", "warn", "info"]
SEVERITIES: tuple[Severity, ...] = ("info", "warn", "error")
"""In rising order."""


class Finding(Schema):
    """One thing a rule says about a config."""

    code: str
    """The rule's code, SPD and three digits."""
    severity: Severity
    """error: refuses to start, crashes, or wrong output. warn: works, but slower, silently ignored or risky.
    info: worth knowing."""
    family: str
    """The rule's family, such as `vocabulary`."""
    message: str
    """What is wrong, with the values that make it so."""
    remedy: str
    """What to do about it."""
    where: str
    """Key path in the config, such as `speculative-config.num_speculative_tokens`; empty for the config as a whole."""
    line: int | None = None
    """Line of that key, from 1; None where the config has no text (a command line) or no such key."""
    source: str
    """Where the rule comes from: engine code, documentation or a public report."""


class Suppressed(Schema):
    """A finding that somebody decided to live with."""

    finding: Finding
    reason: str
    """Why, in their words."""
    by: str
    """Where they said so: `vllm.yaml:3`, or the policy file and line."""


class CheckResult(Schema):
    """All findings of one config, worst first, and what was checked."""

    name: str
    """The config as the user named it."""
    findings: tuple[Finding, ...] = ()
    verdict: Literal["pass", "fail"]
    """fail: a finding at or above the severity asked for."""
    vllm_version: str
    """The release as stated."""
    version_from: str = ""
    """Who stated it, as the end of a sentence: `as the file's own header says`; empty where whoever asked for the check
    did."""
    rules_version: str
    """The release whose rules were applied: the same one, or the nearest known."""
    checked: tuple[str, ...] = ()
    """Codes of the rules that ran."""
    notes: tuple[str, ...] = ()
    """What the reader should know beside the findings: an unknown release, a model that could not be read."""
    part: str = ""
    """Which server of the file, where one file holds several: `Deployment/llm, container vllm`."""
    fail_on: Severity = "error"
    """The severity from which on the verdict is fail."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings left out of `findings` and of the verdict, with the reasons."""

    @property
    def label(self) -> str:
        """File and part, as text formats print it."""
        return f"{self.name} ({self.part})" if self.part else self.name


def moved(result: CheckResult, lines: int) -> CheckResult:
    """The same result where so many lines were put above all that was checked."""
    found = tuple(
        finding if finding.line is None else finding.model_copy(update={"line": finding.line + lines})
        for finding in result.findings)
    return result.model_copy(update={"findings": found})


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity, then line, then code."""
    order = {severity: -rank for rank, severity in enumerate(SEVERITIES)}
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.line or 0, f.code, f.where)))


def verdict_of(findings: Iterable[Finding], fail_on: Severity = "error") -> Literal["pass", "fail"]:
    """fail where a finding is at or above `fail_on`."""
    least = SEVERITIES.index(fail_on)
    return "fail" if any(SEVERITIES.index(f.severity) >= least for f in findings) else "pass"
