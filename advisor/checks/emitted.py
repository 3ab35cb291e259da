"""The checklist over the config that an advice emits: what `specadvise check` says of it, from the record."""

from __future__ import annotations

from dataclasses import replace

from advisor.checks.finding import CheckResult
from advisor.checks.known_model import facts_of
from advisor.checks.platforms import platform_of
from advisor.checks.run import check
from advisor.checks.serve_config import from_yaml
from advisor.checks.speculation import draft_reference
from advisor.checks.subject import ExpectedWorkload, KnownModel, Subject
from advisor.record import Record
from profiles.catalog.gpus import Gpu, find_gpu
from profiles.catalog.releases import release
from profiles.catalog.shapes import ModelShape
from profiles.errors import InputError


def check_emitted(record: Record) -> CheckResult:
    """Findings about the record's own vllm.yaml, its variables set, for the release, machine and load decided for.

    Models are known by their shapes, as the record has them: rules that read further files of a model (such as its
    generation_config.json) have nothing to say here, and speak when `specadvise check` finds the folder.
    """
    known = record.provenance
    named, count = machine_of_record(record)
    environment = environment_of_record(record)
    facts = release(known.vllm_version)
    try:
        config = from_yaml(record.emitted.vllm_yaml, "vllm.yaml", environment)
    except InputError as error:
        # Arguments that were passed through as stated may be ones that no rule can read.
        return CheckResult(name="vllm.yaml", verdict="fail", vllm_version=known.vllm_version, rules_version=facts.rules,
                           notes=(str(error),))
    subject = Subject(
        config=config,
        release=facts,
        gpu=_gpu(named),
        gpu_name=named,
        gpu_count=count,
        platform=platform_of(named),
        env=environment,
        workload=workload_of_record(record),
    )
    target = subject.config.get("model")
    draft = draft_reference(subject)
    return check(replace(
        subject,
        target=_model(target, known.target) if isinstance(target, str) else None,
        draft=_model(draft, next((shape for shape in known.drafts if shape.id == draft), None)) if draft else None,
    ))


def _gpu(named: str) -> Gpu | None:
    """None for `cpu`, and for hardware that only the deployment describes."""
    try:
        return find_gpu(named) if named and named != "cpu" else None
    except InputError:
        return None


def _model(reference: str, shape: ModelShape | None) -> KnownModel:
    return facts_of(reference, {}, shape, f"the record has no shape of {reference}")


def machine_of_record(record: Record) -> tuple[str, int | None]:
    """GPU and count that the advice was made for: `cpu` for the CPU engine, empty and None where nobody named any."""
    # The record names hardware that nobody named `unknown`.
    named = "" if record.provenance.gpu == "unknown" else record.provenance.gpu
    return named, record.provenance.gpu_count if named and named != "cpu" else None


def environment_of_record(record: Record) -> dict[str, str]:
    """Variables that the advised server is started with."""
    return {**record.deployment.engine.env, **record.emitted.env}


def workload_of_record(record: Record) -> ExpectedWorkload:
    """The traffic that the advice was made for."""
    said = record.deployment.workload
    lengths = {"prompt_len": said.prompt_tokens, "output_len": said.output_tokens}
    return ExpectedWorkload(
        concurrency=max(1, record.decision.running),
        temperature=said.sampling.temperature,
        task=max(said.tasks, key=lambda task: said.tasks[task]).value,
        **{name: max(1, round(found.mean)) for name, found in lengths.items() if found is not None},
    )
