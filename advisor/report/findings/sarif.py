"""SARIF 2.1.0, as code-scanning services take it: one run, the rules that spoke, one result a finding.

Suppressed findings are in it with their reasons: a service then shows them as dismissed instead of fixed.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from advisor.checks.finding import CheckResult, Finding, Suppressed
from profiles.printable import escaped
from profiles.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warn": "warning", "info": "note"}


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """One SARIF log; `width` and `color` do not apply."""
    found: list[tuple[CheckResult, Finding, Suppressed | None]] = []
    for result in results:
        found += [(result, finding, None) for finding in result.findings]
        found += [(result, one.finding, one) for one in result.suppressed]
    codes = sorted({finding.code for _, finding, _ in found})
    index = {code: number for number, code in enumerate(codes)}
    rules = [_rule(code, next(f for _, f, _ in found if f.code == code)) for code in codes]
    notes = [note for result in results for note in result.notes]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "specadvise", "version": __version__, "semanticVersion": __version__,
                            "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, finding, suppressed, index) for result, finding, suppressed in found],
        "invocations": [{
            "executionSuccessful": True,
            "toolExecutionNotifications": [{"level": "note", "message": {"text": note}} for note in notes],
        }],
        "properties": {"vllm_version": sorted({result.vllm_version for result in results}),
                       "version_from": sorted({result.version_from for result in results if result.version_from})},
    }
    return escaped(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False))


@lru_cache(maxsize=1)
def _known() -> Mapping[str, Any]:
    from advisor.checks.registry import all_rules

    return {rule.code: rule for rule in all_rules()}


def _rule(code: str, example: Finding) -> dict[str, Any]:
    """What the registry says of a rule; where it does not know the code, what one of its findings says."""
    rule = _known().get(code)
    title, why, remedy = (rule.title, rule.why, rule.remedy) if rule else (example.family, example.family,
                                                                         example.remedy)
    severity = rule.severity if rule else example.severity
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in example.family.replace("_", "-").split("-")) or code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": why},
        "help": {"text": f"{remedy} Source: {rule.source if rule else example.source}"},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {"tags": ["vllm", "speculative-decoding", example.family]},
    }


def _result(
    result: CheckResult, finding: Finding, suppressed: Suppressed | None, index: Mapping[str, int]
) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(result.name)}}
    # A region is required to show an annotation; the file's first line stands for the file as a whole.
    physical["region"] = {"startLine": finding.line or 1}
    location: dict[str, Any] = {"physicalLocation": physical}
    name = " ".join(part for part in (result.part, finding.where) if part)
    if name:
        location["logicalLocations"] = [{"fullyQualifiedName": name}]
    # Without the line: a finding stays the same one when lines are added above it.
    identity = "\n".join((finding.code, result.name, result.part, finding.where))
    document: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message} {finding.remedy}"},
        "locations": [location],
        "partialFingerprints": {"specadvise/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()},
    }
    if suppressed is not None:
        kind = "inSource" if suppressed.by.startswith(f"{result.name}:") else "external"
        document["suppressions"] = [{"kind": kind, "justification": f"{suppressed.reason} ({suppressed.by})"}]
    return document


def uri(name: str) -> str:
    """A file's name as a URI: relative names stay relative to the repository's root."""
    path = name.replace("\\", "/")
    if path.startswith("/"):
        return "file://" + quote(path)
    return quote(posixpath.normpath(path), safe="/~") if path not in ("-", "") else "stdin"
