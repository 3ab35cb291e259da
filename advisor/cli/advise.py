"""`specadvise advise`: a deployment in; a recommendation, a record, a report and a config that boots out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.advise_flags import flags_of
from advisor.cli.number_types import Duration, Number, Whole
from advisor.cli.output import format_option, place_of, quiet_option, result_folder, say, write_together
from advisor.cli.server_source import TOKEN_VARIABLE
from advisor.cli.unread_options import refuse_unread
from advisor.emit.forms import form_names
from profiles.errors import EXIT_ABSTAINED, EXIT_OK, EXIT_PROBE_FAILED, InputError
from profiles.printable import escaped
from profiles.schema import MAX_CONCURRENCY, MAX_TEMPERATURE, MAX_TOKENS

if TYPE_CHECKING:
    from advisor.capacity.document import CapacityPlan
    from advisor.record import Record
    from advisor.situation import Situation

CONFIG, RECORD, REPORT = "vllm.yaml", "record.json", "report.html"
"""What every run writes into its --out folder."""


@click.command()
@click.argument("deployment", required=False, metavar="[DEPLOYMENT.yaml]")
@click.option("--target", help="Target model: HF id or folder.")
@click.option("--draft", multiple=True, help="Draft model or head to consider; repeat for several.")
@click.option("--method", multiple=True, help="Method to consider (ngram, suffix, draft_model, eagle3, ...); repeat. "
              "One of trained heads without a --draft takes the heads that the catalog has for the target.")
@click.option("-k", "--k", "k", help="Speculative tokens to look at: 3, 1,3,5 or 1-5.")
@click.option("--gpu", help="GPU by name (H100, RTX PRO 6000, ...), `cpu`, or `auto` to probe this machine.")
@click.option("--gpus", type=Whole(0, 10_000),
              help="GPUs the engine may use; split over them unless the parallel sizes are stated.")
@click.option("--vllm-version", help="vLLM release the config is for; the installed one by default.")
@click.option("--tensor-parallel-size", type=Whole(1, 10_000), help="GPUs one layer is split over.")
@click.option("--max-model-len", type=Whole(1, MAX_TOKENS), help="Longest prompt + output in tokens.")
@click.option("--max-num-seqs", type=Whole(1, MAX_CONCURRENCY), help="Most requests in one step.")
@click.option("--gpu-memory-utilization", type=Number(0, 1, above=True),
              help="Share of each GPU the engine may take.")
@click.option("--concurrency", type=Number(0, MAX_CONCURRENCY, above=True),
              help="Requests running at once at the usual load.")
@click.option("--rate", type=Number(0, MAX_CONCURRENCY, above=True),
              help="Requests per second of the whole deployment, where concurrency is not known.")
@click.option("--prompt-len", type=Number(0, MAX_TOKENS, above=True), help="Mean prompt length in tokens.")
@click.option("--output-len", type=Number(0, MAX_TOKENS, above=True), help="Mean output length in tokens.")
@click.option("--task", multiple=True, help="Task family (code, json, chat, creative, ...); repeat for a mix.")
@click.option("--temperature", type=Number(0, MAX_TEMPERATURE), help="Sampling temperature most requests use.")
@click.option("--goal", help="What to optimise: latency, throughput or cost.")
@click.option("--worthwhile-gain", type=Number(0, 1),
              help="Smallest relative gain worth the complexity (0.05 is 5 %).")
@click.option("--server", help="Running vLLM whose load is read (URL), or a saved dump of its metrics.")
@click.option("--trial/--no-trial", "trial", default=None, help="Run a short trial on the real engine here.")
@click.option("--budget", type=Duration(), help="With --trial: time it may take, 90s, 10m or 1h.")
@click.option("--prompts", help="With --trial: JSONL of your own prompts.")
@click.option("--resume", is_flag=True, help="With --trial: go on with one that was interrupted (same --out).")
@click.option("--evidence", multiple=True, help="Saved evidence file; repeat for several.")
@click.option("--recordings", multiple=True, metavar="FILE",
              help="Recorded prompts with outputs: lookups are replayed over them, drafts scored with --trial; repeat.")
@click.option("--offline", is_flag=True, help="Never ask the model hub.")
@click.option("--emit", multiple=True, type=click.Choice(form_names()),
              help="Write the deployment in this form too, or alert rules (prometheus), beside vllm.yaml; repeat.")
@click.option("--plan", "with_plan", is_flag=True,
              help="Simulate the traffic too: latencies against the arrival rate, replicas and cost in the report.")
@click.option("--out", default="out", show_default=True, help="Folder for vllm.yaml, record.json and report.html.")
@format_option("text", "json", "markdown")
@quiet_option
def advise(
    deployment: str | None,
    resume: bool,
    evidence: tuple[str, ...],
    recordings: tuple[str, ...],
    offline: bool,
    emit: tuple[str, ...],
    with_plan: bool,
    out: str,
    output_format: str,
    quiet: bool,
    **given: Any,
) -> int:
    """Decide whether speculation pays here, and write the vLLM config that does it.

    State the deployment in a file (`specadvise init` writes one), with flags, or both: flags win. Writes
    vllm.yaml, record.json and report.html into the folder --out and prints the report.

    Exit codes: 0 decided, 2 unreadable input, 3 could not decide, 4 a probe or the engine failed and nothing could
    be concluded.
    """
    from advisor.cli.advise_flags import ks_of
    from advisor.cli.deployment_file import load_deployment
    from advisor.cli.gathering import gather, with_evidence
    from advisor.cli.recorded_stage import over_recordings
    from advisor.cli.report import print_record

    if deployment is None and given.get("target") is None:
        raise InputError(
            "no deployment is given: name a file (`specadvise init` writes one), or state it with --target, "
            "--gpu, --concurrency and the like"
        )
    flags = flags_of(given)
    path = Path(deployment) if deployment is not None else None
    filled: list[str] = []
    stated = load_deployment(path, flags, filled)
    refuse_unread(stated.trial.enabled, "with --trial", "budget", "prompts", "resume")
    if evidence:
        files = (*stated.sources.files, *(os.path.abspath(name) for name in evidence))
        stated = stated.model_copy(update={"sources": stated.sources.model_copy(update={"files": files})})
    if recordings:
        files = (*stated.sources.recordings, *(os.path.abspath(name) for name in recordings))
        stated = stated.model_copy(update={"sources": stated.sources.model_copy(update={"recordings": files})})
    # --k that no --method or --draft takes is for the file's candidates, or for those that are proposed.
    ks = ks_of(given["k"]) if given.get("k") is not None and ("candidates",) not in flags else None
    if ks is not None:
        named = tuple(c if c.method == "none" else c.model_copy(update={"k": ks}) for c in stated.candidates)
        stated = stated.model_copy(update={"candidates": named, "k": ks})
    base = path.absolute().parent if path is not None else Path.cwd()
    folder = Path(out)

    def warn(message: str) -> None:
        say(f"specadvise: {message}")

    with result_folder(folder):
        situation = gather(stated, base, offline=offline, token=os.environ.get(TOKEN_VARIABLE), warn=warn,
                           noted=filled)
        # Better said now than after a trial.
        for name in (CONFIG, RECORD, REPORT):
            place_of(folder / name)
        situation = over_recordings(situation, base, engine=stated.trial.enabled, offline=offline, warn=warn)
        engine_failed = False
        if stated.trial.enabled:
            from advisor.cli.trial_stage import run_stage

            found, measured = run_stage(situation, base, folder, resume=resume, quiet=quiet, warn=warn)
            engine_failed = not measured
            if found is not None:
                situation = with_evidence(situation, [found])
        record = _decide(situation)
        if with_plan:
            record = record.model_copy(update={"capacity": _planned(situation)})
        names = _write(record, folder, emit, warn)
    print_record(record, output_format)
    say(f"Wrote {folder / names[0]}, {', '.join(names[1:-1])} and {names[-1]}", quiet)
    if record.decision.enable is None:
        return EXIT_PROBE_FAILED if engine_failed else EXIT_ABSTAINED
    return EXIT_OK


def _decide(situation: Any) -> Record:
    from advisor.advice import advise as decide
    from advisor.cli.provenance import now

    record: Record = decide(situation, now())
    return record


def _planned(situation: Situation) -> CapacityPlan:
    """The plan with nothing further asked: the catalog's prices, the peak that the workload implies."""
    from advisor.capacity.plan import Question, capacity_plan
    from profiles.catalog.prices import price_table

    return capacity_plan(situation, Question(prices=price_table(None)))


def _write(record: Record, folder: Path, forms: tuple[str, ...], warn: Callable[[str], None]) -> list[str]:
    """All files or none. Returns their names."""
    from advisor.emit.forms import write_forms
    from advisor.report import render

    written = write_forms(record, forms)
    files = {
        CONFIG: record.emitted.vllm_yaml,
        RECORD: escaped(record.model_dump_json(indent=2)) + "\n",
        REPORT: render(record, "html"),
    }
    said: list[str] = []
    for name, form in written.items():
        files.update(form.files)
        said += [f"{name}: {note}" for note in form.notes]
    write_together({folder / name: text for name, text in files.items()})
    for note in [*said, *_left_over(folder, forms)]:
        warn(note)
    return list(files)


def _left_over(folder: Path, forms: tuple[str, ...]) -> Iterator[str]:
    """Forms of an earlier run: they still start what was advised then."""
    from advisor.emit.forms import form

    for name in form_names():
        path = folder / form(name).FILES[0]
        if name in forms or not path.is_file():
            continue
        with path.open(encoding="utf-8", errors="replace") as stream:
            if stream.readline().startswith("# Written by specadvise"):
                yield f"{path} is an earlier run's and may start another config: --emit {name} writes it anew"
