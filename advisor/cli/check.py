"""`specadvise check`: the rules over serve configs, before anything is started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli.number_types import Whole
from advisor.cli.output import print_text, quiet_option, stdout_terminal

if TYPE_CHECKING:
    from advisor.checks.subject import ExpectedWorkload
    from advisor.record import Record


def _formats() -> tuple[str, ...]:
    from advisor.report.findings import formats

    return ("text", *(name for name in formats() if name != "text"))


@click.command()
@click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")
@click.option("--vllm-version", help="Release it has to run on. When left out: the one of --deployment or --record, "
              "else the one that the file's own header names (where `advise` wrote it), else the installed one, else "
              "the newest known.")
@click.option("--gpu", default="", help="GPU name (H100, RTX 4090, MI300X, ...), or `cpu`.")
@click.option("--gpus", type=Whole(0, 10_000), help="How many of them the server may use.")
@click.option("--env", "env", multiple=True, metavar="KEY=VALUE", help="Environment of the server. Repeatable.")
@click.option("--workload", type=click.Path(path_type=Path), help="JSON with concurrency, prompt_len, output_len, "
              "temperature, task, logprobs; all optional.")
@click.option("--deployment", type=click.Path(path_type=Path), metavar="FILE",
              help="Deployment file: release, hardware, environment and workload where no flag states them.")
@click.option("--record", type=click.Path(path_type=Path), metavar="RECORD.json",
              help="Record of the approved advice: say what changed since, and whether the advice still holds. "
                   "Release, GPU, "
              "environment and workload are the record's where nothing else states them.")
@click.option("--policy", type=click.Path(path_type=Path), metavar="FILE",
              help="Policy file with severities and accepted findings; .specadvise.yaml in the config's folder or "
              "above it when left out.")
@click.option("--fail-on", type=click.Choice(("error", "warn", "info")), default="error", show_default=True,
              help="Least severity that makes the check fail (exit code 1).")
@click.option("--format", "output_format", type=click.Choice(_formats()), default="text", show_default=True,
              help="How the result is printed on stdout.")
@click.option("--also", multiple=True, metavar="FORMAT=FILE",
              help="Write the result to a file in a further format, such as sarif=check.sarif. Repeatable.")
@quiet_option
def check(
    configs: tuple[str, ...],
    vllm_version: str | None,
    gpu: str,
    gpus: int | None,
    env: tuple[str, ...],
    workload: Path | None,
    deployment: Path | None,
    record: Path | None,
    policy: Path | None,
    fail_on: str,
    output_format: str,
    also: tuple[str, ...],
    quiet: bool,
) -> int:
    """Check vLLM serve configs against what is known of their release, models and hardware.

    Needs no GPU, no weights and no network. CONFIG is what `vllm serve --config` takes, or what contains a server's
    start: a script, Dockerfile, compose file, Kubernetes manifest or chart values; `-` is stdin, and a whole `vllm
    serve ...` line in quotes is read too. Model folders are relative to the file. VLLM_* variables of this shell count
    like --env.
    """
    from advisor.cli.check_input import judge, read_given
    from advisor.cli.check_models import SubjectBuilder
    from advisor.cli.workload_file import load_workload
    from advisor.report.findings import render
    from profiles.catalog.releases import release

    stated = _deployment(deployment) if deployment is not None else _Stated()
    approved = _record(record) if record is not None else None
    recorded = _recorded(approved) if approved is not None else _Stated()
    taken = _taken_from_record(recorded, stated, vllm_version, gpu, gpus)
    gpu = gpu or stated.gpu or recorded.gpu
    gpus = next((count for count in (gpus, stated.gpus, recorded.gpus) if count is not None), None)
    around = {**_shell_environment(), **stated.env, **_pairs(env)}
    given = [one for argument in configs for one in read_given(argument, around)]
    told = ((vllm_version, ""), (stated.version, "as the deployment file states"),
            (recorded.version, "as the record has it"))
    named = next(((name, who) for name, who in told if name), None)
    version, source = named or _unstated_version()
    builder = SubjectBuilder(
        release=release(version),
        release_from=source,
        by_header=named is None,
        gpu_name=gpu,
        gpu_count=gpus,
        env={**stated.env, **_pairs(env)},
        workload=load_workload(workload) if workload is not None else stated.workload or recorded.workload,
        record=approved,
        unstated_env=recorded.env,
    )
    further = _further(also)
    results = judge(given, builder, fail_on, policy)
    if taken:
        note = f"judged for {taken}, as {record} has it"
        results = [result.model_copy(update={"notes": (*result.notes, note)}) for result in results]
    if further:
        from advisor.cli.output import write_together

        write_together({path: render(results, name) for path, name in further.items()})
    seen = stdout_terminal()
    print_text(render(results, output_format, width=seen.width, color=seen.color), seen.color)
    return 1 if any(result.verdict == "fail" for result in results) else 0


@dataclass(frozen=True)
class _Stated:
    """What a deployment file or a record says where no flag does."""

    version: str | None = None
    gpu: str = ""
    gpus: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workload: ExpectedWorkload | None = None


def _deployment(path: Path) -> _Stated:
    from advisor.checks.subject import ExpectedWorkload
    from advisor.cli.deployment_file import load_deployment

    loaded = load_deployment(path)
    said = loaded.workload
    lengths = {"prompt_len": said.prompt_tokens, "output_len": said.output_tokens}
    expected = {"concurrency": said.concurrency, **{name: at.mean for name, at in lengths.items() if at is not None}}
    whole = {name: round(value) for name, value in expected.items() if value is not None and value >= 1}
    named = loaded.hardware.gpu.strip()
    return _Stated(
        version=loaded.engine.vllm_version,
        gpu="" if named.lower() == "auto" else named,
        gpus=loaded.hardware.count,
        env=loaded.engine.env,
        workload=ExpectedWorkload.model_validate(whole) if whole else None,
    )


def _recorded(approved: Record) -> _Stated:
    """What the approved advice was made for: it holds where neither a flag nor a deployment file says otherwise."""
    from advisor.checks.emitted import environment_of_record, machine_of_record, workload_of_record
    from advisor.checks.platforms import platform_of

    gpu, count = machine_of_record(approved)
    # Hardware that only the deployment described has no figures here.
    known = gpu if platform_of(gpu) != "unknown" else ""
    return _Stated(version=approved.provenance.vllm_version, gpu=known, gpus=count if known else None,
                   env=environment_of_record(approved), workload=workload_of_record(approved))


def _taken_from_record(recorded: _Stated, stated: _Stated, version: str | None, gpu: str, gpus: int | None) -> str:
    """What of release and machine only the record says, in words; empty where all is said elsewhere."""
    parts = []
    if recorded.version is not None and not (version or stated.version):
        parts.append(f"vLLM {recorded.version}")
    if recorded.gpu and not (gpu or stated.gpu):
        count = next((one for one in (gpus, stated.gpus, recorded.gpus) if one is not None), None)
        parts.append(f"{count} x {recorded.gpu}" if count else recorded.gpu)
    return " on ".join(parts)


def _unstated_version() -> tuple[str, str]:
    """The installed release, else the newest known, and which of the two it is."""
    from advisor.cli.gathering import installed_version
    from profiles.catalog.options import newest_whole

    installed = installed_version()
    return (installed, "the installed one") if installed else (newest_whole(), "the newest known: nobody states one")


def _shell_environment() -> dict[str, str]:
    """Variables of this shell that change how the engine starts."""
    wanted = ("VLLM_", "CUDA_VISIBLE_DEVICES")
    return {name: value for name, value in os.environ.items() if name.startswith(wanted)}


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    from profiles.errors import InputError
    from profiles.once import once

    def pairs() -> Iterator[tuple[str, str]]:
        for number, text in enumerate(texts, 1):
            name, equals, value = text.partition("=")
            if not equals or not name:
                # The text is not shown: without a name it may be the secret itself.
                raise InputError(f"--env number {number} is not KEY=VALUE: expected for example "
                                 "VLLM_USE_V2_MODEL_RUNNER=0")
            yield name, value

    return once("--env", pairs())


def _further(texts: Sequence[str]) -> dict[Path, str]:
    """File to format of `--also`, looked at before anything is read."""
    from advisor.cli.output import place_of
    from profiles.errors import InputError

    found: dict[Path, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file or name not in _formats():
            raise InputError(f"--also {text!r}: expected FORMAT=FILE with a format of {', '.join(_formats())}")
        # Better said now than after everything is read.
        path = place_of(Path(file))
        if os.path.realpath(path) in {os.path.realpath(other) for other in found}:
            raise InputError(f"--also names {file} twice: give each format a file of its own")
        found[path] = name
    return found


def _record(path: Path) -> Record:
    from advisor.cli.report import load_record

    return load_record(path)
