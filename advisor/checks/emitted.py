"""The checklist over a config that an advice emits: what `specadvise check` says of it, from what the advice knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from advisor.checks.finding import CheckResult, Finding
from advisor.checks.known_model import facts_of
from advisor.checks.measured import NOTHING_MEASURED, Measured, measured_of
from advisor.checks.platforms import platform_of
from advisor.checks.run import check
from advisor.checks.serve_config import ServeConfig, from_yaml
from advisor.checks.speculation import draft_reference
from advisor.checks.subject import ExpectedWorkload, KnownModel, Subject
from advisor.emit.vllm_config import RUNNER_VARIABLE
from advisor.promise import decided_candidate
from advisor.record import Record
from advisor.release_rules import picked_runner
from advisor.situation import Situation
from profiles.catalog.gpus import Gpu
from profiles.catalog.releases import Release, release
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Deployment
from profiles.errors import InputError
from profiles.evidence import Evidence
from profiles.overrides import gpu_of


@dataclass(frozen=True)
class Known:
    """What an advice knows beside the config: models are known by their shapes, as the record has them.

    Rules that read further files of a model (such as its generation_config.json) have nothing to say here, and speak
    when `specadvise check` finds the folder.
    """

    deployment: Deployment
    release: Release
    gpu_name: str
    """As the record names it; `cpu` for the CPU engine, `unknown` for hardware that nobody named."""
    gpu_count: int
    running: int | None
    """The load decided for; None before a decision."""
    target: ModelShape
    drafts: Sequence[ModelShape]
    evidence: tuple[Evidence, ...]
    measured: Measured = NOTHING_MEASURED
    """Of the candidate that the config runs."""


def known_of(situation: Situation) -> Known:
    """What is known before anything is decided."""
    gpu = situation.gpu
    return Known(
        deployment=situation.deployment, release=situation.release,
        gpu_name=gpu.name if gpu is not None else "cpu" if situation.runner == "cpu" else "unknown",
        gpu_count=situation.gpu_count, running=None, target=situation.target, drafts=tuple(situation.drafts.values()),
        evidence=situation.evidence)


def known_of_record(record: Record) -> Known:
    """What a record says beside the config it carries."""
    said = record.provenance
    runs = decided_candidate(record)
    return Known(
        deployment=record.deployment, release=release(said.vllm_version), gpu_name=said.gpu, gpu_count=said.gpu_count,
        running=record.decision.running, target=said.target, drafts=said.drafts, evidence=record.evidence,
        measured=measured_of(runs, record.candidates, record.per_position.get(runs.label, ())))


def check_emitted(record: Record) -> CheckResult:
    """What the rules say of the config a record carries, for the release, machine and load decided for."""
    return check_text(record.emitted.vllm_yaml, record.emitted.env, known_of_record(record))


def check_text(text: str, env: Mapping[str, str], known: Known) -> CheckResult:
    """What the rules say of a config's text."""
    try:
        config = from_yaml(text, "vllm.yaml", {**known.deployment.engine.env, **env})
    except InputError as error:
        # Arguments that were passed through as stated may be ones that no rule can read.
        return CheckResult(name="vllm.yaml", verdict="fail", vllm_version=known.release.version,
                           rules_version=known.release.rules, notes=(str(error),))
    return check_config(config, known)


def check_config(config: ServeConfig, known: Known) -> CheckResult:
    """What the rules say of a config that is read already."""
    named, count = _machine(known)
    subject = Subject(
        config=config,
        release=known.release,
        gpu=_gpu(named, known.deployment),
        gpu_name=named,
        gpu_count=count,
        platform=platform_of(named),
        env=config.env,
        workload=_workload(known),
        hardware=known.deployment.hardware,
        plain_runner=plain_runner(known),
        evidence=known.evidence,
        measured=known.measured,
    )
    target, draft = config.get("model"), draft_reference(subject)
    return check(replace(
        subject,
        target=_model(target, known.target) if isinstance(target, str) else None,
        draft=_model(draft, next((shape for shape in known.drafts if shape.id == draft), None)) if draft else None,
    ))


def errors_of(result: CheckResult) -> tuple[str, ...]:
    """Why a checked config must not be advised, a sentence without a full stop each; empty where nothing stands
    against it."""
    found = tuple(_sentence(finding) for finding in result.findings if finding.severity == "error")
    return found or (tuple(note.rstrip(".") for note in result.notes) if result.verdict == "fail" else ())


def _sentence(finding: Finding) -> str:
    """What is wrong and what helps, in the rule's own words."""
    remedy = finding.remedy.rstrip(".")
    help_said = f"; what helps: {remedy[0].lower()}{remedy[1:]}" if remedy else ""
    return f"{finding.message.rstrip('.')} ({finding.code}){help_said}"


def plain_runner(known: Known) -> Literal["v1", "v2"] | None:
    """The GPU runner of the deployment without speculation; None on the CPU engine."""
    engine = known.deployment.engine
    if known.gpu_name == "cpu":
        return None
    if engine.runner != "auto":
        return engine.runner
    forced: dict[str, Literal["v1", "v2"]] = {"0": "v1", "1": "v2"}
    return forced.get(engine.env.get(RUNNER_VARIABLE, "")) or picked_runner(known.release, known.target)


def _gpu(named: str, deployment: Deployment) -> Gpu | None:
    """None for `cpu`, and for hardware that nobody describes."""
    try:
        return gpu_of(named, deployment.hardware) if named and named != "cpu" else None
    except InputError:
        return None


def _model(reference: str, shape: ModelShape | None) -> KnownModel:
    return facts_of(reference, {}, shape, f"the record has no shape of {reference}")


def machine_of_record(record: Record) -> tuple[str, int | None]:
    """GPU and count that the advice was made for: `cpu` for the CPU engine, empty and None where nobody named any."""
    return _machine(known_of_record(record))


def _machine(known: Known) -> tuple[str, int | None]:
    # The record names hardware that nobody named `unknown`.
    named = "" if known.gpu_name == "unknown" else known.gpu_name
    return named, known.gpu_count if named and named != "cpu" else None


def environment_of_record(record: Record) -> dict[str, str]:
    """Variables that the advised server is started with."""
    return {**record.deployment.engine.env, **record.emitted.env}


def workload_of_record(record: Record) -> ExpectedWorkload:
    """The traffic that the advice was made for."""
    return _workload(known_of_record(record))


def _workload(known: Known) -> ExpectedWorkload:
    said = known.deployment.workload
    lengths = {"prompt_len": said.prompt_tokens, "output_len": said.output_tokens}
    return ExpectedWorkload(
        concurrency=max(1, known.running) if known.running is not None else None,
        # What nobody stated is vLLM's default, as in a check that is told nothing of the traffic.
        temperature=said.sampling.temperature if said.temperature_stated else None,
        task=max(said.tasks, key=lambda task: said.tasks[task]).value,
        **{name: max(1, round(found.mean)) for name, found in lengths.items() if found is not None},
    )
