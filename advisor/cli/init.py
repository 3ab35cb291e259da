"""`specadvise init`: a commented deployment file, generated from the fields' own docstrings."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import quiet_option, say, write_whole
from advisor.cli.result_file import STDOUT, ResultFile
from profiles.errors import InputError


@click.command()
@click.option("--out", type=ResultFile(stdout=True), default="deployment.yaml", show_default=True,
              metavar="DEPLOYMENT.yaml", help="File to write; `-` prints it.")
@click.option("--target", default=None, help="Target model to fill in: HF id or folder.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@quiet_option
def init(out: Path, target: str | None, force: bool, quiet: bool) -> None:
    """Write a commented deployment file to start from: every field, what it means, and its default."""
    from advisor.cli.deployment_template import template

    text = template(target)
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    if out.exists() and not force:
        raise InputError(f"{out} exists already: name another file with --out, or add --force to overwrite it")
    write_whole(out, text)
    say(f"Wrote {out}: state hardware.gpu and the workload, then run `specadvise advise {out} --out out/`", quiet)
