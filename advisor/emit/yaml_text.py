"""YAML with comments: each value is written by PyYAML's safe dumper, the comments are put around it.

The text is ASCII whatever stands in it: the engine opens the file with the locale's encoding, and a container's
locale is often plain C.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

WIDTH = 100
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|GiB|KiB|MiB)(?![A-Za-z]))")
"""A blank that no line ends at: a figure keeps its unit."""
_ASCII = str.maketrans(
    {
        "×": "x",
        "–": "-",
        "—": "-",
        "−": "-",
        "≥": ">=",
        "≤": "<=",
        "≈": "~",
        "…": "...",
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
        "→": "->",
        "·": "-",
        "\u00a0": " ",
    }
)


class OneLine(list[Any]):
    """A list written on one line: `[1, 16, 5]`."""


class Block(str):
    """A text written as it is, line by line, under `|`."""


class _Dumper(yaml.SafeDumper):
    """The safe dumper, indented lists, no aliases (a value that stands twice is written twice)."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    OneLine, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)
_Dumper.add_representer(
    Block, lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", str(data), style="|")
)


@dataclass(frozen=True)
class Entry:
    """One option of the file and what is said above it."""

    key: str
    value: Any
    comments: tuple[str, ...] = ()


def write(header: Iterable[str], entries: Iterable[Entry]) -> str:
    """The document: header comments, then each entry under its comments. Reads back with `yaml.safe_load`."""
    lines = [line for paragraph in header for line in comment(paragraph)]
    for entry in entries:
        if entry.comments:
            lines.append("")
            lines += [line for text in entry.comments for line in comment(text)]
        dumped = yaml.dump(
            {entry.key: entry.value},
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=False,
            allow_unicode=False,
            width=10_000,
        )
        lines.append(dumped.rstrip("\n"))
    return "\n".join(lines) + "\n"


def write_all(header: Iterable[str], documents: Iterable[tuple[Iterable[str], dict[str, Any]]]) -> str:
    """Several documents in one text: the header, then each document under what is said of it. Reads back with
    `yaml.safe_load_all`."""
    texts = [
        write(said, [Entry(key, value) for key, value in document.items()]) for said, document in documents
    ]
    return write(header, []) + "---\n" + "---\n".join(texts)


def comment(paragraph: str) -> list[str]:
    """`paragraph` as wrapped comment lines. Line breaks and control characters in it cannot end the comment."""
    indent = len(paragraph) - len(paragraph.lstrip(" "))
    bullet = "  " if paragraph.lstrip(" ").startswith("- ") else ""
    text = " ".join("".join(c if c.isprintable() else " " for c in paragraph.translate(_ASCII)).split())
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    if not text:
        return ["#"]
    lead = "# " + " " * indent
    # Long words (paths, ids) stay whole: a reader copies them.
    wrapped = textwrap.wrap(
        _BEFORE_UNIT.sub("\u00a0", text),
        WIDTH,
        initial_indent=lead,
        subsequent_indent=lead + bullet,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\u00a0", " ") for line in wrapped]
