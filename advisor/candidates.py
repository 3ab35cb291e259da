"""Candidates proposed from the catalog where the deployment names none."""

from __future__ import annotations

from profiles.catalog.models import heads_for, small_models_for
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate, ModelRef
from profiles.methods import METHODS, Method

_SMALLEST_RATIO, _LARGEST_RATIO = 0.003, 0.25
_MOST_DRAFTS = 2


def _usable(described: Method, release: Release, on_cpu: bool) -> bool:
    return described.name in release.methods and (described.runs_on_cpu or not on_cpu)


def propose(
    target: ModelShape, release: Release, *, on_cpu: bool = False, max_k: int = 5
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Candidates for a target and the assumptions they rest on.

    Heads trained for this very target, layers in its own checkpoint, at most two small models of the same tokenizer
    family, and the lookups, which need nothing. Only methods this release starts (on the CPU engine, if asked).
    """
    ks = tuple(range(1, max_k + 1))
    found: list[Candidate] = []
    said: list[str] = []
    for head in heads_for(target.id):
        if head.method in METHODS and _usable(METHODS[head.method], release, on_cpu):
            found.append(Candidate(method=head.method, draft=ModelRef(id=head.id), k=ks))
    if target.mtp_layers > 0 and _usable(METHODS["mtp"], release, on_cpu):
        # More steps than layers must be a multiple of them.
        layers = target.mtp_layers
        found.append(Candidate(method="mtp", k=tuple(k for k in ks if k <= layers or k % layers == 0) or (layers,)))
    if _usable(METHODS["draft_model"], release, on_cpu):
        small = [
            m for m in small_models_for(target) if _SMALLEST_RATIO <= m.params / max(1, target.params) <= _LARGEST_RATIO
        ]
        small.sort(key=lambda m: abs(m.params / target.params - 0.05))
        found += [Candidate(method="draft_model", draft=ModelRef(id=m.id), k=ks) for m in small[:_MOST_DRAFTS]]
    for name in ("ngram", "suffix"):
        described = METHODS[name]
        if _usable(described, release, on_cpu):
            found.append(Candidate(method=name, k=ks))
            if described.package:
                said.append(
                    f"{described.title} is considered: it needs the package {described.package} beside the engine"
                )
    if found:
        said.insert(0, "candidates proposed from the catalog: " + ", ".join(c.label for c in found))
    return tuple(found), tuple(said)
