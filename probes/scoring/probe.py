"""Acceptance of draft models over recorded outputs: one pass of each draft, every k at once.

A draft proposes from its own continuation. As long as what it proposed was accepted, that continuation is the recorded
text, so its first choices over the recorded text tell exactly how far each of its drafts would have come.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from probes.replay.estimate import best_settings, curve
from probes.replay.tokens import TokenRequest, TokenRequests
from probes.replay.walk import Row, run_lengths, walk
from probes.scoring.sampling import SampledAs
from probes.trial.engine_errors import EngineFailure
from probes.trial.engine_process import EngineProcess
from profiles.errors import EngineError
from profiles.recorded import AcceptanceCurve, RecordedAcceptance
from profiles.schema import Quantity, Source

OF_TARGET = 0.93
"""Greedy outputs of the target agree with its own first choices up to choices that rounding decides: 152 of 156 of a
453 M target that wrote on vLLM and was asked on transformers, both in bfloat16. From here on they are taken as its
own."""
CHECKED = 16
"""Requests of which it is asked whether the target wrote them."""
BATCH_TOKENS = 4096
"""Tokens given to the child at a time: short answers, so that silence means trouble."""
_KV_ROOM = "VLLM_CPU_KVCACHE_SPACE"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to score, and with what."""

    drafts: Sequence[str]
    """As the user named them."""
    folders: Mapping[str, str]
    """What the backend loads, by name: drafts and target."""
    target: str
    backend: str
    """A key of BACKENDS."""
    sampled: SampledAs = field(default_factory=SampledAs)
    most: int = 8
    regenerate: bool = False
    """The target writes the outputs anew first."""
    check_target: bool = True
    """Ask the target whether a few of the outputs are its own; a target that samples is always asked."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """For the backend, beside the model."""
    env: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


@dataclass
class _Models:
    """Starts the children, one at a time."""

    plan: Plan
    requests: Sequence[TokenRequest]

    def start(self, name: str) -> EngineProcess:
        arguments: dict[str, Any] = {"backend": self.plan.backend, "model": self.plan.folders[name],
                                     **self.plan.arguments}
        if self.plan.backend == "vllm":
            arguments = {"enforce_eager": True, "max_num_seqs": 8,
                         "max_model_len": max(len(r.ids) for r in self.requests) + 1, **arguments}
        # A prefill needs little room for KV; who has said how much there is knows better.
        room = {} if _KV_ROOM in os.environ else {_KV_ROOM: "1"}
        process = EngineProcess(arguments, env={**room, **self.plan.env}, silence_s=1800.0,
                                module="probes.scoring.worker")
        process.start()
        return process


def probe_scoring(found: TokenRequests, plan: Plan, say: Say = lambda text: None) -> RecordedAcceptance:
    """Acceptance of every draft over the recorded requests.

    Raises EngineError: no draft could be scored, or the target was needed and would not run. A draft that fails beside
    others is a note.
    """
    notes = list(found.notes)
    requests = [r for r in found.requests if len(r.ids) < _context(plan)]
    if len(requests) < len(found.requests):
        found.recordings.skipped["longer than the context of a model"] += len(found.requests) - len(requests)
    if not requests:
        raise EngineError("every recorded request is longer than the context of a model: expected shorter records, or "
                          "drafts that read as far")
    found = replace(found, requests=requests)
    if plan.regenerate:
        say(f"{plan.target} writes {len(requests)} outputs anew")
        found = replace(found, requests=_regenerated(requests, plan))
        notes.append(f"the outputs were written anew by the target at temperature {plan.sampled.temperature:g}")
    choices, failed = {}, {}
    for draft in plan.drafts:
        say(f"{draft} reads {len(found.requests)} outputs")
        try:
            choices[draft] = _choices(found.requests, plan, draft)
        except EngineFailure as error:
            failed[draft] = str(error)
            notes.append(f"{draft} could not be scored: {error}")
    if not choices:
        raise EngineError("no draft could be scored: " + "; ".join(f"{name}: {why}" for name, why in failed.items()))
    agreement, chances = _asked(found.requests, plan, choices, say)
    curves = _curves(found, plan, choices, chances)
    wrote, agreed, said = _authorship(found, plan, agreement)
    summary = {**found.summary(), "temperature": plan.sampled.temperature}
    return RecordedAcceptance(
        tier="scoring", target=plan.target, curves=curves, best=best_settings(curves), of_target=wrote,
        target_agreement=agreed, lower_bound=wrote is False, notes=(*notes, *said), **summary)


# --- passes --------------------------------------------------------------------------------------------------------
def _batches(requests: Sequence[TokenRequest]) -> Iterator[slice]:
    start, tokens = 0, 0
    for place, request in enumerate(requests):
        if place > start and tokens + len(request.ids) > BATCH_TOKENS:
            yield slice(start, place)
            start, tokens = place, 0
        tokens += len(request.ids)
    yield slice(start, len(requests))


def _wire(requests: Sequence[TokenRequest]) -> list[Any]:
    return [[r.ids, r.prompt_tokens] for r in requests]


def _choices(requests: Sequence[TokenRequest], plan: Plan, name: str) -> list[list[int]]:
    found: list[list[int]] = []
    with _Models(plan, requests).start(name) as model:
        for part in _batches(requests):
            found += model.call("choices", requests=_wire(requests[part]))
    return found


def _asked(requests: Sequence[TokenRequest], plan: Plan, choices: Mapping[str, list[list[int]]],
           say: Say) -> tuple[list[bool], dict[str, list[list[float]]]]:
    """What the target says: whether recorded tokens are its own first choices, and, where it samples, the probability
    of each draft's choices."""
    hot = plan.sampled.temperature > 0
    if not hot and (plan.regenerate or not plan.check_target):
        return [], {}
    asked = requests if hot else requests[:: max(1, len(requests) // CHECKED)][:CHECKED]
    say(f"{plan.target} reads {len(asked)} outputs")
    agreement: list[bool] = []
    chances: dict[str, list[list[float]]] = {draft: [] for draft in choices} if hot else {}
    with _Models(plan, requests).start(plan.target) as model:
        for part in _batches(asked):
            data = model.call("chances", requests=_wire(asked[part]),
                              choices=[own[part] for own in choices.values()] if hot else [],
                              **plan.sampled.__dict__)
            for request, own in zip(asked[part], data["own"], strict=True):
                agreement += [a == b for a, b in zip(own, request.ids[request.prompt_tokens + 1 :], strict=True)]
            for draft, shares in zip(chances, data["chances"], strict=False):
                chances[draft] += shares
    return agreement, chances


def _regenerated(requests: Sequence[TokenRequest], plan: Plan) -> list[TokenRequest]:
    written: list[list[int]] = []
    with _Models(plan, requests).start(plan.target) as model:
        for part in _batches(requests):
            chosen = requests[part]
            written += model.call("generate", prompts=[r.ids[: r.prompt_tokens] for r in chosen],
                                  lengths=[len(r.ids) - r.prompt_tokens for r in chosen], seed=plan.seed + part.start,
                                  **plan.sampled.__dict__)
    anew = [replace(r, ids=(*r.ids[: r.prompt_tokens], *ids)) for r, ids in zip(requests, written, strict=True)
            if len(ids) > 1]
    if not anew:
        raise EngineError("the target ended every output at once: expected prompts that it answers; check the prompts "
                          "and the chat template")
    return anew


# --- from passes to acceptance -------------------------------------------------------------------------------------
def _curves(found: TokenRequests, plan: Plan, choices: Mapping[str, list[list[int]]],
            chances: Mapping[str, list[list[float]]]) -> tuple[AcceptanceCurve, ...]:
    row = Row(np.array([len(r.ids) - r.prompt_tokens - 1 for r in found.requests]))
    recorded = np.concatenate([np.array(r.ids[r.prompt_tokens + 1 :]) for r in found.requests])
    curves = []
    for draft, own in choices.items():
        reach = run_lengths(row, np.concatenate([np.array(one) for one in own]) == recorded, plan.most)
        chance = np.concatenate([np.array(one) for one in chances[draft]]) if draft in chances else None
        tallies = walk(row, reach, np.full(len(reach), plan.most), range(1, plan.most + 1), chance)
        curves.append(curve("draft_model", draft, {}, tallies, found.tasks, Source.RECORDED, alike=found.alike))
    return tuple(curves)


def _authorship(found: TokenRequests, plan: Plan,
                agreement: Sequence[bool]) -> tuple[bool | None, Quantity | None, list[str]]:
    share = sum(agreement) / len(agreement) if agreement else 0.0
    agreed = Quantity(value=share, n=len(agreement), source=Source.MEASURED,
                      note="recorded tokens that are the target's first choice") if agreement else None
    if plan.regenerate:
        return True, agreed, []
    if not agreement:
        return None, None, ["whether the target wrote these outputs was not asked: if another model did, the "
                            "acceptance is a lower bound (--check-target asks, --regenerate writes them anew)"]
    if plan.sampled.temperature > 0:
        return None, agreed, [f"{share:.0%} of the recorded tokens are the target's first choice; acceptance is from "
                              "its probabilities of the drafts' choices"]
    if share >= OF_TARGET:
        return True, agreed, []
    return False, agreed, [f"these outputs are not the target's greedy ones: only {share:.0%} of the recorded tokens "
                           "are its first choice, so the acceptance is a lower bound; --regenerate has it write them "
                           "anew"]


def _context(plan: Plan) -> int:
    """The shortest context of all models, where their folders say it."""
    limits = []
    for name in plan.folders.values():
        try:
            config = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
            limits.append(int(config.get("text_config", config)["max_position_embeddings"]))
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue
    return min(limits, default=2**31)
