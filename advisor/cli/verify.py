"""`specadvise verify`: after launch, did what the record promised hold on the running server?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli.output import format_option, print_json, quiet_option
from advisor.cli.provenance import save_evidence, save_option
from advisor.cli.server_source import Access, scraped, seconds, server_evidence_document, server_options
from profiles.errors import EXIT_ABSTAINED, EXIT_CHECK_FAILED, EXIT_OK

WINDOW_S = 60.0
EXITS = {"held": EXIT_OK, "broken": EXIT_CHECK_FAILED, "undecided": EXIT_ABSTAINED}


@click.command()
@click.argument("record", type=click.Path(path_type=Path), metavar="RECORD.json")
@click.argument("source", metavar="URL-OR-DUMP")
@click.argument("second", metavar="[SECOND-DUMP]", required=False)
@click.option("--window", "window_s", type=seconds, metavar="TIME",
              help="Time between the two scrapes (60s by default), or between two dumps.")
@server_options
@save_option
@format_option("text", "json", "markdown")
@quiet_option
def verify(record: Path, source: str, second: str | None, window_s: float | None, access: Access, save: Path | None,
           output_format: str, quiet: bool) -> int:
    """Judge whether what RECORD.json promised holds on the running server.

    URL-OR-DUMP is http://HOST:PORT, scraped over the window, or one or two saved pages of the same server. Looks at
    acceptance, load, break-even, time per output token and tokens per second of a request, each with its interval,
    and says whether it is time to change k or to roll back. --model says that this served model is the recorded one.

    Exit codes: 0 held, 1 a promise is broken, 2 unreadable input, 3 the window cannot tell, 4 the server does not
    answer.
    """
    from advisor.cli.report import load_record
    from advisor.verification import verify as judged
    from probes.server.scraping import looks_like_address

    # Read first: a record that cannot be read should not cost the window.
    loaded = load_record(record)
    if window_s is None and looks_like_address(source):
        window_s = WINDOW_S
    found = scraped(source, second, window_s, access, quiet)
    result = judged(loaded, found, access.model)
    save_evidence(
        save, server_evidence_document(["verify", str(record)], source, second, window_s, access, found), quiet)
    if output_format == "json":
        shown: dict[str, Any] = {**result.model_dump(mode="json"), "server": found.model_dump(mode="json")}
        print_json(shown)
    else:
        from advisor.cli.verify_text import markdown_of, text_of

        click.echo((markdown_of if output_format == "markdown" else text_of)(result, found), nl=False)
    return EXITS[result.verdict]
