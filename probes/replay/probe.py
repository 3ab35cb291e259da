"""The replay itself: every method that copies from text, every setting, every k."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probes.replay.compiled import loops, worth_compiling
from probes.replay.estimate import best_settings, curve
from probes.replay.ngram import Corpus
from probes.replay.suffix import replay_suffix
from probes.replay.tokens import TokenRequest, TokenRequests
from probes.replay.walk import Tallies
from profiles.methods import full_settings, method
from profiles.recorded import RecordedAcceptance

Settings = Mapping[str, bool | int | float]
Advance = Callable[[str, int, int], None]
"""Told as it goes: what is walked, how many of how many are done."""


@dataclass(frozen=True)
class Plan:
    """What to replay."""

    settings: Mapping[str, Sequence[Settings]]
    """By method."""
    most: int = 8
    """The largest k."""
    running: int = 1
    """Requests side by side; matters where requests learn from one another."""
    max_model_len: int | None = None
    """Drafts stop where the engine's context ends."""


def _ngram(requests: Sequence[TokenRequest], settings: Sequence[Settings], plan: Plan,
           advance: Advance) -> list[list[Tallies]]:
    tokens = sum(len(r.ids) for r in requests) * len(settings)
    corpus = Corpus.of([(r.ids, r.prompt_tokens) for r in requests], loops() if worth_compiling(tokens) else None)
    found = []
    for i, setting in enumerate(settings):
        found.append(corpus.replay(int(setting["prompt_lookup_min"]), int(setting["prompt_lookup_max"]),
                                   range(1, plan.most + 1), plan.max_model_len))
        advance("ngram", i + 1, len(settings))
    return found


def _suffix(requests: Sequence[TokenRequest], settings: Sequence[Settings], plan: Plan,
            advance: Advance) -> list[list[Tallies]]:
    walked = [(r.ids, r.prompt_tokens) for r in requests]
    found = []
    for i, setting in enumerate(settings):
        found.append(list[Tallies]())
        for k in range(1, plan.most + 1):
            found[-1].append(replay_suffix(walked, setting, k, plan.running, plan.max_model_len))
            advance("suffix", i * plan.most + k, len(settings) * plan.most)
    return found


@dataclass(frozen=True)
class Replayed:
    """A method whose drafts can be recomputed from text."""

    walk: Callable[[Sequence[TokenRequest], Sequence[Settings], Plan, Advance], list[list[Tallies]]]
    """Tallies by setting and k."""
    note: str = ""
    """What has to be said of its figures; {running} stands for the requests side by side."""


REPLAYED: dict[str, Replayed] = {
    "ngram": Replayed(_ngram),
    "suffix": Replayed(_suffix, "suffix decoding learns from earlier answers: {running} requests were walked side by "
                                "side, in the order of the record"),
}


def can_replay(name: str) -> bool:
    """Whether the method's drafts can be recomputed in this environment."""
    package = method(name).package
    return name in REPLAYED and (package is None or importlib.util.find_spec(package) is not None)


def probe_replay(found: TokenRequests, target: str | None, plan: Plan,
                 advance: Advance = lambda what, done, of: None) -> RecordedAcceptance:
    """Acceptance of every planned method and setting over the recorded requests."""
    curves, notes = [], list(found.notes)
    notes += [REPLAYED[name].note.format(running=plan.running) for name in plan.settings if REPLAYED[name].note]
    for name, stated in plan.settings.items():
        settings = [full_settings(name, one) for one in stated]
        by_setting = REPLAYED[name].walk(found.requests, settings, plan, advance)
        for setting, tallies in zip(settings, by_setting, strict=True):
            curves.append(curve(name, None, setting, tallies, found.tasks, alike=found.alike))
    summary: dict[str, Any] = found.summary()
    return RecordedAcceptance(tier="replay", target=target, running=plan.running, curves=tuple(curves),
                              best=best_settings(curves), notes=tuple(notes), **summary)


