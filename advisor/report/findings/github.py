"""GitHub annotations: workflow commands that put each finding on its line of the pull request.

GitHub shows ten annotations of a kind and step, so the worst come first; the plain lines below are for the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.checks.finding import CheckResult, Finding
from advisor.report.findings.text import counts
from advisor.report.wording import plain

_LEVELS = {"error": "error", "warn": "warning", "info": "notice"}


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """One workflow command a finding, then one line a config; `width` and `color` do not apply."""
    lines = [_command(result, finding) for result in results for finding in result.findings]
    for result in results:
        lines += [f"::notice file={_property(result.name)},title=specadvise::{_data(note)}" for note in result.notes]
    # The runner reads a command anywhere at the start of a line: nothing of a name may begin one.
    lines += [f"specadvise: {_data(result.label)}: {result.verdict}, {counts(result)}" for result in results]
    return "\n".join(lines) + "\n"


def _command(result: CheckResult, finding: Finding) -> str:
    properties = [f"file={_property(result.name)}"]
    if finding.line is not None:
        properties.append(f"line={finding.line}")
    where = f" {finding.where}" if finding.where else ""
    properties.append("title=" + _property(finding.code + where))
    return f"::{_LEVELS[finding.severity]} {','.join(properties)}::" + _data(f"{finding.message}\n{finding.remedy}")


def _data(text: str) -> str:
    text = "\n".join(plain(line) for line in text.splitlines())
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
