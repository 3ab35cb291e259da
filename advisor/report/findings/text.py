"""Plain text: a line with place, severity and code for each finding, its remedy below it, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.checks.finding import CheckResult


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """The results for a terminal or a log."""
    lines: list[str] = []
    for result in results:
        for finding in result.findings:
            place = result.name if finding.line is None else f"{result.name}:{finding.line}"
            lines += [f"{place}: {finding.severity} {finding.code} {finding.message}", f"    {finding.remedy}"]
        lines += [f"note: {note}" for note in result.notes]
        severities = [finding.severity for finding in result.findings]
        counts = ", ".join(f"{severities.count(severity)} {severity}" for severity in ("error", "warn", "info"))
        lines.append(f"{result.name}: {result.verdict} ({counts}) for vLLM {result.vllm_version}")
    return "\n".join(lines)
