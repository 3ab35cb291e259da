"""Findings that come from no rule: about suppressions, images, and what changed since an advice was approved.

Rules look at one config; these look at a comment, a policy, an image or a record beside it, so they come after the
rules.
They have codes like rules, from SPD901 on, and stand in `specadvise rules` and the docs with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.checks.finding import Finding, Severity


@dataclass(frozen=True)
class Notice:
    """What is known of such a finding before it is found."""

    code: str
    title: str
    severity: Severity
    family: str
    why: str
    remedy: str
    source: str = "docs/check.md"

    def finding(
        self, message: str, *, where: str = "", line: int | None = None, severity: Severity | None = None
    ) -> Finding:
        """The finding, with the values that make it so."""
        message = message if message.endswith(".") else f"{message}."
        return Finding(code=self.code, severity=severity or self.severity, family=self.family, message=message,
                       remedy=self.remedy, where=where, line=line, source=self.source)


def all_notices() -> tuple[Notice, ...]:
    """Every notice, by code."""
    from advisor.checks import drift, image, suppression

    return tuple(sorted((*suppression.NOTICES, *image.NOTICES, *drift.NOTICES), key=lambda notice: notice.code))
