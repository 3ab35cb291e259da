"""Synthetic check results: what the formats are shown in their tests."""

from __future__ import annotations

from advisor.checks.finding import CheckResult, Finding, Severity, Suppressed


def finding(
    code: str = "SPD101",
    severity: Severity = "error",
    message: str = "the target has 32,000 tokens, the draft 32,064",
    line: int | None = 7,
    where: str = "speculative-config.model",
    remedy: str = "take a draft of the same vocabulary",
) -> Finding:
    return Finding(code=code, severity=severity, family="vocabulary", message=message, remedy=remedy, where=where,
                   line=line, source="vllm/config/speculative.py (0.32)")


def failed(name: str = "deploy/vllm.yaml") -> CheckResult:
    return CheckResult(
        name=name,
        findings=(finding(), finding("SPD201", "warn", "k is 9", 9), finding("SPD301", "info", "a hint", None, "")),
        verdict="fail",
        vllm_version="0.32.0",
        rules_version="0.32.0",
        checked=("SPD101", "SPD201", "SPD301", "SPD401", "SPD501"),
        notes=("the draft was not found",),
        suppressed=(Suppressed(finding=finding("SPD401", "warn", "odd", 3), reason="known | accepted",
                               by=f"{name}:3"),),
    )


def passed(name: str = "ok.yaml") -> CheckResult:
    return CheckResult(name=name, verdict="pass", vllm_version="0.32.0", rules_version="0.32.0",
                       checked=("SPD101", "SPD201"))


def hostile() -> CheckResult:
    """Names and messages that try to break out of each format."""
    evil = "a::b,c%0A\n::error::x\x1b[31m|<b>]]>&\"'\u202e\ud800`*_"
    return CheckResult(
        name="dir, with:odd%name\n.yaml",
        findings=(finding(message=evil, where=evil, remedy=evil),),
        verdict="fail",
        vllm_version="0.32.0",
        rules_version="0.32.0",
        checked=("SPD101",),
        notes=(evil,),
        part=evil,
    )
