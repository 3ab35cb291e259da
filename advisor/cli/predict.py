"""`specadvise predict`: speed-ups of many setups from a file of cases, one line out for each line in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from profiles.errors import InputError


def _lines(path: str) -> Iterator[str]:
    if path == "-":
        yield from sys.stdin
        return
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            yield from stream
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}): expected a file of cases, one JSON object a line"
        ) from None


def _write(rows: Iterable[dict[str, Any]], stream: TextIO) -> tuple[int, int]:
    count = refused = 0
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        count += 1
        refused += row["error"] is not None
    return count, refused


@click.command()
@click.argument("cases", metavar="CASES.jsonl")
@click.option("-o", "--out", metavar="OUT.jsonl", help="Write the predictions there instead of to stdout.")
@click.option("--model", "model_file", metavar="FITTED.json",
              help="Residuals refitted on your own trials (`specadvise fit`), in place of the published ones.")
@click.option("--format", "format_", type=click.Choice(["json"]), default="json", show_default=True,
              help="One JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="No summary on stderr.")
def predict(cases: str, out: str | None, model_file: str | None, format_: str, quiet: bool) -> None:
    """Predict the speed-up of every setup in CASES.jsonl (- reads stdin), with an 80 % interval.

    A line that cannot be priced gets a line with `error`. Exit code 0 unless no line could be priced at all (2).
    """
    from advisor.cases.lines import predict_lines
    from advisor.cases.own_fit import model_with

    rows = predict_lines(_lines(cases), model_with(model_file))
    if out is None or out == "-":
        count, refused = _write(rows, sys.stdout)
    else:
        place = Path(out)
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            with beside.open("w", encoding="utf-8") as stream:
                count, refused = _write(rows, stream)
            os.replace(beside, place)
        except OSError as error:
            raise InputError(
                f"{out}: cannot be written ({error.strerror or error}): expected a place for the predictions"
            ) from None
        finally:
            beside.unlink(missing_ok=True)
    if not quiet:
        click.echo(f"{count} cases, {refused} without a prediction", err=True)
    if count and refused == count:
        raise InputError(f"{cases}: no line could be priced; each line of the answer says why")
