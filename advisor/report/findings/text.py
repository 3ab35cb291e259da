"""Plain text: a clickable `file:line: severity CODE key`, what is wrong and what to do below it, and one verdict line
a config. A config with nothing to say takes that one line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from advisor.checks.finding import CheckResult, Finding
from advisor.report.wording import plain

_STYLES = {"error": "1;31", "warn": "33", "info": "36", "pass": "32", "fail": "1;31", "dim": "2"}


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """The results for a terminal or a log; lines are wrapped only where `width` is given."""

    def styled(text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if color else text

    lines: list[str] = []
    for result in results:
        for finding in result.findings:
            where = f" {plain(finding.where)}" if finding.where else ""
            head = f"{styled(finding.severity, finding.severity)} {finding.code}{where}"
            lines.append(f"{place(result, finding)}: {head}")
            lines += _wrapped(plain(finding.message), "    ", width)
            lines += _wrapped(plain(finding.remedy), "    -> ", width)
        lines += [styled(line, "dim") for note in result.notes for line in _wrapped(plain(note), "note: ", width)]
        lines.append(f"{plain(result.label)}: {styled(result.verdict, result.verdict)}, {counts(result)}, "
                     f"for {judged_for(result)}")
    return "\n".join(lines) + "\n"


def judged_for(result: CheckResult) -> str:
    """The release, and who stated it where that was not the one who asked: `vLLM 0.32.0, the installed one`."""
    return plain(f"vLLM {result.vllm_version}" + (f", {result.version_from}" if result.version_from else ""))


def place(result: CheckResult, finding: Finding) -> str:
    """`file:line`, or the file alone."""
    name = plain(result.name)
    return name if finding.line is None else f"{name}:{finding.line}"


def counts(result: CheckResult) -> str:
    """How many findings of each severity: `1 error, 2 warnings`, `no findings`."""
    severities = [finding.severity for finding in result.findings]
    words = {"error": ("error", "errors"), "warn": ("warning", "warnings"), "info": ("info", "info")}
    found = [f"{severities.count(severity)} {forms[severities.count(severity) != 1]}"
             for severity, forms in words.items() if severity in severities]
    if result.suppressed:
        found.append(f"{len(result.suppressed)} suppressed")
    return ", ".join(found) or "no findings"


def _wrapped(text: str, first: str, width: int | None) -> list[str]:
    if width is None:
        return [first + text]
    return textwrap.wrap(text, max(width, 40), initial_indent=first, subsequent_indent=" " * len(first),
                         break_long_words=False, break_on_hyphens=False)
