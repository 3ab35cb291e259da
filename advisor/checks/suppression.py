"""What a team decided to live with: ignore comments in a config, and the policy file. Every decision needs a reason.

A decision that cannot count says so as a finding of its own: no reason, an unknown code, an expired day, nothing to
ignore. Those findings are applied to nobody's ignores: they can only be mended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from advisor.checks.finding import CheckResult, Finding, Suppressed, verdict_of, worst_first
from advisor.checks.notice import Notice
from advisor.checks.serve_config import Ignore

if TYPE_CHECKING:
    from profiles.policy import Policy, PolicyIgnore

FAMILY = "suppressions"

NO_REASON = Notice("SPD901", "An ignore without a reason", "warn", FAMILY,
                   "An ignore comment that says no reason does not count: the finding it was meant for stands.",
                   "Write the reason behind the code: `# specadvise: ignore SPD104 why it is accepted`.")
UNKNOWN = Notice("SPD902", "An ignore that names no rule", "warn", FAMILY,
                 "The comment or policy entry names a code that no rule has, so it ignores nothing.",
                 "Name one of the codes that `specadvise rules` lists, or remove it.")
UNUSED = Notice("SPD903", "An ignore with nothing to ignore", "info", FAMILY,
                "The rule has nothing to say here any more; the ignore would hide the next finding of its kind.",
                "Remove it.")
EXPIRED = Notice("SPD904", "An ignore whose day has passed", "warn", FAMILY,
                 "The policy accepted the finding until a day that is over: the finding counts again.",
                 "Mend what the finding says, or decide again and set a new day.")
NOTICES = (NO_REASON, UNKNOWN, UNUSED, EXPIRED)


@dataclass(frozen=True)
class PolicyFile:
    """A policy, and where its entries stand."""

    policy: Policy
    name: str
    """As messages name it."""
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)

    def where(self, *path: str | int) -> str:
        """`.specadvise.yaml:7`."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return f"{self.name}:{self.lines[path[:length]]}"
        return self.name


@dataclass(frozen=True)
class Checked:
    """One config's findings before anything is suppressed, and what may suppress them."""

    result: CheckResult
    ignores: tuple[Ignore, ...] = ()
    policy: PolicyFile | None = None
    path: str = ""
    """The config's path relative to the policy's folder, with slashes."""


def apply(checked: Sequence[Checked], today: date, known: Collection[str]) -> list[CheckResult]:
    """The results with severities and ignores applied, and with findings about ignores that do not count.

    Args:
        today: the day expiry is judged on.
        known: codes of all rules.
    """
    used: set[object] = set()
    results = [_one(one, today, known, used) for one in checked]
    notices = _about_ignores(checked, known, used)
    return [
        _settled(result, [*result.findings, *_levelled(notices.get(index, []), one.policy)], result.suppressed)
        for index, (one, result) in enumerate(zip(checked, results, strict=True))
    ]


def _levelled(findings: Iterable[Finding], policy: PolicyFile | None) -> Iterable[Finding]:
    for finding in findings:
        level = policy.policy.severities.get(finding.code) if policy is not None else None
        if level is None:
            yield finding
        elif level != "off":
            yield finding.model_copy(update={"severity": level})


def _one(one: Checked, today: date, known: Collection[str], used: set[object]) -> CheckResult:
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    policy = one.policy
    lapsed: dict[int, Finding] = {}
    comments = {ignore.code: ignore for ignore in reversed(one.ignores) if ignore.reason and ignore.code in known}
    for finding in one.result.findings:
        level = policy.policy.severities.get(finding.code) if policy is not None else None
        if policy is not None and level == "off":
            suppressed.append(Suppressed(finding=finding, reason="turned off",
                                         by=policy.where("severities", finding.code)))
            continue
        if level is not None and level != "off":
            finding = finding.model_copy(update={"severity": level})
        comment = comments.get(finding.code)
        if comment is not None:
            used.add((one.result.name, comment))
            suppressed.append(Suppressed(finding=finding, reason=comment.reason,
                                         by=f"{one.result.name}:{comment.line}"))
            continue
        accepted = _accepted(one, finding.code, today)
        for index, entry, expired in accepted:
            assert policy is not None  # noqa: S101 - entries come from it
            used.add((policy.name, index))
            if expired:
                lapsed[index] = EXPIRED.finding(
                    f"{policy.where('ignore', index)} accepted {entry.code} until {entry.until} ({entry.reason}): that "
                    "day has passed", line=finding.line)
        valid = next((found for found in accepted if not found[2]), None)
        if valid is None:
            findings.append(finding)
        else:
            assert policy is not None  # noqa: S101 - entries come from it
            suppressed.append(Suppressed(finding=finding, reason=valid[1].reason,
                                         by=policy.where("ignore", valid[0])))
    return _settled(one.result, [*findings, *lapsed.values()], suppressed)


