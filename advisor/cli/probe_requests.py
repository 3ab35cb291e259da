"""`specadvise probe requests`: what request logs and traces say of the workload."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from advisor.cli.number_types import Number, Whole
from advisor.cli.output import format_option, print_json, quiet_option, say, write_whole
from advisor.cli.provenance import evidence, save_evidence, save_option
from advisor.cli.result_file import ResultFile
from advisor.cli.unread_options import refuse_unread
from profiles.errors import InputError
from profiles.schema import MAX_SECONDS

_MOST = 100_000


@click.command("requests")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--columns", metavar="FIELD=COLUMN,...",
              help="Columns of a table of no known format: arrival=T:ms,prompt=IN,output=OUT (units s, ms, us, ns).")
@click.option("--as", "form", metavar="FORMAT", help="Read the files as this format instead of recognising it.")
@click.option("--tokenizer", type=click.Path(path_type=Path), metavar="FOLDER",
              help="The target's tokenizer (a folder with tokenizer.json), for logs with text and no token counts.")
@click.option("--tpot", "tpot_ms", type=Number(0, MAX_SECONDS * 1000, above=True), metavar="MS",
              help="Time per output token, for the running requests of a log without ends (Little's law).")
@click.option("--ttft", "ttft_ms", type=Number(0, MAX_SECONDS * 1000), metavar="MS",
              help="With --tpot: time to first token.")
@click.option("--model", metavar="NAME", help="Of logs of several models, the requests of this one alone.")
@click.option("--lenient", is_flag=True, help="Go on with a file that has more bad lines than good ones.")
@click.option("--sample-prompts", "count", type=Whole(1, _MOST), metavar="N",
              help="Also draw N prompts, stratified by task and length, for `trial --prompts`.")
@click.option("--out", type=ResultFile(), metavar="PROMPTS.jsonl",
              help="Where --sample-prompts writes.")
@click.option("--interval", "width", type=Number(0.001, 0.5), default=0.05, show_default=True,
              help="With --sample-prompts: wanted half-width of the 80 % interval on an acceptance rate.")
@save_option
@format_option("text", "json")
@quiet_option
def requests(files: Sequence[str], columns: str | None, form: str | None, tokenizer: Path | None, tpot_ms: float | None,
             ttft_ms: float | None, model: str | None, lenient: bool, count: int | None, out: Path | None, width: float,
             save: Path | None, output_format: str, quiet: bool) -> None:
    """Lengths, arrival rate, running requests and task mix of recorded requests.

    FILE is a log or trace, a pattern, or - for stdin; plain, gzip, zstd or Parquet. Formats are recognised by content:
    Azure, BurstGPT, Mooncake and Qwen-Bailian traces, ShareGPT, OpenAI-style requests and responses and batch files,
    vllm bench serve, GuideLLM and AIPerf results, LiteLLM spend logs, OpenTelemetry GenAI spans, vLLM server logs, and
    tables with common column names. No text is kept.

    Exit codes: 0 done, 2 unreadable input, or more bad lines than good ones.
    """
    from probes.requests import Options, probe_requests, refuse_empty

    if (count is None) != (out is None):
        raise InputError("--sample-prompts N and --out PROMPTS.jsonl go together: how many, and where to")
    refuse_unread(count is not None, "with --sample-prompts", "width")
    if ttft_ms is not None and tpot_ms is None:
        raise InputError("--ttft needs --tpot: the time to first token alone gives no duration")
    if count is not None and "-" in files:
        raise InputError("--sample-prompts reads the logs a second time, which stdin does not allow: name a file")
    if count is not None and model is not None:
        raise InputError("--sample-prompts draws from all requests of the logs, and --model leaves some out: give the "
                         "logs of that model alone")
    found = probe_requests(files, Options(columns=columns, format=form, tokenizer=tokenizer, tpot_ms=tpot_ms,
                                          ttft_ms=ttft_ms, model=model, lenient=lenient))
    refuse_empty(files, found)
    save_evidence(save, evidence("requests", requests=found), quiet)
    if count is not None and out is not None:
        _sample(files, count, out, width, quiet)
    if output_format == "json":
        print_json(found.model_dump(mode="json"))
    else:
        from advisor.cli.requests_text import show_requests

        show_requests(found)


def _sample(files: Sequence[str], count: int, out: Path, width: float, quiet: bool) -> None:
    from probes.requests.prompt_sample import half_width, requests_needed, sample_prompts

    needed = requests_needed(width)
    sample = sample_prompts(files, count)
    write_whole(out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in sample.lines), private=True)
    mix = ", ".join(f"{task.value} {n}" for task, n in sorted(sample.by_task.items(), key=lambda one: -one[1]))
    say(f"{len(sample.lines)} prompts of {sample.offered:,} ({mix}; {sample.strata} strata) written to {out}, readable "
        "by you alone: they hold your users' text", quiet)
    say(f"an acceptance rate known to within {width:g} (80 % interval) needs at most {needed:,} requests; "
        f"{len(sample.lines)} give {half_width(len(sample.lines)):.2f}", quiet)
