"""`specadvise rules [CODE]`: what `check` looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from advisor.cli.output import format_option, print_json, quiet_option

if TYPE_CHECKING:
    from advisor.checks.notice import Notice
    from advisor.checks.rule import Rule


@click.command()
@click.argument("code", required=False)
@format_option("text", "json", "markdown")
@quiet_option
def rules(code: str | None, output_format: str, quiet: bool) -> int:
    """List the rules of `specadvise check`, or explain the one with CODE (such as SPD201)."""
    from advisor.checks.notice import all_notices
    from advisor.checks.registry import all_rules, find_rule
    from advisor.report.rule_pages import as_document, notice_document, notice_page, page

    notices = [notice for notice in all_notices() if code is None or notice.code == code.strip().upper()]
    chosen = list(all_rules()) if code is None else [] if notices else [find_rule(code)]
    if output_format == "json":
        documents: list[dict[str, Any]] = [*map(as_document, chosen), *map(notice_document, notices)]
        print_json(documents[0] if code else documents)
    elif code is not None or output_format == "markdown":
        click.echo("\n".join([*map(page, chosen), *map(notice_page, notices)]), nl=False)
    else:
        family = ""
        listed: list[Rule | Notice] = [*chosen, *notices]
        for one in sorted(listed, key=lambda one: (one.family, one.code)):
            if one.family != family:
                click.echo(("\n" if family else "") + one.family)
                family = one.family
            click.echo(f"  {one.code}  {one.severity:<5}  {one.title}")
    return 0
