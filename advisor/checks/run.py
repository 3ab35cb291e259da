"""Runs every rule over a subject."""

from __future__ import annotations

from advisor.checks.finding import CheckResult, Finding, Severity, verdict_of, worst_first
from advisor.checks.measured import weighed
from advisor.checks.registry import all_rules
from advisor.checks.rule import Fault, Rule
from advisor.checks.subject import Subject
from profiles.yaml_lines import KeyPath

_LONGEST_MESSAGE, _LONGEST_REMEDY = 470, 220


def run(subject: Subject) -> tuple[Finding, ...]:
    """All findings, worst first. Suppressions are not applied here."""
    return worst_first(_judged(subject)[0])


def _judged(subject: Subject) -> tuple[list[Finding], list[str]]:
    """Findings, and a note for each rule that failed: one rule's mistake must not silence the others."""
    findings: list[Finding] = []
    failed: list[str] = []
    for rule in all_rules():
        try:
            faults = [weighed(fault, subject) for fault in rule.check(subject)]
            found = [_finding(rule, fault, subject) for fault in faults if fault is not None]
        except Exception as error:
            failed.append(f"{rule.code} ({rule.title}) could not be judged: {type(error).__name__}: "
                          f"{str(error)[:200]}; that is a mistake of this tool, please report it")
            continue
        findings += found
    return findings, failed


def check(subject: Subject, fail_on: Severity = "error") -> CheckResult:
    """Findings, verdict and notes of one config."""
    judged, failed = _judged(subject)
    findings = worst_first(judged)
    return CheckResult(
        name=subject.config.name,
        findings=findings,
        verdict=verdict_of(findings, fail_on),
        vllm_version=subject.release.version,
        rules_version=subject.release.rules,
        checked=tuple(rule.code for rule in all_rules()),
        notes=(*subject.config.notes, *_notes(subject), *failed),
        part=subject.config.part,
        fail_on=fail_on,
    )


def dotted(path: KeyPath) -> str:
    """A key path as findings print it: `speculative-config.num_speculative_tokens`, `cudagraph-capture-sizes.0`."""
    return ".".join(map(str, path))


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most - 4]} ..."


def _finding(rule: Rule, fault: Fault, subject: Subject) -> Finding:
    """What names of any length a config holds, a finding stays short enough for a pipeline's log."""
    return Finding(
        code=rule.code,
        severity=fault.severity or rule.severity,
        family=rule.family,
        message=_clipped(fault.message, _LONGEST_MESSAGE),
        remedy=_clipped(fault.remedy or rule.remedy, _LONGEST_REMEDY),
        where=dotted(fault.where),
        line=subject.config.line(fault.where),
        source=rule.source,
    )


def _notes(subject: Subject) -> list[str]:
    release = subject.release
    notes = []
    if not release.known:
        notes.append(f"vLLM {release.version} is not a release known here: the rules of {release.rules} are applied")
    for facts in (subject.target, subject.draft):
        if facts is not None and facts.problem is not None:
            notes.append(f"{facts.problem}; rules that need this model were passed over")
    return notes
