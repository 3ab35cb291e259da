"""JUnit XML, which every CI server shows: a suite for each config, a case for each rule that ran.

A rule fails where one of its findings is at or above the severity asked for; milder findings are the case's output,
suppressed ones are skipped cases with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from advisor.checks.finding import SEVERITIES, CheckResult, Finding
from advisor.report.findings.text import place
from advisor.report.wording import plain


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """One XML document; `width` and `color` do not apply."""
    document = JUnitXml("specadvise check")
    for result in results:
        document.add_testsuite(_suite(result))
    document.update_statistics()
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document.tostring().decode("utf-8")}'


@lru_cache(maxsize=1)
def _titles() -> dict[str, str]:
    from advisor.checks.registry import all_rules

    return {rule.code: rule.title for rule in all_rules()}


def _suite(result: CheckResult) -> TestSuite:
    suite = TestSuite(plain(result.label))
    suite.add_property("vllm_version", plain(result.vllm_version))
    if result.version_from:
        suite.add_property("version_from", plain(result.version_from))
    spoken = {f.code for f in result.findings} | {s.finding.code for s in result.suppressed}
    suite.add_testcases([_case(result, code) for code in sorted({*result.checked, *spoken})])
    if result.notes:
        suite.add_property("notes", "; ".join(plain(note) for note in result.notes))
    return suite


def _case(result: CheckResult, code: str) -> TestCase:
    title = _titles().get(code)
    case = TestCase(f"{code} {title}" if title else code, f"specadvise.{plain(result.label)}")
    least = SEVERITIES.index(result.fail_on)
    mild: list[str] = []
    outcomes: list[Any] = []
    for finding in result.findings:
        if finding.code != code:
            continue
        if SEVERITIES.index(finding.severity) < least:
            mild.append(_text(result, finding))
            continue
        failure = Failure(plain(finding.message), finding.severity)
        failure.text = _text(result, finding)
        outcomes.append(failure)
    if not outcomes:
        outcomes += [
            Skipped(f"suppressed: {plain(one.reason)} ({plain(one.by)})")
            for one in result.suppressed
            if one.finding.code == code
        ]
    if outcomes:
        case.result = outcomes
    if mild:
        case.system_out = "\n".join(mild)
    return case


def _text(result: CheckResult, finding: Finding) -> str:
    where = f" {plain(finding.where)}" if finding.where else ""
    return (f"{place(result, finding)}: {finding.severity} {finding.code}{where}\n{plain(finding.message)}\n"
            f"{plain(finding.remedy)}")
