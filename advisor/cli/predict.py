"""`specadvise predict`: speed-ups of many setups from a file of cases, one line out for each line in."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from advisor.cli.output import write_streamed
from advisor.cli.result_file import STDOUT, ResultFile
from profiles.errors import InputError
from profiles.inputs import note_input
from profiles.reading import refuse_no_file

_EXPECTED = "a file of cases, one JSON object a line"
_LONGEST_SKIPPED = 2**30
"""Characters of one line that are passed over before it is taken to have no end."""


def _lines(path: str) -> Iterator[str]:
    from advisor.cases.case import NO_TEXT

    if path == "-":
        yield from _whole_lines(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors=NO_TEXT))
        return
    refuse_no_file(Path(path), _EXPECTED)
    try:
        with open(path, encoding="utf-8-sig", errors=NO_TEXT) as stream:
            yield from _whole_lines(stream)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}): expected {_EXPECTED}"
        ) from None


def _whole_lines(stream: TextIO) -> Iterator[str]:
    """The lines of a stream; of one far too long for a case its beginning, so that no file fills the memory."""
    from advisor.cases.case import LONGEST_LINE

    while line := stream.readline(LONGEST_LINE + 2):
        yield line
        skipped = 0
        while not line.endswith("\n") and line:
            line = stream.readline(LONGEST_LINE)
            skipped += len(line)
            if skipped > _LONGEST_SKIPPED:
                raise InputError(f"a line of more than {_LONGEST_SKIPPED >> 20} MiB: expected {_EXPECTED}; name the "
                                 "right file")


def _write(rows: Iterable[dict[str, Any]], stream: TextIO) -> tuple[int, int]:
    count = refused = 0
    for row in rows:
        # Escaped beyond ASCII: what cannot be encoded (half of a surrogate pair) must not stop the other lines.
        stream.write(json.dumps(row) + "\n")
        count += 1
        refused += row["error"] is not None
    return count, refused


@click.command()
@click.argument("cases", metavar="CASES.jsonl")
@click.option("-o", "--out", type=ResultFile(stdout=True), metavar="OUT.jsonl",
              help="Write the predictions there instead of to stdout.")
@click.option("--model", "model_file", metavar="FITTED.json",
              help="Residuals refitted on your own trials (`specadvise fit`), in place of the published ones.")
@click.option("--format", "format_", type=click.Choice(["json"]), default="json", show_default=True,
              help="One JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="No summary on stderr.")
def predict(cases: str, out: Path | None, model_file: str | None, format_: str, quiet: bool) -> None:
    """Predict the speed-up of every setup in CASES.jsonl (- reads stdin), with an 80 % interval.

    A case is one JSON object a line: gpu, target, method, k, one load (batch_size, concurrency or qps) and what else is
    known; null or left out is unknown, is assumed, and widens the interval. docs/predict.md describes every field.

    A line that cannot be priced gets a line with `error`. Exit code 0 unless no line could be priced at all (2).
    """
    from advisor.cases.lines import predict_lines
    from advisor.cases.own_fit import model_with
    from advisor.cases.unread import Unread

    unread = Unread()
    rows = predict_lines(_lines(cases), model_with(model_file), unread)
    count = refused = 0

    def answer(stream: TextIO) -> None:
        nonlocal count, refused
        count, refused = _write(rows, stream)
        if not count:
            raise InputError(f"{cases}: has no case: expected one JSON object a line, as docs/predict.md describes")

    if out is None or out == STDOUT:
        answer(sys.stdout)
    else:
        # They are read only while the answers are written.
        note_input(Path(cases))
        write_streamed(out, answer)
    if not quiet:
        ignored = unread.summary()
        if ignored:
            click.echo(f"{ignored}; docs/predict.md has those that are read", err=True)
        click.echo(f"{count} case{'' if count == 1 else 's'}, {refused} without a prediction", err=True)
    if refused == count:
        raise InputError(f"{cases}: no line could be priced; each line of the answer says why")