def _accepted(one: Checked, code: str, today: date) -> list[tuple[int, PolicyIgnore, bool]]:
    """Policy entries for a code that hold for this config, and whether their day has passed."""
    entries = one.policy.policy.ignore if one.policy is not None else ()
    return [
        (index, entry, entry.until is not None and today > entry.until)
        for index, entry in enumerate(entries)
        if entry.code == code and holds_for(entry, one.path)
    ]


def holds_for(entry: PolicyIgnore, path: str) -> bool:
    """Whether an entry's patterns cover a path; `**/` also stands for no folder at all."""
    return not entry.paths or any(
        fnmatchcase(path, pattern) or fnmatchcase(path, pattern.replace("**/", "")) for pattern in entry.paths
    )


def _about_ignores(checked: Sequence[Checked], known: Collection[str], used: set[object]) -> dict[int, list[Finding]]:
    """Findings about ignores that do not count, by the index of the config they are shown with."""
    found: dict[int, list[Finding]] = {}
    seen: set[object] = set()
    for index, one in enumerate(checked):
        for ignore in one.ignores:
            key = (one.result.name, ignore)
            if key in seen:
                continue
            seen.add(key)
            notice = _of_comment(ignore, known, key in used)
            if notice is not None:
                found.setdefault(index, []).append(notice)
        if one.policy is not None and one.policy.name not in seen:
            seen.add(one.policy.name)
            found.setdefault(index, []).extend(_of_policy(one.policy, checked, known, used))
    return found


def _of_comment(ignore: Ignore, known: Collection[str], used: bool) -> Finding | None:
    if ignore.code not in known:
        said = f"`specadvise: ignore {ignore.code}`" if ignore.code else "a `specadvise:` comment"
        return UNKNOWN.finding(f"{said} names no rule", line=ignore.line)
    if not ignore.reason:
        return NO_REASON.finding(f"the ignore of {ignore.code} says no reason, so it does not count", line=ignore.line)
    if not used:
        return UNUSED.finding(f"{ignore.code} has nothing to say here, so the ignore is not needed", line=ignore.line)
    return None


def _of_policy(
    policy: PolicyFile, checked: Sequence[Checked], known: Collection[str], used: set[object]
) -> Iterable[Finding]:
    for code in policy.policy.severities:
        if code not in known:
            yield UNKNOWN.finding(f"{policy.where('severities', code)} sets a severity for {code}: there is no such "
                                   "rule")
    for index, entry in enumerate(policy.policy.ignore):
        where = policy.where("ignore", index)
        covered = [one for one in checked if one.policy == policy and holds_for(entry, one.path)]
        if entry.code not in known:
            yield UNKNOWN.finding(f"{where} ignores {entry.code}: there is no such rule")
        elif covered and (policy.name, index) not in used:
            count = f"the {len(covered)} configs checked here" if len(covered) > 1 else "the config checked here"
            yield UNUSED.finding(f"{where} ignores {entry.code}, which has nothing to say of {count}")


def _settled(result: CheckResult, findings: Iterable[Finding], suppressed: Iterable[Suppressed]) -> CheckResult:
    kept = worst_first(findings)
    return result.model_copy(update={"findings": kept, "suppressed": tuple(suppressed),
                                     "verdict": verdict_of(kept, result.fail_on)})
