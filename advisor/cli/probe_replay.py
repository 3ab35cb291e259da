"""`specadvise probe replay`: acceptance of methods that copy from text, over recorded prompts and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.number_types import Number, Whole
from advisor.cli.output import format_option, print_json, quiet_option, say
from advisor.cli.provenance import evidence, save_evidence, save_option
from advisor.cli.unread_options import refuse_unread
from profiles.errors import InputError
from profiles.schema import MAX_K, MAX_TOKENS

if TYPE_CHECKING:
    from profiles.recorded import RecordedAcceptance
    from profiles.workload import Task

MAX_LOOKUP = 5


def recorded_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every probe over recorded outputs takes: files, whose tokens, which of the records."""
    options: list[Callable[..., Any]] = [
        click.argument("files", nargs=-1, required=True, metavar="FILE...",
                       type=click.Path(path_type=Path, dir_okay=True)),
        click.option("--max-k", "most", type=Whole(1, MAX_K), default=8, show_default=True,
                     help="The largest number of speculative tokens; every smaller one is given too."),
        click.option("--task", help="Task family of records that name none (code, json, chat, ...)."),
        click.option("--limit", type=Whole(1, 10**9), help="Read at most so many records."),
        click.option("--lenient", is_flag=True, help="Go on where a file has more bad records than good ones."),
        click.option("--offline", is_flag=True, help="Never ask the model hub."),
        save_option,
        format_option("text", "json"),
        quiet_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def task_of(name: str | None) -> Task | None:
    from profiles.workload import parse_task

    try:
        return parse_task(name) if name is not None else None
    except ValueError as error:
        raise InputError(f"--task: {error}") from None


@click.command("replay")
@click.option("--target", metavar="MODEL", help="Whose tokens to count: folder or HF id. Not needed for token ids.")
@click.option("--method", "methods", multiple=True, metavar="NAME",
              help="ngram or suffix; repeat. Default: all that can be replayed here.")
@click.option("--lookup", "lookups", multiple=True, metavar="MIN-MAX",
              help=f"n-gram lengths to look for, such as 2-4; repeat. Default: every pair up to {MAX_LOOKUP}.")
@click.option("--spec-factor", "factors", multiple=True, type=Number(0, 1000, above=True),
              help="suffix_decoding_max_spec_factor to try; repeat. Default: the engine's, 1.")
@click.option("--min-token-prob", "least", multiple=True, type=Number(0, 1),
              help="suffix_decoding_min_token_prob to try; repeat. Default: the engine's, 0.1.")
@click.option("--concurrency", "running", type=Whole(1, 10_000), default=1, show_default=True,
              help="Requests walked side by side: suffix decoding learns from those that run and ran.")
@click.option("--max-model-len", type=Whole(1, MAX_TOKENS), help="Drafts end where the engine's context does.")
@recorded_options
def replay(files: Sequence[Path], target: str | None, methods: Sequence[str], lookups: Sequence[str],
           factors: Sequence[float], least: Sequence[float], running: int, max_model_len: int | None, most: int,
           task: str | None, limit: int | None, lenient: bool, offline: bool, save: Path | None, output_format: str,
           quiet: bool) -> None:
    """Exact acceptance of n-gram lookup and suffix decoding over recorded prompts and outputs.

    FILE holds prompts with their outputs: JSONL of {"prompt", "output"}, chat messages, OpenAI requests with
    responses, ShareGPT conversations, or token ids. The drafts are those of the engine, every setting and every k at
    once; nothing is generated and no GPU is needed. Only counts are kept.
    """
    from probes.replay import Plan, can_replay, probe_replay, token_requests

    walked = _settings(methods or [m for m in ("ngram", "suffix") if can_replay(m)], lookups, factors, least)
    refuse_unread("ngram" in walked, "with --method ngram", "lookups")
    refuse_unread("suffix" in walked, "with --method suffix (specadvise[suffix])", "factors", "least")
    plan = Plan(walked, most, running, max_model_len)
    found = token_requests(files, target, base=Path.cwd(), task=task_of(task), limit=limit, lenient=lenient,
                           offline=offline)
    say(f"walking {len(found.requests)} requests", quiet)
    said = probe_replay(found, target, plan)
    if not methods and not can_replay("suffix"):
        said = said.model_copy(update={"notes": (
            *said.notes, "suffix decoding is left out: arctic-inference is not installed (specadvise[suffix])")})
    finish(said, evidence("replay", replay=said), save, output_format, quiet)


def _settings(methods: Sequence[str], lookups: Sequence[str], factors: Sequence[float],
              least: Sequence[float]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    from probes.replay.ngram import chosen_windows, windows
    from probes.replay.probe import REPLAYED
    from profiles.methods import method

    try:
        ngram: Sequence[Mapping[str, Any]] = chosen_windows(lookups) if lookups else windows(MAX_LOOKUP)
    except ValueError as error:
        raise InputError(f"--lookup {error}") from None
    by_factor: list[dict[str, float]] = [{"suffix_decoding_max_spec_factor": f} for f in factors] or [{}]
    by_share: list[dict[str, float]] = [{"suffix_decoding_min_token_prob": p} for p in least] or [{}]
    suffix = [{**one, **other} for one in by_factor for other in by_share]
    given = {"ngram": ngram, "suffix": suffix}
    chosen: dict[str, Sequence[Mapping[str, Any]]] = {}
    for text in methods:
        try:
            name = method(text).name
        except KeyError as error:
            raise InputError(f"--method: {error.args[0]}") from None
        if name not in REPLAYED:
            raise InputError(f"--method {text}: its drafts cannot be recomputed from text: expected one of "
                             f"{', '.join(REPLAYED)}; a draft model is for `probe scoring`")
        chosen[name] = given[name]
    return chosen


def finish(said: RecordedAcceptance, document: Any, save: Path | None, output_format: str, quiet: bool) -> None:
    """Print, and save where asked."""
    save_evidence(save, document, quiet)
    if output_format == "json":
        print_json(said.model_dump(mode="json"))
    else:
        from advisor.cli.recorded_text import show_recorded

        show_recorded(said)
