"""What every file written says first: what was decided and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from advisor.checks.finding import CheckResult
from advisor.record import Decision
from profiles.catalog.releases import Release, release
from profiles.errors import InputError
from profiles.schema import Source, as_sentence
from profiles.version import __version__

_WRITTEN = re.compile(r"# Written by specadvise [0-9][0-9A-Za-z.+!-]* for vLLM "
                      r"(?P<release>[0-9A-Za-z][0-9A-Za-z.+_-]*?)(?:\.|: .+| \(.+)")
"""The first line of every file written, as a comment: `Written by specadvise 0.1.0 for vLLM 0.32.0.`"""

ENVIRONMENT = "These belong in the environment, not in this file:"
"""What stands above the variables of the server's process, each as `- NAME=VALUE`."""
_VARIABLE = re.compile(r"# - (?P<name>[A-Z][A-Z0-9_]*)=(?P<value>\S+)")


def written_for(facts: Release) -> str:
    """How that line begins: who wrote the file, and for which release."""
    return f"Written by specadvise {__version__} for vLLM {facts.version}"


def release_written(text: str) -> str | None:
    """The release that a file of this tool says it was written for; None for any other text. It is read as data: of
    the first line alone, and only where it has exactly the shape that is written and names a release."""
    match = _WRITTEN.fullmatch(text.lstrip("\ufeff").split("\n", 1)[0].rstrip("\r"))
    if match is None:
        return None
    try:
        release(match["release"])
    except InputError:
        return None
    return match["release"]


def environment_written(text: str) -> dict[str, str]:
    """The variables that a file of this tool asks for beside itself; empty for any other text."""
    if release_written(text) is None:
        return {}
    lines = iter(text.splitlines())
    if not any(line.rstrip() == f"# {ENVIRONMENT}" for line in lines):
        return {}
    listed = takewhile(lambda line: line.startswith("# - "), lines)
    return {match["name"]: match["value"] for line in listed if (match := _VARIABLE.fullmatch(line.rstrip()))}


def speculates(decision: Decision) -> bool:
    """Whether what is emitted speculates: only a decision for it does, an abstention does not."""
    return bool(decision.enable) and decision.method not in (None, "none")


def cautions_of(warnings: Sequence[str], checklist: CheckResult | None) -> tuple[str, ...]:
    """What whoever starts the server should know first: the warnings of the advice, then those that the checklist has
    of the very config, a sentence without a full stop each, each once."""
    found = () if checklist is None else checklist.findings
    checked = (f"{finding.message.rstrip('.')} ({finding.code})" for finding in found if finding.severity != "info")
    return tuple(dict.fromkeys((*(warning.rstrip(".") for warning in warnings), *checked)))


def decision_lines(decision: Decision, reasons: Sequence[str], cautions: Sequence[str] = ()) -> list[str]:
    """The decision in a sentence, what would settle it where there is none, the reasons, and what to mind."""
    if speculates(decision):
        gain = "" if decision.speedup is None else f", {_speedup(decision)} at {decision.running} running"
        draft = f" with {decision.draft}" if decision.draft else ""
        lines = [f"Decision: speculation ON: {decision.method}{draft}, k = {decision.k}{gain}."]
    elif decision.enable is None:
        lines = ["Decision: could not decide, so this is the deployment WITHOUT speculation."]
        if decision.method is None and reasons:
            # An abstention about speculation names its candidate: here nothing was looked at.
            lines.append("As it is stated it cannot be served, with or without speculation: the first reason says why.")
        settle = f"What would settle it: {decision.would_settle}"
        if decision.would_settle and not any(reason.startswith(settle) for reason in reasons):
            lines.append(settle)
    else:
        lines = [f"Decision: speculation OFF at {decision.running} running; this is the deployment without it."]
    if reasons:
        lines += ["Why:", *(f"- {reason}" for reason in reasons)]
    if cautions:
        lines += ["Warnings:", *(f"- {as_sentence(caution)}." for caution in cautions)]
    return lines


def _speedup(decision: Decision) -> str:
    verb = "measured" if decision.speedup_source is Source.MEASURED else "expected"
    text = f"{verb} {decision.speedup:.2f}x"
    if decision.speedup_low is not None and decision.speedup_high is not None:
        text += f" ({decision.speedup_low:.2f} to {decision.speedup_high:.2f})"
    return text
