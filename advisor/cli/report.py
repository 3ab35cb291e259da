"""`specadvise report`: a saved record printed again, in any format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli.output import print_text, quiet_option, say, stdout_terminal, write_whole
from advisor.cli.result_file import STDOUT, ResultFile

if TYPE_CHECKING:
    from advisor.record import Record

MAX_BYTES = 256 * 2**20
"""A record is a few megabytes."""
_EXPECTED = "the record.json that `specadvise advise` wrote into its --out folder"
# The suffix of `-o` says what is wanted where `--format` does not.
SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
}


def print_record(record: Record, output_format: str) -> None:
    """Print a record on stdout: as wide as the terminal, in colour only on a terminal that has not refused it."""
    from advisor.report import render

    seen = stdout_terminal()
    print_text(render(record, output_format, width=seen.width or 80, color=seen.color), seen.color)


def load_record(path: Path) -> Record:
    """Read a record.json (`-` is stdin); InputError says in one sentence why it cannot be one."""
    from advisor.cli.provenance import refuse_future
    from advisor.report.reading import parse_record
    from profiles.reading import read_stdin, read_whole

    name, data = ("stdin", read_stdin(_EXPECTED, MAX_BYTES)) if str(path) == "-" else (
        str(path), read_whole(path, _EXPECTED, MAX_BYTES))
    record = parse_record(data, name)
    refuse_future(name, "provenance.created_at", record.provenance.created_at)
    for number, one in enumerate(record.evidence):
        refuse_future(name, f"evidence[{number}].collected_at", one.collected_at)
    return record


@click.command()
@click.argument("record", type=click.Path(path_type=Path), metavar="RECORD.json")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "html"]),
    default=None,
    help="How it is printed; by default what the suffix of -o says, else text.",
)
@click.option(
    "-o",
    "--output",
    type=ResultFile(stdout=True),
    default=None,
    help="Write to this file instead of stdout (`-`).",
)
@quiet_option
def report(record: Path, output_format: str | None, output: Path | None, quiet: bool) -> None:
    """Print a saved record again: what the run printed, or another format of it.

    RECORD.json is the file that `specadvise advise` wrote; `-` reads it from stdin. Nothing is measured again.
    """
    chosen = output_format or (SUFFIXES.get(output.suffix.lower(), "text") if output else "text")
    loaded = load_record(record)
    if output is None or output == STDOUT:
        print_record(loaded, chosen)
        return
    from advisor.report import render

    write_whole(output, render(loaded, chosen, width=100))
    say(f"wrote {output} ({chosen})", quiet)
