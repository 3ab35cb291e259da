"""What a probed GPU has left once a target, its draft, graphs and the workload's KV are in.

Here probes and advisor meet: the memory plan is the advisor's, the device is the probe's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from profiles.deployment import NO_SPECULATION, Candidate, Deployment
from profiles.evidence import Evidence, GpuDevice, GpuEvidence, GpuProcess

GIB = float(2**30)


@dataclass(frozen=True)
class Headroom:
    """One candidate on one device or MIG instance. GiB are 2**30 bytes; None where the memory is unknown."""

    place: str
    target: str
    candidate: str
    """`alone`, or the candidate's label."""
    gpu_memory_gib: float | None
    usable_gib: float | None
    """What the engine may take: its share of the memory, other processes' part off."""
    target_weights_gib: float
    draft_weights_gib: float
    overhead_gib: float | None
    kv_bytes_per_token: float
    """Target and draft together."""
    kv_room_gib: float | None
    kv_tokens: int | None
    """Tokens of KV that fit beside weights and graphs."""
    requests: float
    context_tokens: float
    kv_need_tokens: int
    kv_need_gib: float
    left_gib: float | None
    """Negative: that much is missing."""
    left_tokens: int | None
    fits: bool | None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def headrooms(gpus: GpuEvidence, deployment: Deployment, base: Path, context: int | None) -> list[Headroom]:
    """One entry per device (or MIG instance) and candidate, the target alone first.

    context: tokens one request holds; by default the workload's mean prompt and output, else the engine's longest.
    Models resolve as everywhere (folder, cache, catalog, hub); ModelNotFound where they do not.
    """
    from advisor.compatibility import unusable
    from advisor.situation import Situation
    from probes.model import resolve_model
    from profiles.catalog.options import newest_whole
    from profiles.catalog.releases import release

    engine = deployment.engine
    target = resolve_model(deployment.target, base)
    candidates = tuple(c for c in deployment.candidates if c.method != "none")
    named = {c.draft.id: c.draft for c in deployment.candidates if c.draft is not None}
    drafts = {key: resolve_model(reference, base) for key, reference in named.items()}
    known = release(engine.vllm_version or newest_whole())
    found: list[Headroom] = []
    for place, device in _places(gpus):
        evidence = Evidence(kind="gpu", collected_at="", tool_version="", command="",
                            gpu=GpuEvidence(devices=(device,)))
        situation = Situation(deployment=deployment, target=target, drafts=drafts, candidates=candidates,
                              release=known, runner="v1", gpu=None, gpu_count=1, evidence=(evidence,))
        # What cannot start beside this target takes no memory of it.
        out = {candidate.label: why for candidate in candidates if (why := unusable(
            candidate, target, drafts.get(candidate.draft.id) if candidate.draft is not None else None, engine, known,
            "v1")) is not None}
        left_out = tuple(f"{label} is left out: {why}" for label, why in out.items())
        rows = [_headroom(situation, place, candidate, context)
                for candidate in (NO_SPECULATION, *(c for c in candidates if c.label not in out))]
        found += [replace(rows[0], notes=(*rows[0].notes, *left_out)), *rows[1:]]
    return found


def _places(gpus: GpuEvidence) -> Sequence[tuple[str, GpuDevice]]:
    """Where an engine can run: whole devices, and each MIG instance as the small device it is."""
    places: list[tuple[str, GpuDevice]] = []
    for device in gpus.devices:
        if not device.mig_enabled:
            places.append((f"GPU {device.index}", _with_used_counted(device)))
            continue
        for number, instance in enumerate(device.mig):
            alone = GpuDevice(index=device.index, name=f"{device.name} {instance.name}",
                              total_bytes=instance.total_bytes, used_bytes=instance.used_bytes,
                              free_bytes=instance.free_bytes)
            places.append((f"GPU {device.index} {instance.name} (instance {number})", _with_used_counted(alone)))
    return places


def _with_used_counted(device: GpuDevice) -> GpuDevice:
    """Used memory is somebody's, also where no process shows it: in containers, and beside the CPU's own programs."""
    if not device.used_bytes or (device.processes is not None and not device.unified_memory):
        return device
    return device.model_copy(update={"processes": (GpuProcess(pid=0, used_bytes=device.used_bytes),)})


def _headroom(situation: Any, place: str, candidate: Candidate, context: int | None) -> Headroom:
    from advisor.cost.memory import plan_memory, request_tokens

    plan = plan_memory(situation, candidate, max(candidate.k) if candidate is not NO_SPECULATION else 0)
    alone = candidate is NO_SPECULATION
    deployment: Deployment = situation.deployment
    per_token = plan.kv_bytes_per_token_target + (0.0 if alone else plan.kv_bytes_per_token_draft)
    kv_tokens = plan.kv_tokens_without if alone else plan.kv_tokens_with
    stated = deployment.workload.prompt_tokens is not None or deployment.workload.output_tokens is not None
    tokens = float(context) if context is not None else request_tokens(situation)
    notes = list(plan.notes)
    if context is None and not stated:
        notes.append(f"no lengths are stated: {tokens:g} tokens a request are assumed; give --context or a deployment")
    requests = deployment.workload.concurrency or 1.0
    need = round(requests * tokens)
    draft_gib = 0.0 if alone else plan.draft_weights_gib
    room = None
    overhead = plan.overhead_gib if alone else plan.overhead_with_gib
    if plan.kv_stated_by:
        room = plan.kv_gib_without if alone else plan.kv_gib_with
    elif plan.usable_gib is not None and overhead is not None:
        room = plan.usable_gib - plan.target_weights_gib - draft_gib - overhead
    left = room - need * per_token / GIB if room is not None else None
    return Headroom(
        place=place, target=situation.target.id, candidate="alone" if alone else candidate.label,
        gpu_memory_gib=plan.gpu_memory_gib, usable_gib=plan.usable_gib, target_weights_gib=plan.target_weights_gib,
        draft_weights_gib=draft_gib, overhead_gib=overhead, kv_bytes_per_token=per_token,
        kv_room_gib=room, kv_tokens=kv_tokens, requests=requests, context_tokens=tokens, kv_need_tokens=need,
        kv_need_gib=need * per_token / GIB, left_gib=left,
        left_tokens=None if kv_tokens is None else kv_tokens - need,
        fits=None if left is None else left >= 0, notes=tuple(notes))
