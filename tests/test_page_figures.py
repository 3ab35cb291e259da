"""What docs/emit.md quotes is what its command writes now; and what counts as moved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.page_figures import figures, moved
from tests.tutorial_page import ROOT, run

PAGE = (ROOT / "docs" / "emit.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page's first command writes."""
    folder = tmp_path_factory.mktemp("emit")
    found = re.search(r"^    (specadvise advise (?:.*\\\n)*.*)$", PAGE, re.MULTILINE)
    assert found is not None
    done = run([found.group(1)], folder, 300)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def in_order(lines: list[str], text: str) -> list[str]:
    """The lines that do not follow, in order, in the text."""
    have = iter(line.rstrip() for line in text.splitlines())
    return [line for line in lines if line.rstrip() not in have]


@pytest.mark.parametrize(("language", "file"), [("yaml", "kubernetes.yaml"), ("ini", "vllm.service")])
def test_the_lines_of_a_file_that_the_page_shows_stand_in_it(language: str, file: str, out: Path) -> None:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    assert in_order(found.group(1).splitlines(), (out / file).read_text(encoding="utf-8")) == []


def test_the_thresholds_of_the_page_are_those_of_the_alerts(out: Path) -> None:
    rules: list[dict[str, Any]] = [
        rule for group in yaml.safe_load((out / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]]
    table = {row[1].strip(): row for line in PAGE.splitlines() if len(row := line.split("|")) == 5}
    bands = [rule for rule in rules if rule["alert"] == "SpeculationBelowBreakEven"]
    even = [row for name, row in table.items() if name.startswith(("SpeculationBelowBreakEven", "the same"))]
    (rejected,) = (rule for rule in rules if rule["alert"] == "FirstDraftedTokenRejected")
    (beyond,) = (rule for rule in rules if rule["alert"] == "LoadBeyondCrossover")
    shown = " ".join([*(row[1] for row in even), *(row[3] for row in even),
                      table["FirstDraftedTokenRejected"][3].partition("assumed")[2], table["LoadBeyondCrossover"][3]])
    now = " ".join([*(bound for rule in bands for bound in re.findall(r"\[15m\]\) <?>?=? (\d+) and", rule["expr"])),
                    *(re.findall(r"\) < ([\d.]+) and", rule["expr"])[0] for rule in bands),
                    *figures(rejected["annotations"]["threshold_source"])[:1], *figures(beyond["expr"])[-1:]])
    assert moved(shown, now) == [], "write what the command gives now into docs/emit.md"
    assert {name.partition(",")[0] for name in table} >= {rule["alert"] for rule in rules}


@pytest.mark.parametrize(("shown", "now", "apart"), [
    ("1.45× (1.15–1.76)", "1.46× (1.14–1.79)", 0),
    ("39 % faster: 1.39×", "45 % faster: 1.45×", 2),
    ("load 270 of 2,000", "load 274 of 2,030", 0),
    ("vLLM 0.32.0", "vLLM 0.33.0", 1),
])
def test_a_figure_may_move_by_its_last_digit_or_two_per_cent(shown: str, now: str, apart: int) -> None:
    assert len(moved(shown, now)) == apart
