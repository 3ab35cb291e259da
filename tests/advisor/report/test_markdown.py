"""Markdown: valid tables whatever the names hold."""

from __future__ import annotations

import re

import pytest

from advisor.report import render
from advisor.report.renderers.markdown import escape, fenced
from tests.advisor.report import synthetic_record as synthetic


def outside_code(text: str) -> list[str]:
    """Lines that are not inside a fenced block."""
    lines, fence = [], ""
    for line in text.splitlines():
        opened = re.match(r"(`{3,})", line)
        if not fence and opened:
            fence = opened.group(1)
        elif fence and line == fence:
            fence = ""
        elif not fence:
            lines.append(line)
    assert fence == "", "a code block was never closed"
    return lines


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.parametrize("make", [synthetic.enabled, synthetic.off, synthetic.abstained, synthetic.hostile])
def test_every_table_has_a_rule_under_its_head_and_rows_of_one_width(make):
    tables: list[list[str]] = [[]]
    for line in outside_code(render(make(), "markdown")):
        if line.startswith("|"):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    tables = [table for table in tables if table]
    assert len(tables) >= 7
    for table in tables:
        assert re.fullmatch(r"\|( -+:? \|)+", table[1]), table[1]
        assert len({cells(line) for line in table}) == 1, table


def test_decision_stands_before_everything_else():
    text = render(synthetic.enabled(), "markdown")
    assert text.startswith("# Turn speculation on: draft model Draft-1B-Instruct, k = 3\n")
    assert "A request is 58 % faster end to end at 4 running requests: 1.58× (80 % interval 1.50–1.66×)" in text


def test_config_is_shown_whole_in_a_yaml_block():
    record = synthetic.enabled()
    assert f"```yaml\n{record.emitted.vllm_yaml.rstrip()}\n```" in render(record, "markdown")


def test_hostile_names_make_no_tag_link_or_column():
    text = "\n".join(outside_code(render(synthetic.hostile(), "markdown")))
    assert "<script" not in text
    assert "<img" not in text
    assert re.search(r"(?<!\\)\]\(javascript", text) is None


def test_escape_joins_lines_and_defuses_marks():
    assert escape("a|b\n*c* <i> [x](y) `z`") == r"a\|b \*c\* &lt;i&gt; \[x\](y) \`z\`"


def test_fence_is_longer_than_any_in_the_text():
    assert fenced("a ```` b", "yaml") == "`````yaml\na ```` b\n`````"
