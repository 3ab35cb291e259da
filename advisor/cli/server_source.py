"""How commands are told of a running server: its address or dumps, the keys it wants, and what is kept of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.number_types import Duration
from advisor.cli.output import say
from advisor.cli.provenance import evidence
from profiles.errors import InputError
from profiles.once import once

if TYPE_CHECKING:
    from profiles.evidence import Evidence, ServerEvidence

TOKEN_VARIABLE = "VLLM_API_KEY"  # noqa: S105 - the name of the variable, not a secret
"""Where the token of a protected server is read from: never from the command line, which other users can see."""

seconds = Duration()
"""The type of an option that is a time."""


@dataclass(frozen=True)
class Access:
    """What is sent to a server and asked of it. Keys are never shown."""

    token_env: str | None
    token: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    model: str | None

    @property
    def arguments(self) -> list[str]:
        """The options that gave it, as a command line that may be stored."""
        found = ["--token-env", self.token_env] if self.token_env else []
        found += [part for name in self.headers for part in ("--header", f"{name}: ***")]
        return found + (["--model", self.model] if self.model else [])


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--token-env, --header, --timeout and --model, handed to the command as one `access`."""

    @click.option("--token-env", metavar="VAR", help="Environment variable that holds the server's API key.")
    @click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'",
                  help="Send this header too; repeatable.")
    @click.option("--timeout", "timeout_s", type=seconds, default="10s", metavar="TIME", show_default=True,
                  help="Deadline of one scrape.")
    @click.option("--model", metavar="NAME", help="Look at this one of several served models.")
    @wraps(command)
    def with_access(*args: Any, token_env: str | None, headers: Sequence[str], timeout_s: float, model: str | None,
                    **kwargs: Any) -> Any:
        return command(*args, access=Access(token_env, _token(token_env), _headers(headers), timeout_s, model),
                       **kwargs)

    return with_access


def scraped(source: str, second: str | None, window_s: float | None, access: Access, quiet: bool) -> ServerEvidence:
    """Probe the server over the window (or read the dumps), saying on stderr how long it takes."""
    from probes.server import LIVE_WINDOW_S, probe_server
    from probes.server.scraping import looks_like_address

    if looks_like_address(source):
        say(f"scraping {shown_source(source)} for {LIVE_WINDOW_S if window_s is None else window_s:g} s", quiet)
    return probe_server(source, second, window_s, access.token, access.timeout_s, headers=access.headers,
                        model=access.model)


def shown_source(source: str) -> str:
    """An address without what may be a secret; a file's name as it is. InputError for an address that is none."""
    from probes.server.scraping import looks_like_address, server_address

    return server_address(source).display if looks_like_address(source) else source


def server_evidence_document(command: Sequence[str], source: str, second: str | None, window_s: float | None,
                             access: Access, found: ServerEvidence) -> Evidence:
    """A server's evidence; `command` is the command's words before its arguments."""
    whole = [*command, shown_source(source), *([second] if second else [])]
    whole += ["--window", f"{window_s:g}s"] if window_s is not None else []
    return evidence("server", [*whole, *access.arguments], server=found)


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        # What was given is not shown: it may be the key itself.
        raise InputError("--token-env does not name an environment variable that is set: put the server's API key in a "
                         f"variable, {TOKEN_VARIABLE} for example, and give the variable's name (the key itself does "
                         "not belong on the command line)")
    return token


def _headers(lines: Sequence[str]) -> Mapping[str, str]:
    def pairs() -> Iterator[tuple[str, tuple[str, str]]]:
        for number, line in enumerate(lines, 1):
            name, colon, value = line.partition(":")
            if not colon or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name.strip()):
                # The line is not shown: without a colon it may be the key itself.
                raise InputError(f"--header number {number} is not 'NAME: VALUE': expected for example "
                                 "'X-Api-Key: ...'")
            # Case makes no difference in the name of a header.
            yield name.strip().lower(), (name.strip(), value.strip())

    return dict(once("--header", pairs()).values())
