"""All that a decision may look at, in one immutable value: what was stated, what is known, what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from advisor.record import Proposal
from profiles.catalog.gpus import Gpu
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate, Deployment
from profiles.evidence import Evidence, GpuEvidence, ServerEvidence, TrialEvidence
from profiles.recorded import RecordedAcceptance

Runner = Literal["v1", "v2", "cpu"]


@dataclass(frozen=True)
class Situation:
    """Input of every advisor function. `drafts` is keyed by `ModelRef.id` as the candidate names it."""

    deployment: Deployment
    target: ModelShape
    drafts: dict[str, ModelShape]
    candidates: tuple[Candidate, ...]
    """What to price besides the null candidate: the deployment's, or those proposed from the catalog."""
    release: Release
    runner: Runner
    gpu: Gpu | None
    """None on the CPU engine, or where the hardware is unknown."""
    gpu_count: int
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)
    proposals: tuple[Proposal, ...] = ()
    """What the catalog has for the target, where the deployment names no candidates."""
    recorded_fields: frozenset[str] = frozenset()
    """Fields of the deployment's workload that nobody stated and recorded requests filled in (`sampling`: its
    temperature)."""
    judged: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the checklist has said of configs: kept by `advisor.startable.judged`, which alone reads it. Copies of a
    situation share it."""

    @property
    def trial(self) -> TrialEvidence | None:
        """The latest trial, if any."""
        return next((e.trial for e in reversed(self.evidence) if e.trial is not None), None)

    @property
    def recorded(self) -> tuple[RecordedAcceptance, ...]:
        """What was worked out over recorded outputs, newest first."""
        return tuple(found for e in reversed(self.evidence) for found in (e.replay, e.scoring) if found is not None)

    @property
    def server(self) -> ServerEvidence | None:
        return next((e.server for e in reversed(self.evidence) if e.server is not None), None)

    @property
    def gpu_evidence(self) -> GpuEvidence | None:
        return next((e.gpu for e in reversed(self.evidence) if e.gpu is not None), None)
