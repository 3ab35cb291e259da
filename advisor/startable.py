"""Whether the config that a candidate would be served with passes the checklist: what is advised has to start.

The config is emitted as it would be written and judged by every rule, so that what one rule knows need not be said a
second time here. Memory is left to the memory plan, which the rules about it ask as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from advisor.checks.emitted import check_config, errors_of, known_of
from advisor.checks.finding import CheckResult
from advisor.checks.measured import NOTHING_MEASURED, Measured
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


_K_OPTION = "speculative-config.num_speculative_tokens"


def warned_about_k(checklist: CheckResult) -> list[str]:
    """Codes of the warnings about the number of tokens."""
    return [found.code for found in checklist.findings if found.severity == "warn" and found.where == _K_OPTION]


def deployment_errors(situation: Situation) -> tuple[str, ...]:
    """What stands against the deployment itself, without any speculation: a sentence without a full stop each."""
    try:
        return errors_of(judged(situation, NO_SPECULATION))
    except InputError:
        # Whoever writes the config says it.
        return ()


def refused_configs(situation: Situation, candidates: Iterable[Candidate]) -> dict[str, str]:
    """The candidates whose config would carry an error that the deployment alone does not, by label, and why.

    Judged at the smallest k: an error that a larger one brings is found when that config is written.
    """
    try:
        own = set(_codes(judged(situation, NO_SPECULATION)))
    except InputError:
        return {}
    refused: dict[str, str] = {}
    for candidate in candidates:
        try:
            found = judged(situation, candidate)
        except InputError as error:
            refused[candidate.label] = str(error).rstrip(".")
            continue
        new = [f for f in found.findings if f.code not in own and f.family != _PLANNED]
        said = errors_of(found.model_copy(update={"findings": tuple(new), "verdict": "pass"}))
        if said:
            refused[candidate.label] = said[0]
    return refused


def judged(
    situation: Situation, candidate: Candidate, k: int | None = None, running: int | None = None,
    measured: Measured = NOTHING_MEASURED,
) -> CheckResult:
    """What the checklist says of the config that a candidate would be served with.

    Pricing asks this of the same candidates again and again (as proposed, as decided, for the trial): the answer is
    kept with the situation, and holds for every copy of it in which nothing differs that a config depends on.

    Args:
        k: the smallest of the candidate where it is None.
        running: the load decided for; without it, rules that ask for a load have nothing to say.
        measured: what the prices rest on of this candidate, where it was measured.

    Raises:
        InputError: such a config cannot be written.
    """
    on = method(candidate.method).drafter != "none"
    k = (min(candidate.k) if k is None else k) if on else 0
    draft = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
    key = (candidate.model_copy(update={"k": ()}).model_dump_json(), k, running, measured)
    about = (situation.deployment, situation.target, draft, situation.release, situation.runner, situation.gpu,
             situation.gpu_count, situation.evidence)
    held = situation.judged.get(key)
    if held is None or any(one is not other for one, other in zip(held[0], about, strict=True)):
        held = situation.judged[key] = (about, _judged(situation, candidate if on else None, k, running, measured))
    if isinstance(held[1], InputError):
        raise held[1]
    return held[1]


def _codes(result: CheckResult) -> Iterable[str]:
    return (finding.code for finding in result.findings if finding.severity == "error")


def _judged(
    situation: Situation, candidate: Candidate | None, k: int, running: int | None, measured: Measured
) -> CheckResult | InputError:
    as_if = Decision.without_figures(enable=candidate is not None, running=running or 1)
    if candidate is not None:
        as_if = as_if.model_copy(update={
            "method": candidate.method, "draft": candidate.draft.id if candidate.draft is not None else None, "k": k,
            "settings": candidate.settings})
    try:
        values, env = options(as_if, situation, plan_memory(situation, candidate or NO_SPECULATION, k))
    except InputError as error:
        return error
    config = from_values(values, name="vllm.yaml", env={**situation.deployment.engine.env, **env})
    return check_config(config, replace(known_of(situation), running=running, measured=measured))
