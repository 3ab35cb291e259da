"""Recorded outputs as a stage of `advise` and `trial`: lookups are replayed, which is free, and drafts are scored
where an engine may run and there are several to rank."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiles.errors import EngineError, TokenizerMissing
from profiles.methods import full_settings, method

if TYPE_CHECKING:
    from advisor.situation import Situation
    from probes.replay import TokenRequests
    from profiles.deployment import Candidate
    from profiles.evidence import Evidence

_TRIED: dict[str, list[dict[str, bool | int | float]]] = {
    "ngram": [{"prompt_lookup_min": shortest, "prompt_lookup_max": 5} for shortest in (1, 2, 3, 5)],
}
"""Settings tried where nobody stated any: from drafting often to drafting what is nearly sure."""


def over_recordings(situation: Situation, base: Path, *, engine: bool, offline: bool,
                    warn: Callable[[str], None]) -> Situation:
    """The situation knowing what the deployment's recordings say of its candidates; as it is where it names none.

    Args:
        engine: whether models may be run here.

    Without the target's tokenizer it is said that they are not used: what the advice rests on otherwise is there.
    Raises InputError: recordings that cannot be read.
    """
    names = situation.deployment.sources.recordings
    if not names:
        return situation
    from probes.replay import token_requests

    try:
        found = token_requests([Path(name) for name in names], situation.deployment.target.id, base=base,
                               offline=offline)
    except TokenizerMissing as error:
        said = f"recordings are not used: {error}"
        warn(said)
        return replace(situation, notes=(*situation.notes, said))
    for reason, count in found.recordings.skipped.items():
        warn(f"recordings: {count} left out, {reason} ({', '.join(found.recordings.lines.get(reason, []))})")
    named = bool(situation.deployment.candidates)
    situation = situation if named else _with_lookups(situation)
    situation = replace(situation, evidence=(
        *situation.evidence, *_replayed(situation, found, warn),
        *(_scored(situation, found, base, offline, warn) if engine else ())))
    return with_replayed(situation) if named else situation


def _with_lookups(situation: Situation) -> Situation:
    """A proposed lookup stands for its settings: replaying them costs nothing."""
    candidates: list[Candidate] = []
    for candidate in situation.candidates:
        tried = _TRIED.get(candidate.method) if not candidate.settings else None
        candidates += [candidate.model_copy(update={"settings": one}) for one in tried] if tried else [candidate]
    # Saved replays may have brought some of them already.
    distinct = [one for i, one in enumerate(candidates) if not any(_same(one, other) for other in candidates[:i])]
    return replace(situation, candidates=tuple(distinct))


def _same(one: Candidate, other: Candidate) -> bool:
    return (one.method == other.method and one.draft == other.draft
            and full_settings(one.method, one.settings) == full_settings(other.method, other.settings))


def with_replayed(situation: Situation) -> Situation:
    """The situation with the best settings of its saved replays beside each lookup whose settings nobody stated, and a
    note of them. A proposed lookup gets those tried over recordings as well, as far as the replay holds them.

    The engine's own setting stays among the candidates: what accepts most may draft too much to be fastest, and a trial
    may have measured it.
    """
    from advisor.recorded_acceptance import best_settings, curve_of

    candidates: list[Candidate] = []
    notes: list[str] = []
    for candidate in situation.candidates:
        candidates.append(candidate)
        best = [] if candidate.settings else [
            candidate.model_copy(update={"settings": one}) for one in best_settings(situation, candidate)]
        if not best:
            continue
        tried = [candidate.model_copy(update={"settings": one}) for one in _TRIED.get(candidate.method, ())
                 if not situation.deployment.candidates]
        added: list[Candidate] = []
        for one in (*best, *(t for t in tried if curve_of(situation, t) is not None)):
            if not any(_same(one, other) for other in (*situation.candidates, *added)):
                added.append(one)
        candidates += added
        if all(_same(one, candidate) for one in best):
            continue
        words = ", ".join(dict.fromkeys(one.label for one in best))
        also = "" if any(_same(one, candidate) for one in best) else "; the engine's own setting is priced beside it"
        notes.append(f"settings of {candidate.label} not stated: {words}, the best of the replayed ones{also}")
    return replace(situation, candidates=tuple(candidates), notes=(*situation.notes, *notes))


def _running(situation: Situation) -> int:
    return max(1, round(situation.deployment.workload.concurrency or 1))


def _replayed(situation: Situation, found: TokenRequests, warn: Callable[[str], None]) -> Sequence[Evidence]:
    from advisor.cli.provenance import evidence
    from probes.replay import Plan, can_replay, probe_replay
    from probes.replay.probe import REPLAYED

    settings: dict[str, list[dict[str, Any]]] = {}
    most = 0
    for candidate in situation.candidates:
        if not can_replay(candidate.method):
            if candidate.method in REPLAYED:
                warn(f"{candidate.label} is not replayed: arctic-inference is not installed (specadvise[suffix])")
            continue
        # One that is named without settings is replayed at the engine's own and at those that are tried.
        tried = [] if candidate.settings else _TRIED.get(candidate.method, [])
        for stated in (full_settings(candidate.method, one) for one in (candidate.settings, *tried)):
            if stated not in settings.setdefault(candidate.method, []):
                settings[candidate.method].append(stated)
        most = max(most, *candidate.k)
    if not settings:
        return ()
    plan = Plan(settings, most, _running(situation), situation.deployment.engine.max_model_len)
    return (evidence("replay", replay=probe_replay(found, situation.deployment.target.id, plan)),)


def _scored(situation: Situation, found: TokenRequests, base: Path, offline: bool,
            warn: Callable[[str], None]) -> Sequence[Evidence]:
    drafts = {c.draft.id: c for c in situation.candidates
              if c.draft is not None and method(c.method).drafter == "model"}
    if len(drafts) < 2 or importlib.util.find_spec("vllm") is None:
        # A single draft goes to the trial anyway.
        return ()
    from advisor.cli.provenance import evidence
    from probes.model import model_path
    from probes.scoring import Plan, SampledAs, probe_scoring
    from profiles.model_ref import ModelRef

    stated = situation.deployment
    sampling = stated.workload.sampling
    folders = {name: str(model_path(ModelRef(id=name), base) or name) for name in (stated.target.id, *drafts)}
    plan = Plan(tuple(drafts), folders, stated.target.id, "vllm",
                SampledAs(sampling.temperature, sampling.top_p, sampling.top_k),
                most=max(max(c.k) for c in drafts.values()),
                arguments={"dtype": stated.engine.dtype} if stated.engine.dtype else {},
                env={**stated.engine.env, **({"HF_HUB_OFFLINE": "1"} if offline else {})})
    try:
        return (evidence("scoring", scoring=probe_scoring(found, plan, warn)),)
    except EngineError as error:
        warn(f"scoring: {error}; going on without it")
        return ()
