"""Every rule's own examples prove it: one config that it speaks about, one near it that it leaves alone."""

from __future__ import annotations

import pytest

from advisor.checks.examples import subject_of
from advisor.checks.registry import all_rules, find_rule
from advisor.checks.rule import Rule
from advisor.checks.run import check
from profiles.errors import InputError

RULES = all_rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_speaks_about_its_failing_example_only(rule: Rule) -> None:
    found = [finding for finding in check(subject_of(rule.fails)).findings if finding.code == rule.code]
    assert found
    assert all(finding.family == rule.family and finding.source == rule.source for finding in found)
    assert [f for f in check(subject_of(rule.passes)).findings if f.code == rule.code] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_passing_example_has_no_error_of_any_rule(rule: Rule) -> None:
    assert [f for f in check(subject_of(rule.passes)).findings if f.severity == "error"] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_findings_are_short_enough_to_be_read_in_a_pipeline(rule: Rule) -> None:
    for finding in check(subject_of(rule.fails)).findings:
        assert len(finding.message) + len(finding.remedy) <= 700


def test_codes_are_given_once_and_found_in_any_case() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert find_rule("spd201").code == "SPD201"
    with pytest.raises(InputError, match="no rule 'SPD299': expected one of SPD2"):
        find_rule("SPD299")


def test_a_message_that_begins_with_the_engines_name_keeps_its_spelling() -> None:
    said = [finding.message for rule in RULES for finding in check(subject_of(rule.fails)).findings]
    assert any(message.startswith("vLLM ") for message in said)
    assert [message for message in said if message.startswith("VLLM ")] == []
