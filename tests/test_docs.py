"""The docs hold together: every link and anchor leads somewhere, every page is in the site, references are current."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
import yaml

from advisor.cli.group import cli
from advisor.cli.reference_pages import COMMAND, FOLDER, commands, pages

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "examples").rglob("*.md")])


def prose(path: Path) -> str:
    """A page without its code blocks and code spans."""
    text = re.sub(r"^(```+).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "``", text)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^(```+).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        kept = re.sub(r"[^\w\s-]", "", heading.lower())
        found |= {kept.strip().replace(" ", "-"), re.sub(r"[-\s]+", "-", kept.strip())}
    return frozenset(found)


def links(path: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if not target.startswith(("http://", "https://", "mailto:")):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_of_a_page_is_dead(page: Path) -> None:
    dead = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            dead.append(target)
    assert dead == []


def test_a_page_of_the_site_never_links_outside_it() -> None:
    outside = [(page.name, target) for page in DOCS.rglob("*.md") for target in links(page)
               if not (page.parent / target.partition("#")[0]).resolve().is_relative_to(DOCS)]
    assert outside == []


def in_nav(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from in_nav(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from in_nav(value)


def test_the_site_names_every_page_once_and_no_other() -> None:
    named = list(in_nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="the extra `docs` is not installed")
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]*\s(?:src|href)="(?:https?:)?//[^"]+"')
    foreign = {hit for page in (tmp_path / "site").rglob("*.html") for hit in loaded.findall(page.read_text("utf-8"))}
    assert foreign == set()


# --- the reference ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", list(pages()))
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pages()[name], f"run `{COMMAND}`"


def test_every_command_and_every_option_stands_in_the_reference() -> None:
    page = (FOLDER / "commands.md").read_text(encoding="utf-8")
    found = list(commands(cli))
    assert {"advise", "probe requests", "verify"} <= {name for name, _ in found}
    for name, command in found:
        _, _, rest = page.partition(f"\n## specadvise {name}\n")
        section = rest.partition("\n## ")[0]
        options = [flag for option in command.params if isinstance(option, click.Option) for flag in option.opts]
        assert [flag for flag in options if f"`{flag}`" not in section] == []


def test_every_field_of_a_reference_page_that_is_a_link_leads_to_its_section() -> None:
    for name in pages():
        page = FOLDER / name
        assert [target for target in links(page) if target.startswith("#") and target[1:] not in anchors(page)] == []
