"""Candidates proposed from the catalog where the deployment names none, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.record import Proposal
from profiles.catalog.models import DraftHead, heads_for, kinship, small_models_for
from profiles.catalog.mtp import shape_refuses_mtp
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate
from profiles.methods import METHODS, Method
from profiles.model_ref import ModelRef

_SMALLEST_RATIO, _LARGEST_RATIO = 0.003, 0.25
_USUAL_RATIO = 0.05
_MOST_DRAFTS = 2
_KIN = ("its own series, ", "its own generation, ", "", "another generation of its family, ", "another family, ")
"""What is said of a draft, by its kinship to the target."""


def propose(
    target: ModelShape, release: Release, *, on_cpu: bool = False, max_k: int = 5
) -> tuple[tuple[Candidate, ...], tuple[Proposal, ...]]:
    """Candidates for a target, and everything the catalog has for it with the reason why it is one or is not.

    Heads trained for this very target, layers in its own checkpoint, at most two small models of the same tokenizer
    family, and the lookups, which need nothing. Only methods this release starts (on the CPU engine, if asked).
    """
    found: list[Candidate] = []
    said: list[Proposal] = []
    for candidate, reason in _all(target, tuple(range(1, max_k + 1))):
        refusal = _unstartable(METHODS.get(candidate.method), target, release, on_cpu)
        if refusal is None:
            found.append(candidate)
        said.append(proposal_of(candidate, refusal or reason, taken=refusal is None))
    for head in heads_for(target.id):
        lacking = _unpriceable(head)
        if lacking is not None:
            said.append(Proposal(label=f"{head.method} {_short(head.id)}", method=head.method, draft=head.id,
                                 taken=False, reason=lacking))
    return tuple(found), tuple(said)


def heads_to_price(target_id: str, method: str | None = None) -> list[DraftHead]:
    """The catalog's heads for a target, of one method where one is named, that can be priced; confirmed ones first."""
    return [head for head in heads_for(target_id)
            if (method is None or head.method == method) and _unpriceable(head) is None]


def _unpriceable(head: DraftHead) -> str | None:
    """Why a head of the catalog is no candidate whatever the release; None where it may be one."""
    described = METHODS.get(head.method)
    if described is None:
        return f"vLLM has no method {head.method}"
    lacking = sorted(set(head.settings) - described.settings)
    return f"it needs {', '.join(lacking)}, which is not priced here" if lacking else None


def proposal_of(candidate: Candidate, reason: str, *, taken: bool) -> Proposal:
    """What the record says of one."""
    draft = candidate.draft.id if candidate.draft is not None else None
    return Proposal(label=candidate.label, method=candidate.method, draft=draft, taken=taken, reason=reason)


def _unstartable(described: Method | None, target: ModelShape, release: Release, on_cpu: bool) -> str | None:
    if described is None:
        return "vLLM has no such method"
    if described.name not in release.methods:
        return f"vLLM {release.version} does not start {described.name}"
    if described.drafter == "native" and (refusal := shape_refuses_mtp(target, release)):
        return refusal
    if on_cpu and not described.runs_on_cpu:
        return f"{described.name} does not run on vLLM's CPU engine"
    return None


def _all(target: ModelShape, ks: tuple[int, ...]) -> Iterator[tuple[Candidate, str]]:
    for head in heads_to_price(target.id):
        draft = ModelRef(id=head.id)
        yield Candidate(method=head.method, draft=draft, k=ks, settings=head.settings), head_reason(head)
    layers = target.mtp_layers
    if layers > 0:
        # More steps than layers must be a multiple of them.
        allowed = tuple(k for k in ks if k <= layers or k % layers == 0) or (layers,)
        own = "layer that predicts" if layers == 1 else "layers that predict"
        yield Candidate(method="mtp", k=allowed), f"the checkpoint brings {layers} {own} further tokens"
    for small in _small_models(target):
        share = small.params / target.params
        near = _KIN[kinship(small.id, target.id)]
        yield (
            Candidate(method="draft_model", draft=ModelRef(id=small.id), k=ks),
            f"{near}the same tokenizer and vocabulary ({target.vocab_size:,} tokens), {100 * share:.1f} % of the "
            "target's parameters",
        )
    for name in ("ngram", "suffix"):
        described = METHODS[name]
        package = f"; needs the package {described.package} beside the engine" if described.package else ""
        yield Candidate(method=name, k=ks), f"needs no draft: it copies what the text repeats{package}"


def _small_models(target: ModelShape) -> list[ModelShape]:
    """At most two of the nearest kin there is, those nearest to the usual size of a draft first: where a model of its
    own generation could draft, one of an older generation is no candidate."""
    within = [
        model
        for model in small_models_for(target)
        if _SMALLEST_RATIO <= model.params / max(1, target.params) <= _LARGEST_RATIO
    ]

    nearest = min((kinship(model.id, target.id) for model in within), default=0)

    def rank(model: ModelShape) -> float:
        share = model.active_params / max(1, target.active_params)
        return abs(math.log(share / _USUAL_RATIO))

    return sorted((model for model in within if kinship(model.id, target.id) == nearest), key=rank)[:_MOST_DRAFTS]


def head_reason(head: DraftHead) -> str:
    """Why a head is a candidate, without a full stop."""
    shape = {"config": "its published shape", "target": "a shape after the target's"}.get(head.shape_from, "")
    priced = f", priced with {shape}" if shape else ""
    doubt = "" if head.check == "ok" else ", the catalog entry not confirmed"
    return f"a head trained for this target{priced}{doubt}"


def _short(model_id: str) -> str:
    return model_id.rstrip("/").rsplit("/", 1)[-1]
