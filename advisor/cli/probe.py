"""`specadvise probe`: measure one thing and print it. Deciding is for `advise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.group import Group
from advisor.cli.number_types import Whole
from advisor.cli.output import format_option, print_json, quiet_option, say
from advisor.cli.probe_replay import replay
from advisor.cli.probe_requests import requests
from advisor.cli.probe_scoring import scoring
from advisor.cli.provenance import evidence, save_evidence, save_option
from advisor.cli.server_source import (
    Access,
    scraped,
    seconds,
    server_evidence_document,
    server_options,
)
from advisor.cli.unread_options import refuse_unread
from profiles.errors import InputError
from profiles.schema import MAX_TOKENS

if TYPE_CHECKING:
    from profiles.deployment import Deployment


@click.group(cls=Group)
def probe() -> None:
    """Measure one thing: this machine's GPUs, a running server, recorded requests and outputs."""


probe.add_command(requests)
probe.add_command(replay)
probe.add_command(scoring)


@probe.command("gpu")
@click.option("--window", "window_s", type=seconds, default="1s", metavar="TIME", show_default=True,
              help="How long utilisation is sampled.")
@click.option("--target", metavar="MODEL", help="Also say what is left after this model: HF id or folder.")
@click.option("--draft", metavar="MODEL", help="And after this draft model beside it.")
@click.option("--method", default="draft_model", show_default=True, help="The draft's method.")
@click.option("--deployment", "deployment_path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Take models, engine arguments and workload from this deployment file.")
@click.option("--context", type=Whole(1, MAX_TOKENS), metavar="TOKENS",
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
    refuse_unread(draft is not None, "with --draft", "method")
    if context is not None and target is None and deployment_path is None:
        raise InputError("--context needs --target (or --deployment): it says how much KV their requests hold")
    stated = _deployment(target, draft, method, deployment_path)
    say(f"sampling the GPUs for {window_s:g} s", quiet)
    found = probe_gpu(window_s)
    from advisor.cli.headroom import headrooms

    left = [] if stated is None else headrooms(found, stated[0], stated[1], context)
    save_evidence(save, evidence("gpu", ["probe", "gpu", "--window", f"{window_s:g}s"], gpu=found), quiet)
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
@server_options
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, a line each interval; then a summary.")
@click.option("--interval", "interval_s", type=seconds, metavar="TIME", help="Between two lines of --watch (10s).")
@click.option("--record", "record_path", type=click.Path(path_type=Path, dir_okay=False), metavar="RECORD.json",
              help="Hold the watched acceptance against this record's break-even at the load seen.")
@click.option("--count", type=Whole(1, 10**9), metavar="N", help="End --watch after N lines.")
@save_option
@format_option("text", "json")
@quiet_option
def server(source: str, second: str | None, window_s: float | None, access: Access, watch: bool,
           interval_s: float | None, record_path: Path | None, count: int | None, save: Path | None,
           output_format: str, quiet: bool) -> None:
    """Load, lengths, latencies and speculation of a running vLLM (or SGLang), from its /metrics.

    URL-OR-DUMP is http://HOST:PORT, scraped over the window, or one or two saved pages of the same server. With
    --watch, a line each interval: load, and acceptance against break-even where a record is given.
    """
    if watch:
        from advisor.cli.watch import watch_until_stopped

        if second is not None or window_s is not None:
            raise InputError("--watch follows one running server: give its URL alone, and --interval instead of "
                             "--window")
        seen = watch_until_stopped(source, access, interval_s or 10.0, record_path, count, output_format, quiet)
        if seen is not None:
            save_evidence(
                save, server_evidence_document(["probe", "server", "--watch"], source, None, None, access, seen), quiet)
        return
    if interval_s is not None or record_path is not None or count is not None:
        raise InputError("--interval, --record and --count go with --watch: add it, or use `specadvise verify` to hold "
                         "one window against a record")
    found = scraped(source, second, window_s, access, quiet)
    save_evidence(save, server_evidence_document(["probe", "server"], source, second, window_s, access, found), quiet)
    if output_format == "json":
        print_json(found.model_dump(mode="json"))
    else:
        from advisor.cli.probe_text import show_server

        show_server(found)
