"""What recorded requests fill in of a workload that the user has not stated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profiles.deployment import Deployment
from profiles.schema import MAX_TEMPERATURE

if TYPE_CHECKING:
    from profiles.evidence import Evidence
    from profiles.traffic import RequestsEvidence

_LEAST_SHARE = 0.02
"""Task families rarer than this are left to the signals' noise."""
_COUNTED_CACHE = "cached prompt tokens"


def probe_logs(deployment: Deployment) -> tuple[Evidence, ...]:
    """Evidence of the logs and traces that the deployment names under sources.requests."""
    if not deployment.sources.requests:
        return ()
    from advisor.cli.provenance import evidence
    from probes.requests import probe_requests, refuse_empty

    found = probe_requests(deployment.sources.requests)
    refuse_empty(deployment.sources.requests, found)
    return (evidence("requests", requests=found),)


def with_recorded(deployment: Deployment, evidence: Sequence[Evidence]) -> tuple[Deployment, tuple[str, ...]]:
    """The deployment with task mix, sampling, structured share, prefix hits and peak load of the latest recorded
    requests where it states none, and a note for each. Load and lengths are taken where traffic is worked out."""
    recorded = next((one.requests for one in reversed(evidence) if one.requests is not None), None)
    if recorded is None:
        return deployment, ()
    workload = deployment.workload
    filled: dict[str, Any] = {}
    notes = []
    for field, value, said in _known(recorded, workload.concurrency or 0.0):
        if field not in workload.model_fields_set:
            filled[field] = value
            notes.append(f"{said} as the recorded requests show")
    heat = recorded.temperature or (recorded.text.sampling.get("temperature") if recorded.text else None)
    if (heat is not None and 0 <= heat.usual <= MAX_TEMPERATURE
            and "temperature" not in workload.sampling.model_fields_set):
        filled["sampling"] = workload.sampling.model_copy(update={"temperature": heat.usual})
        notes.append(f"temperature not stated: {heat.usual:g} as {heat.usual_share:.0%} of the recorded requests that "
                     "say it")
    if not filled:
        return deployment, ()
    return deployment.model_copy(update={"workload": workload.model_copy(update=filled)}), tuple(notes)


def _known(recorded: RequestsEvidence, usual: float) -> list[tuple[str, Any, str]]:
    """What the requests tell, by field. usual: the load that the deployment states, which no peak is below."""
    found: list[tuple[str, Any, str]] = []
    text = recorded.text
    if text is not None and text.tasks:
        kept = {task: share for task, share in text.tasks.items() if share >= _LEAST_SHARE} or dict(text.tasks)
        total = sum(kept.values())
        mix = ", ".join(f"{task.value} {share / total:.0%}" for task, share in kept.items())
        found.append(("tasks", {task: share / total for task, share in kept.items()}, f"task mix not stated: {mix}"))
    if text is not None and text.structured_output is not None and text.structured_output.value > 0:
        share = text.structured_output.value
        found.append(("structured_output_share", share, f"structured output not stated: {share:.0%} of requests"))
    cached = recorded.cached_prompt_share
    # Blocks that a trace shows twice are what an unbounded cache would hold: only tokens a server counted are taken.
    if cached is not None and cached.note.startswith(_COUNTED_CACHE):
        found.append(("prefix_cache_hit_rate", cached.value, f"prefix cache hit rate not stated: {cached.value:.2f}"))
    mean, peak = recorded.concurrency.get("mean"), recorded.concurrency.get("p95")
    if mean and peak and peak >= max(mean, usual):
        found.append(("concurrency_p95", float(peak), f"peak load not stated: {peak:.1f} running requests"))
    return found
