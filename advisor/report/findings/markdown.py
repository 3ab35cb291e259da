"""Markdown for a step summary or a pull request: the verdict, then a table of findings for each config."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.checks.finding import CheckResult
from advisor.report.findings.text import counts, judged_for
from advisor.report.renderers.markdown import escape, table
from advisor.report.tables import Table
from advisor.report.wording import plain


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """Markdown; `width` and `color` do not apply."""
    return "\n\n".join(part for result in results for part in _config(result)) + "\n"


def _config(result: CheckResult) -> list[str]:
    parts = [f"### specadvise check: {result.verdict}, {escape(plain(result.label))}",
             f"{counts(result)}; {escape(judged_for(result))}; {len(result.checked)} rules."]
    if result.findings:
        rows = tuple(
            (f.severity, f.code, plain(f.where) + (f" (line {f.line})" if f.line is not None else ""),
             plain(f.message), plain(f.remedy))
            for f in result.findings
        )
        strong = frozenset(i for i, f in enumerate(result.findings) if f.severity == "error")
        parts.append(table(Table(("", "Code", "Where", "What is wrong", "What to do"), rows, strong=strong)))
    if result.suppressed:
        parts.append("\n".join(
            f"- suppressed: {s.finding.severity} {s.finding.code} ({escape(plain(s.reason))}; {escape(plain(s.by))})"
            for s in result.suppressed
        ))
    if result.notes:
        parts.append("\n".join(f"- {escape(plain(note))}" for note in result.notes))
    return parts
