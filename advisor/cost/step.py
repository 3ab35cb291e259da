"""The protocol of a cost model, and the parts of one engine step.

Times are milliseconds. `running` is requests in the step, `tokens` what the target's pass carries over all of them
(running when nothing is drafted), `context_tokens` the mean KV tokens of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from advisor.situation import Runner, Situation
from profiles.deployment import Candidate
from profiles.methods import Method, method
from profiles.schema import Source

SOURCE_ORDER = (Source.MEASURED, Source.RECORDED, Source.MODELLED, Source.ASSUMED)


def weakest(*sources: Source) -> Source:
    """The source that a result of several inputs may claim: that of its weakest input."""
    return max(sources, key=SOURCE_ORDER.index)


@dataclass(frozen=True)
class Cost:
    """One time with its uncertainty: `log_sd` is the standard deviation of ln(true / ms)."""

    ms: float
    log_sd: float
    source: Source


@dataclass(frozen=True)
class Step:
    """One engine step. `ratio_log_sd` is the uncertainty of its ratio to the baseline step of the same model,
    smaller than that of its own length because both share the target's pass."""

    draft_ms: float
    verify_ms: float
    overhead_ms: float
    log_sd: float
    ratio_log_sd: float
    source: Source
    notes: tuple[str, ...] = ()

    @property
    def ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.overhead_ms


class StepCost(Protocol):
    """What prediction needs to know about time. Raises nothing: an unknown candidate is priced, with wider error."""

    @property
    def description(self) -> str:
        """Which model, with the constants' release and hardware: goes into the record's provenance."""

    def target(self, running: float, tokens: float, context_tokens: float) -> Cost:
        """The target's pass in an engine without speculation."""

    def draft(self, candidate: Candidate, running: float, k: int, context_tokens: float) -> Cost:
        """All passes of the drafter in one step."""

    def overhead(self, candidate: Candidate, running: float, k: int) -> Cost:
        """Host time a loaded speculation adds to a step; k = 0 is loaded and idle."""

    def prefill(self, tokens: float) -> Cost:
        """What `tokens` prompt tokens of one request take beside what else runs, and what every step pays once."""

    def draft_prefill(self, candidate: Candidate, tokens: float) -> Cost:
        """What the drafter adds to that step."""

    def step(self, candidate: Candidate, running: float, k: int, drafted: float, context_tokens: float) -> Step:
        """A whole decode step in which each request verifies `drafted` (<= k) tokens beside its own on average.
        The null candidate's step is the baseline's, with no uncertainty in its ratio."""

    def steps_ms(
        self, candidate: Candidate, running: Sequence[float], k: int, drafted: float, context_tokens: Sequence[float]
    ) -> Any:
        """The steps' milliseconds alone, an array by load (rows) and context (columns)."""


def runner_for(candidate: Candidate, situation: Situation) -> Runner:
    """The runner this candidate would be served on.

    The stated runner where one is stated; the one vLLM falls back to where the method lacks the default one; and,
    where the release would pick freely, the runner on which the drafter runs under graphs: launching every kernel
    of a draft model one by one can take ten times its compute. What a trial timed stays on the runner it was timed on.
    """
    if situation.runner == "cpu":
        return "cpu"
    described: Method = method(candidate.method)
    if situation.runner not in described.runners:
        return "v2" if "v2" in described.runners else "v1"
    if situation.runner == "v2" and described.drafter != "none" and described.name not in situation.release.v2_methods:
        return "v1"
    timed = _timed_on(candidate, situation)
    if timed is not None:
        return timed
    if (
        situation.deployment.engine.runner == "auto"
        and described.draft_graphs
        and situation.runner not in described.draft_graphs
    ):
        return "v1" if "v1" in described.draft_graphs else "v2"
    return situation.runner


def draft_has_graphs(candidate: Candidate, situation: Situation) -> bool:
    """Whether the drafter runs under captured graphs here. True too for drafters that never do: what is known of their
    times was measured so."""
    described: Method = method(candidate.method)
    if not described.draft_graphs:
        return True
    runner = runner_for(candidate, situation)
    if situation.deployment.engine.enforce_eager or runner not in described.draft_graphs:
        return False
    return not (described.drafter == "model" and situation.release.has("draft_model_graph_fault"))


def _timed_on(candidate: Candidate, situation: Situation) -> Runner | None:
    """The GPU runner on which a trial timed this candidate; None where none did."""
    trial = situation.trial
    if trial is None:
        return None
    return next(
        (
            arm.runner
            for arm in trial.arms
            if arm.candidate.label == candidate.label and arm.steps and arm.runner in ("v1", "v2")
        ),
        None,
    )
