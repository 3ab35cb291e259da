"""`specadvise fit`: correct predictions by the user's own saved trials."""

from __future__ import annotations

import json
from pathlib import Path

import click

from advisor.cli.output import quiet_option, say, write_whole
from advisor.cli.result_file import STDOUT, ResultFile


@click.command()
@click.argument("evidence", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="EVIDENCE...")
@click.option("-o", "--out", type=ResultFile(stdout=True), default=None, metavar="FITTED.json",
              help="Write the correction there, for `predict --model`; by default to stdout.")
@quiet_option
def fit(evidence: tuple[Path, ...], out: Path | None, quiet: bool) -> None:
    """Correct the model by your own trials, so that the next prediction on your fleet is better.

    EVIDENCE are files that `specadvise trial --save` wrote. At least three with a paired comparison are needed.
    """
    from advisor.cases.model import shipped_model
    from advisor.cases.own_fit import points_of, refit
    from advisor.cli.evidence_file import load_evidence

    points = []
    for path in evidence:
        found, why = points_of(load_evidence(path))
        points += found
        if why:
            say(f"{path}: left out: it {why}", quiet)
    document = refit(points, shipped_model())
    text = json.dumps(document, indent=1) + "\n"
    if out is None or out == STDOUT:
        click.echo(text, nl=False)
    else:
        write_whole(out, text)
    say(f"corrected by {len(document['comparisons'])} comparisons: predictions move by "
        f"{100 * document['fleet']['offset']:+.0f} %", quiet)
