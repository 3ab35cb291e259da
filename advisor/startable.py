"""Whether the config that a candidate would be served with passes the checklist: what is advised has to start.

The config is emitted as it would be written and judged by every rule, so that what one rule knows need not be said a
second time here. Memory is left to the memory plan, which the rules about it ask as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.emitted import Known, check_config, errors_of, known_of
from advisor.checks.finding import CheckResult
from advisor.checks.serve_config import from_values
from advisor.cost.memory import plan_memory
from advisor.emit.vllm_config import options
from advisor.record import Decision
from advisor.situation import Situation
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.errors import InputError
from profiles.methods import method

_PLANNED = "memory"
"""Family of the rules that ask the memory plan."""


def deployment_errors(situation: Situation) -> tuple[str, ...]:
    """What stands against the deployment itself, without any speculation: a sentence without a full stop each."""
    try:
        return errors_of(_judged(situation, NO_SPECULATION, known_of(situation)))
    except InputError:
        # Whoever writes the config says it.
        return ()


def refused_configs(situation: Situation, candidates: Iterable[Candidate]) -> dict[str, str]:
    """The candidates whose config would carry an error that the deployment alone does not, by label, and why.

    Judged at the smallest k: an error that a larger one brings is found when that config is written.
    """
    known = known_of(situation)
    try:
        own = set(_codes(_judged(situation, NO_SPECULATION, known)))
    except InputError:
        return {}
    refused: dict[str, str] = {}
    for candidate in candidates:
        try:
            found = _judged(situation, candidate, known)
        except InputError as error:
            refused[candidate.label] = str(error).rstrip(".")
            continue
        new = [f for f in found.findings if f.code not in own and f.family != _PLANNED]
        said = errors_of(found.model_copy(update={"findings": tuple(new), "verdict": "pass"}))
        if said:
            refused[candidate.label] = said[0]
    return refused


def _codes(result: CheckResult) -> Iterable[str]:
    return (finding.code for finding in result.findings if finding.severity == "error")


def _judged(situation: Situation, candidate: Candidate, known: Known) -> CheckResult:
    on = method(candidate.method).drafter != "none"
    k = min(candidate.k) if on else 0
    as_if = Decision.without_figures(enable=on, running=1).model_copy(update={
        "method": candidate.method if on else None,
        "draft": candidate.draft.id if candidate.draft is not None else None,
        "k": k if on else None, "settings": candidate.settings})
    values, env = options(as_if, situation, plan_memory(situation, candidate, k))
    config = from_values(values, name="vllm.yaml", env={**situation.deployment.engine.env, **env})
    return check_config(config, known)
