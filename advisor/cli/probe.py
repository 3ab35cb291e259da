"""`specadvise probe`: measure one thing and print it. Deciding is for `advise`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.output import format_option, print_json, quiet_option, say, write_whole
from advisor.cli.probe_requests import requests
from profiles.errors import InputError
from profiles.version import __version__

if TYPE_CHECKING:
    from profiles.deployment import Deployment
    from profiles.evidence import Evidence

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A time as people write it: 15, 15s, 500ms, 2m."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h)?", text.strip().lower())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{text!r}: expected a time above 0 such as 15s, 500ms or 2m")
    return float(found[1]) * _UNITS[found[2] or ""]


def save_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--save`: the evidence as a file that `advise --evidence` takes."""
    return click.option("--save", type=click.Path(path_type=Path, dir_okay=False), metavar="EVIDENCE.json",
                        help="Also write the evidence to this file, for `advise --evidence`.")(command)


@click.group()
def probe() -> None:
    """Measure one thing: this machine's GPUs, a running server, recorded requests."""


probe.add_command(requests)


@probe.command("gpu")
@click.option("--window", "window_s", type=seconds, default="1s", metavar="TIME", show_default=True,
              help="How long utilisation is sampled.")
@click.option("--target", metavar="MODEL", help="Also say what is left after this model: HF id or folder.")
@click.option("--draft", metavar="MODEL", help="And after this draft model beside it.")
@click.option("--method", default="draft_model", show_default=True, help="The draft's method.")
@click.option("--deployment", "deployment_path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Take models, engine arguments and workload from this deployment file.")
@click.option("--context", type=click.IntRange(min=1), metavar="TOKENS",
              help="Tokens one request holds (prompt and output).")
@save_option
@format_option("text", "json")
@quiet_option
def gpu(window_s: float, target: str | None, draft: str | None, method: str, deployment_path: Path | None,
        context: int | None, save: Path | None, output_format: str, quiet: bool) -> None:
    """Memory, other processes, MIG, load and power of this machine's GPUs, through NVML.

    With --target or --deployment also the headroom on each device: after weights, graphs and the KV of the workload,
    in GiB and in tokens of KV.
    """
    from probes.gpu import probe_gpu

    if draft is not None and target is None and deployment_path is None:
        raise InputError("--draft needs --target (or --deployment): headroom is what a target and its draft leave")
    if context is not None and target is None and deployment_path is None:
        raise InputError("--context needs --target (or --deployment): it says how much KV their requests hold")
    stated = _deployment(target, draft, method, deployment_path)
    say(f"sampling the GPUs for {window_s:g} s", quiet)
    found = probe_gpu(window_s)
    from advisor.cli.headroom import headrooms

    left = [] if stated is None else headrooms(found, stated[0], stated[1], context)
    command = ["probe", "gpu", "--window", f"{window_s:g}s"]
    _save(save, _evidence(command, kind="gpu", gpu=found), quiet)
    if output_format == "json":
        print_json({**found.model_dump(mode="json"),
                    "headroom": [one.document() for one in left] if stated is not None else None})
    else:
        from advisor.cli.probe_text import show_gpus

        show_gpus(found, left)


def _deployment(target: str | None, draft: str | None, method: str,
                path: Path | None) -> tuple[Deployment, Path] | None:
    """The deployment to plan memory for, and the folder its relative names start from."""
    if path is None and target is None:
        return None
    from advisor.cli.deployment_file import load_deployment

    flags: dict[tuple[str | int, ...], tuple[str, Any]] = {}
    if target is not None:
        flags["target",] = ("--target", target)
    if draft is not None:
        flags["candidates",] = ("--draft", [{"method": method, "draft": draft}])
    return load_deployment(path, flags), Path.cwd() if path is None else path.absolute().parent


@probe.command("server")
@click.argument("source", metavar="URL-OR-DUMP")
@click.argument("second", metavar="[SECOND-DUMP]", required=False)
@click.option("--window", "window_s", type=seconds, metavar="TIME",
              help="Time between the two scrapes (15s by default), or between two dumps.")
@click.option("--token-env", metavar="VAR", help="Environment variable that holds the server's API key.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Send this header too; repeatable.")
@click.option("--timeout", "timeout_s", type=seconds, default="10s", metavar="TIME", show_default=True,
              help="Deadline of one scrape.")
@click.option("--model", metavar="NAME", help="Look at this one of several served models.")
@save_option
@format_option("text", "json")
@quiet_option
def server(source: str, second: str | None, window_s: float | None, token_env: str | None, headers: Sequence[str],
           timeout_s: float, model: str | None, save: Path | None, output_format: str, quiet: bool) -> None:
    """Load, lengths, latencies and speculation of a running vLLM (or SGLang), from its /metrics.

    URL-OR-DUMP is http://HOST:PORT, scraped over the window, or one or two saved pages of the same server.
    """
    from probes.server import LIVE_WINDOW_S, probe_server
    from probes.server.scraping import looks_like_address, server_address

    live = looks_like_address(source)
    shown = server_address(source).display if live else source
    token, sent = _token(token_env), _headers(headers)
    if live:
        say(f"scraping {shown} for {LIVE_WINDOW_S if window_s is None else window_s:g} s", quiet)
    found = probe_server(source, second, window_s, token, timeout_s, headers=sent, model=model)
    command = ["probe", "server", shown, *([second] if second else [])]
    command += ["--window", f"{window_s:g}s"] if window_s is not None else []
    command += ["--token-env", token_env] if token_env else []
    command += [part for name in sent for part in ("--header", f"{name}: ***")]
    command += ["--model", model] if model else []
    _save(save, _evidence(command, kind="server", server=found), quiet)
    if output_format == "json":
        print_json(found.model_dump(mode="json"))
    else:
        from advisor.cli.probe_text import show_server

        show_server(found)


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise InputError(f"--token-env names {variable!r}, which is not set: put the server's API key in it (the key "
                         "itself does not belong on the command line)")
    return token


def _headers(lines: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name.strip()):
            # The line is not shown: without a colon it may be the key itself.
            raise InputError(f"--header number {number} is not 'NAME: VALUE': expected for example 'X-Api-Key: ...'")
        found[name.strip()] = value.strip()
    return found


def _evidence(command: Sequence[str], **sections: Any) -> Evidence:
    from datetime import datetime, timezone

    from profiles.evidence import Evidence

    return Evidence(collected_at=datetime.now(timezone.utc).isoformat(timespec="seconds"), tool_version=__version__,
                    command=f"specadvise {shlex.join(command)}", **sections)


def _save(path: Path | None, evidence: Evidence, quiet: bool) -> None:
    if path is not None:
        write_whole(path, evidence.model_dump_json(indent=2) + "\n")
        say(f"evidence written to {path}", quiet)
