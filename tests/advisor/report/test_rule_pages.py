"""docs/rules is what the rules say, and nothing else."""

from __future__ import annotations

from pathlib import Path

from advisor.checks.registry import all_rules, find_rule
from advisor.report.rule_pages import COMMAND, as_document, page, pages

DOCS = Path(__file__).resolve().parents[3] / "docs" / "rules"


def test_the_pages_in_docs_are_current() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert written == pages(), f"run `{COMMAND}`"


def test_every_rule_has_a_page_and_stands_in_the_index() -> None:
    index = pages()["README.md"]
    assert all(f"[{rule.code}]({rule.family}.md#" in index for rule in all_rules())


def test_a_page_has_both_examples_and_the_source() -> None:
    rule = find_rule("SPD201")
    text = page(rule)
    assert rule.fails.config in text
    assert rule.passes.config in text
    assert rule.source in text
    assert as_document(rule)["fails"]["vllm_version"] == rule.fails.vllm_version
