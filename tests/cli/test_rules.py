"""`specadvise rules`: a list, one rule, and a sentence for a code that is none."""

from __future__ import annotations

import json

from click.testing import CliRunner

from advisor.checks.notice import all_notices
from advisor.checks.registry import all_rules
from advisor.cli.group import cli


def test_all_rules_are_listed_by_family() -> None:
    result = CliRunner().invoke(cli, ["rules"])
    assert result.exit_code == 0
    assert all(rule.code in result.output and rule.title in result.output for rule in all_rules())


def test_one_rule_is_explained_whatever_the_case_of_its_code() -> None:
    result = CliRunner().invoke(cli, ["rules", "spd201"])
    assert result.output.startswith("## SPD201: ")
    assert "**What to do:**" in result.output


def test_json_is_one_object_for_one_rule_and_a_list_for_all() -> None:
    one = json.loads(CliRunner().invoke(cli, ["rules", "SPD201", "--format", "json"]).output)
    assert {"code", "title", "why", "remedy", "severity", "family", "source", "fails", "passes"} <= one.keys()
    every = json.loads(CliRunner().invoke(cli, ["rules", "--format", "json"]).output)
    assert len(every) == len(all_rules()) + len(all_notices())


def test_an_unknown_code_is_refused_with_near_ones() -> None:
    result = CliRunner().invoke(cli, ["rules", "SPD299"], standalone_mode=False)
    assert "no rule 'SPD299'" in str(result.exception)
