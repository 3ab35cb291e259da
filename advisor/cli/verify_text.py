"""How a verification reads: in a terminal, and as Markdown for a change request."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from profiles.printable import plain

if TYPE_CHECKING:
    from advisor.verdict import Promise, Verification
    from profiles.evidence import ServerEvidence
    from profiles.schema import Quantity

HEADS = {"held": "The promises held", "broken": "A promise is broken", "undecided": "The window cannot tell"}
WIDTH = 120


def text_of(result: Verification, server: ServerEvidence) -> str:
    """Verdict first, then each promise with its numbers, then what to do."""
    lines = [f"{HEADS[result.verdict]}: {_server(server)}"]
    rows = [(one.verdict, one.code.replace("_", " "), one.sentence) for one in result.promises]
    for verdict, code, sentence in [*rows, *(("note", "server", note) for note in server.notes)]:
        head = f"  {verdict:<10} {code:<19} "
        lines += textwrap.wrap(plain(sentence), WIDTH, initial_indent=head, subsequent_indent=" " * len(head),
                               break_long_words=False, break_on_hyphens=False)
    if result.yields:
        lines.append("  With the acceptance seen, at this load: " + ", ".join(
            f"k = {one.k} {one.gain:.2f} times" for one in result.yields) + " no speculation.")
    lines += textwrap.wrap(plain(result.advice), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def markdown_of(result: Verification, server: ServerEvidence) -> str:
    """The same as a heading and a table."""
    lines = [f"## {HEADS[result.verdict]}", "", f"{_cell(_server(server))}", "",
             "| | promise | promised | found | |", "|---|---|---|---|---|"]
    for one in result.promises:
        lines.append(f"| {one.verdict} | {one.code.replace('_', ' ')} | {_quantity(one.promised, one)} | "
                     f"{_quantity(one.found, one)} | {_cell(one.sentence)} |")
    if result.yields:
        lines += ["", "| k | tokens per step | break-even | times no speculation |", "|---|---|---|---|"]
        lines += [f"| {one.k} | {one.acceptance_length:.2f} | {one.break_even:.2f} | {one.gain:.2f} |"
                  for one in result.yields]
    lines += ["", *(f"- {_cell(note)}" for note in server.notes)] if server.notes else []
    return "\n".join([*lines, "", f"**{_cell(result.advice)}**"]) + "\n"


def _server(server: ServerEvidence) -> str:
    version = f" {server.engine_version}" if server.engine_version else ""
    span = f"{server.window_s:.3g} s" if server.window_s > 0 else "counts of an unknown span"
    return f"{plain(server.engine + version)} at {plain(server.url)}, {span}"


def _cell(text: str) -> str:
    return re.sub(r"([|<>\[\]`*_\\])", r"\\\1", plain(text))


def _quantity(found: Quantity | None, one: Promise) -> str:
    if found is None:
        return ""
    text = f"{found.value:.3g}"
    if found.low is not None and found.high is not None and found.low < found.high:
        text += f" ({found.low:.3g} to {found.high:.3g})"
    return f"{text} {one.unit}".strip()
