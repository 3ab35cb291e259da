"""The checklist's findings about the emitted config, in words for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor.record import Record
from advisor.report.wording import plain

_WORDS: dict[str, str] = {"error": "error", "warn": "warning", "info": "worth knowing"}


@dataclass(frozen=True)
class Item:
    """One finding as a reader sees it."""

    severity: Literal["error", "warn", "info"]
    title: str
    """Severity in words, code, and where it is: `warning SPD344, line 35, speculative-config.method`."""
    sentence: str
    remedy: str


def checklist_items(record: Record) -> tuple[Item, ...]:
    """The findings, worst first; none where the record was written before findings were kept."""
    if record.checklist is None:
        return ()
    items = []
    for finding in record.checklist.findings:
        place = [f"line {finding.line}"] if finding.line is not None else []
        place += [plain(finding.where)] if finding.where else []
        title = ", ".join([f"{_WORDS[finding.severity]} {plain(finding.code)}", *place])
        items.append(Item(finding.severity, title, plain(finding.message), plain(finding.remedy)))
    return tuple(items)


def checklist_sentence(record: Record) -> str:
    """What was checked, and how it came out; empty where the record has no checklist."""
    found = record.checklist
    if found is None:
        return ""
    if not found.checked:
        return "The config could not be checked: " + "; ".join(plain(note) for note in found.notes) + "."
    counts = {severity: sum(f.severity == severity for f in found.findings) for severity in ("error", "warn", "info")}
    said = ", ".join(
        f"{n} {word if n == 1 or severity == 'info' else word + 's'}"
        for (severity, word) in _WORDS.items()
        if (n := counts[severity])
    )
    return (
        f"{len(found.checked)} rules of `specadvise check` were held against vllm.yaml, for vLLM "
        f"{plain(found.vllm_version)}: {said or 'nothing found'}." + "".join(f" {plain(note)}." for note in found.notes)
    )
