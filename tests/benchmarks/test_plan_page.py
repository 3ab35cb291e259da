"""The runs that docs/plan.md shows are today's, up to what another machine's arithmetic may move."""

from __future__ import annotations

import re

import pytest

from benchmarks.plan_page import BLOCKS, PAGE, block, command_of, markers, rewritten, run_again

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def figures(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def test_the_page_shows_what_its_command_prints() -> None:
    shown = block(PAGE.read_text(encoding="utf-8"), "plan")
    now = run_again(shown)
    again = "run `python -m benchmarks.plan_page plan --write docs/plan.md`"
    assert " ".join(NUMBER.sub("#", now).split()) == " ".join(NUMBER.sub("#", shown).split()), again
    # Another processor's exp may move a drawn length by a token, and with it the third digit.
    moved = [(old, new) for old, new in zip(figures(shown), figures(now), strict=True)
             if new != pytest.approx(old, rel=0.1, abs=1.01)]
    assert moved == [], again


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_of_the_page_names_a_command(name: str) -> None:
    assert command_of(block(PAGE.read_text(encoding="utf-8"), name)).startswith(("specadvise plan ", "python -m "))


def test_a_block_is_replaced_and_the_rest_of_the_page_stays() -> None:
    begin, end = markers("plan")
    page = f"before\n{begin}    python -c 'print(6 * 7)'\n\n```\nold\n```\n{end}\nafter\n"
    new = rewritten(page, ["plan"])
    assert new == f"before\n{begin}    python -c 'print(6 * 7)'\n\n```\n42\n```\n{end}\nafter\n"
    assert rewritten(new, ["plan"]) == new


def test_a_page_without_the_block_and_a_command_that_fails_are_said() -> None:
    with pytest.raises(SystemExit, match="no lines"):
        block("nothing here", "plan")
    with pytest.raises(SystemExit, match="shows no command"):
        run_again("no command\n")
    with pytest.raises(SystemExit, match="ended with status 3"):
        run_again("    python -c 'raise SystemExit(3)'\n")
