"""`specadvise rules [CODE]`: what `check` looks for."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli.output import format_option, print_json, quiet_option


@click.command()
@click.argument("code", required=False)
@format_option("text", "json", "markdown")
@quiet_option
def rules(code: str | None, output_format: str, quiet: bool) -> int:
    """List the rules of `specadvise check`, or explain the one with CODE (such as SPD201)."""
    from advisor.checks.registry import all_rules, find_rule
    from advisor.report.rule_pages import as_document, page

    chosen = [find_rule(code)] if code else list(all_rules())
    if output_format == "json":
        documents: list[dict[str, Any]] = [as_document(rule) for rule in chosen]
        print_json(documents[0] if code else documents)
    elif code is not None or output_format == "markdown":
        click.echo("\n".join(page(rule) for rule in chosen), nl=False)
    else:
        family = ""
        for rule in sorted(chosen, key=lambda rule: (rule.family, rule.code)):
            if rule.family != family:
                click.echo(("\n" if family else "") + rule.family)
                family = rule.family
            click.echo(f"  {rule.code}  {rule.severity:<5}  {rule.title}")
    return 0
