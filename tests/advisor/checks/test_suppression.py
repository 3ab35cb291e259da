"""Ignore comments and policies: every decision counts with a reason, and says so where it cannot count."""

from __future__ import annotations

from datetime import date

import pytest

from advisor.checks.finding import CheckResult, Finding, Severity
from advisor.checks.serve_config import Ignore, read_ignores
from advisor.checks.suppression import Checked, PolicyFile, apply
from profiles.policy import Policy

KNOWN = frozenset({"SPD101", "SPD201", "SPD901", "SPD902", "SPD903", "SPD904"})
TODAY = date(2026, 11, 30)


def finding(code: str = "SPD101", severity: Severity = "error") -> Finding:
    return Finding(code=code, severity=severity, family="f", message="m", remedy="r", where="", line=3, source="s")


def result(*findings: Finding, fail_on: Severity = "error") -> CheckResult:
    return CheckResult(name="vllm.yaml", findings=findings, verdict="fail" if findings else "pass", vllm_version="0.32",
                       rules_version="0.32", fail_on=fail_on)


def policy(**sections: object) -> PolicyFile:
    lines = {("ignore", 0): 5, ("ignore", 1): 8, ("severities", "SPD101"): 2}
    return PolicyFile(Policy.model_validate(sections), ".specadvise.yaml", lines)


def one(checked: Checked) -> CheckResult:
    (settled,) = apply([checked], TODAY, KNOWN)
    return settled


def codes(settled: CheckResult) -> list[str]:
    return [f.code for f in settled.findings]


# --- comments
def test_an_ignore_with_a_reason_takes_the_finding_out_of_the_verdict_and_keeps_it_with_the_reason():
    settled = one(Checked(result(finding()), (Ignore("SPD101", "known", 2),)))
    assert (settled.verdict, settled.findings) == ("pass", ())
    (kept,) = settled.suppressed
    assert (kept.finding.code, kept.reason, kept.by) == ("SPD101", "known", "vllm.yaml:2")


def test_an_ignore_without_a_reason_does_not_count_and_says_so():
    settled = one(Checked(result(finding()), (Ignore("SPD101", "", 2),)))
    assert codes(settled) == ["SPD101", "SPD901"]
    assert settled.verdict == "fail"


@pytest.mark.parametrize("code", ["SPD999", "ALL", ""])
def test_an_ignore_that_names_no_rule_is_a_finding_on_its_line(code: str):
    settled = one(Checked(result(), (Ignore(code, "why", 7),)))
    assert [(f.code, f.line) for f in settled.findings] == [("SPD902", 7)]


def test_an_ignore_with_nothing_to_ignore_is_info():
    settled = one(Checked(result(finding()), (Ignore("SPD201", "why", 7),)))
    assert [(f.code, f.severity) for f in settled.findings] == [("SPD101", "error"), ("SPD903", "info")]


def test_a_comment_above_several_servers_is_used_if_one_of_them_needs_it():
    ignore = Ignore("SPD101", "why", 1)
    settled = apply([Checked(result(finding()), (ignore,)), Checked(result(), (ignore,))], TODAY, KNOWN)
    assert [codes(each) for each in settled] == [[], []]


@pytest.mark.parametrize(("line", "expected"), [
    ("# specadvise: ignore SPD104 the reason", [("SPD104", "the reason")]),
    ("k: 1  # specadvise: ignore spd104: the reason", [("SPD104", "the reason")]),
    ("# specadvise:ignore SPD104, SPD105 both", [("SPD104", "both"), ("SPD105", "both")]),
    ("# specadvise: ignore SPD104", [("SPD104", "")]),
    ("# specadvise: ignore", [("", "")]),
    ("# specadvise: ignore everything", [("EVERYTHING", "")]),
    ("# Written by specadvise 0.1.0 for vLLM 0.32.0.", []),
    ("model: a#specadvise: ignore SPD104 x", []),
])
def test_ignore_comments_are_read_as_people_write_them(line: str, expected: list[tuple[str, str]]):
    assert [(ignore.code, ignore.reason) for ignore in read_ignores("a: 1\n" + line)] == expected
    assert all(ignore.line == 2 for ignore in read_ignores("a: 1\n" + line))


# --- policy
def test_a_policy_sets_severities_and_the_verdict_follows():
    settled = one(Checked(result(finding()), policy=policy(severities={"SPD101": "warn"})))
    assert (settled.verdict, settled.findings[0].severity) == ("pass", "warn")
    raised = one(Checked(result(finding("SPD201", "info")), policy=policy(severities={"spd201": "error"})))
    assert raised.verdict == "fail"


@pytest.mark.parametrize("off", ["off", False, "OFF"])
def test_a_rule_turned_off_is_suppressed_and_named(off: object):
    settled = one(Checked(result(finding()), policy=policy(severities={"SPD101": off})))
    assert settled.findings == ()
    assert [(s.reason, s.by) for s in settled.suppressed] == [("turned off", ".specadvise.yaml:2")]


def test_an_accepted_finding_counts_until_its_last_day_and_not_a_day_longer():
    entry = {"code": "SPD101", "reason": "until the new draft", "until": "2026-11-30"}
    assert one(Checked(result(finding()), policy=policy(ignore=[entry]))).verdict == "pass"
    (late,) = apply([Checked(result(finding()), policy=policy(ignore=[entry]))], date(2026, 12, 1), KNOWN)
    assert codes(late) == ["SPD101", "SPD904"]
    assert late.verdict == "fail"
    said = ".specadvise.yaml:5 accepted SPD101 until 2026-11-30 (until the new draft): that day has passed."
    assert late.findings[1].message == said


def test_a_newer_decision_beside_an_expired_one_counts():
    entries = [{"code": "SPD101", "reason": "old", "until": "2026-01-01"}, {"code": "SPD101", "reason": "new"}]
    settled = one(Checked(result(finding(), finding()), policy=policy(ignore=entries)))
    assert [s.reason for s in settled.suppressed] == ["new", "new"]
    assert codes(settled) == ["SPD904"]


@pytest.mark.parametrize(("patterns", "path", "holds"), [
    ([], "a/b.yaml", True), (["a/*.yaml"], "a/b.yaml", True), (["b/*"], "a/b.yaml", False),
    (["deploy/**/*.yaml"], "deploy/vllm.yaml", True), (["deploy/**/*.yaml"], "deploy/eu/vllm.yaml", True),
    (["deploy/**/*.yaml"], "other/vllm.yaml", False),
])
def test_patterns_say_which_configs_an_entry_holds_for(patterns: list[str], path: str, holds: bool):
    entry = {"code": "SPD101", "reason": "why", "paths": patterns}
    settled = one(Checked(result(finding()), policy=policy(ignore=[entry]), path=path))
    assert (settled.verdict == "pass") is holds


def test_what_a_policy_decides_in_vain_is_said_once_for_all_configs():
    decided = policy(severities={"SPD888": "warn"},
                     ignore=[{"code": "SPD201", "reason": "x"}, {"code": "SPD777", "reason": "y"}])
    settled = apply([Checked(result(), policy=decided), Checked(result(), policy=decided)], TODAY, KNOWN)
    assert [codes(each) for each in settled] == [["SPD902", "SPD902", "SPD903"], []]
    assert "the 2 configs checked here" in settled[0].findings[-1].message


def test_a_policy_may_silence_the_findings_about_ignores_too():
    settled = one(Checked(result(), (Ignore("SPD201", "why", 1),), policy=policy(severities={"SPD903": "off"})))
    assert settled.findings == ()
