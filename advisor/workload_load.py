"""The load and lengths decided for: stated, recorded, or assumed, and Little's law between rate and concurrency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from advisor.situation import Situation
from profiles.schema import counted
from profiles.traffic import RequestsEvidence
from profiles.workload import Lengths, Workload

ASSUMED_PROMPT_TOKENS = 512.0
ASSUMED_OUTPUT_TOKENS = 256.0
ASSUMED_CONCURRENCY = 8.0


@dataclass(frozen=True)
class Traffic:
    """What the advice is priced for. `running` is None where only an arrival rate is known (see `little`)."""

    running: float | None
    running_p95: float | None
    arrival_rate_rps: float | None
    prompt_tokens: float
    output_tokens: float
    uncached_prompt_tokens: float
    """Prompt tokens that cost prefill: those found in the prefix cache taken off."""
    lengths_stated: bool
    assumptions: tuple[str, ...]
    """What nobody stated and the value taken; each says whether that is measured, recorded, modelled or assumed."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where load, lengths and prefix hits come from, by field of the workload: see `workload_used`."""

    @property
    def context_tokens(self) -> float:
        """Mean KV tokens of a request while it decodes."""
        return self.prompt_tokens + 0.5 * self.output_tokens


STATED, ASSUMED, AS_TRIAL, BY_SERVER = "stated", "assumed", "as in the trial", "read from the server"


def _recorded_in(recorded: RequestsEvidence | None) -> str:
    names = [file.name for file in recorded.files] if recorded is not None else []
    if not names:
        return "recorded"
    return f"recorded in {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _first(*candidates: tuple[Lengths | None, str]) -> tuple[float | None, str]:
    return next(((lengths.mean, source) for lengths, source in candidates if lengths is not None), (None, ASSUMED))


def traffic_of(situation: Situation) -> Traffic:
    """Load and lengths of the deployment's workload, filled from probes, then from the trial, then assumed."""
    workload = situation.deployment.workload
    server, trial = situation.server, situation.trial
    recorded = next((e.requests for e in reversed(situation.evidence) if e.requests is not None), None)
    assumptions: list[str] = []
    log = _recorded_in(recorded)
    sources: dict[str, str] = {}
    prompt, sources["prompt_tokens"] = _first(
        (workload.prompt_tokens, STATED), (recorded.prompt_tokens if recorded else None, log),
        (server.prompt_tokens if server else None, BY_SERVER),
    )
    output, sources["output_tokens"] = _first(
        (workload.output_tokens, STATED), (recorded.output_tokens if recorded else None, log),
        (server.output_tokens if server else None, BY_SERVER),
    )
    stated = prompt is not None and output is not None
    if prompt is None:
        if trial is not None and trial.prompts.mean_prompt_tokens:
            prompt, sources["prompt_tokens"] = trial.prompts.mean_prompt_tokens, AS_TRIAL
            assumptions.append(f"prompt length not stated: {prompt:.0f} tokens assumed, as in the trial")
        else:
            prompt = ASSUMED_PROMPT_TOKENS
            assumptions.append(f"prompt length not stated: {prompt:.0f} tokens assumed")
    if output is None:
        if trial is not None:
            output, sources["output_tokens"] = float(trial.max_tokens), AS_TRIAL
            assumptions.append(f"output length not stated: {output:.0f} tokens assumed, as in the trial")
        else:
            output = ASSUMED_OUTPUT_TOKENS
            assumptions.append(f"output length not stated: {output:.0f} tokens assumed")
    hits = workload.prefix_cache_hit_rate
    if hits == 0.0 and server is not None and server.prefix_cache_hit_rate:
        hits, sources["prefix_cache_hit_rate"] = server.prefix_cache_hit_rate, BY_SERVER
        assumptions.append(f"prefix cache hit rate not stated: {hits:.2f} as the running server shows (recorded)")
    running, rate = workload.concurrency, workload.arrival_rate_rps
    load = STATED
    if running is None and rate is None:
        if server is not None and server.running is not None and server.running.value >= 0.5:
            running, load = server.running.value, BY_SERVER
            assumptions.append(f"load not stated: {running:.1f} running requests as the server shows (recorded)")
        elif recorded is not None and recorded.concurrency.get("mean"):
            running, load = float(recorded.concurrency["mean"]), log
            assumptions.append(f"load not stated: {running:.1f} running requests as the recorded requests show")
        elif recorded is not None and recorded.arrival_rate_rps:
            rate, load = recorded.arrival_rate_rps, log
            assumptions.append(f"load not stated: {rate:.2f} requests per second as recorded")
        else:
            running, load = ASSUMED_CONCURRENCY, ASSUMED
            assumptions.append(f"load not stated: {counted(round(running), 'running request')} assumed")
    if not workload.temperature_stated:
        assumptions.append(
            "temperature not stated: 0 assumed, as in the trial" if trial is not None else
            "temperature not stated: between 0 and 1 assumed (vLLM's default is 1)")
    if not workload.tasks_stated and trial is None:
        assumptions.append("kind of text not stated: anything between creative writing and code assumed")
    sources["concurrency" if running is not None else "arrival_rate_rps"] = load
    return Traffic(
        running, workload.concurrency_p95, rate, prompt, output, prompt * (1.0 - hits), stated, tuple(assumptions),
        sources,
    )


def workload_used(situation: Situation, traffic: Traffic) -> tuple[Workload, dict[str, str]]:
    """The workload decided for, what nobody stated filled in, and where each of its fields comes from.

    Sources are `stated`, `recorded in FILE`, `read from the server`, `as in the trial` or `assumed`. Temperature and
    tasks that are assumed span a range: they stay unset.
    """
    workload = situation.deployment.workload
    recorded = next((e.requests for e in reversed(situation.evidence) if e.requests is not None), None)
    sources = {name: _recorded_in(recorded) if name in situation.recorded_fields else STATED
               for name in workload.model_fields_set if getattr(workload, name) is not None}
    sources |= traffic.sources
    if not workload.temperature_stated:
        sources["sampling"] = AS_TRIAL if situation.trial is not None else ASSUMED
    if not workload.tasks_stated:
        sources["tasks"] = AS_TRIAL if situation.trial is not None else ASSUMED
    filled: dict[str, object] = {"concurrency": traffic.running, "arrival_rate_rps": traffic.arrival_rate_rps}
    for name, mean in (("prompt_tokens", traffic.prompt_tokens), ("output_tokens", traffic.output_tokens)):
        filled[name] = getattr(workload, name) or Lengths(mean=mean)
    if "prefix_cache_hit_rate" in traffic.sources:
        filled["prefix_cache_hit_rate"] = 1.0 - traffic.uncached_prompt_tokens / traffic.prompt_tokens
    named = {name: value for name, value in filled.items() if value is not None}
    return workload.model_copy(update=named), dict(sorted(sources.items()))


def little(rate_rps: float, latency_ms: Callable[[float], float], ceiling: float) -> tuple[float, bool]:
    """Running requests at an arrival rate: the load N with N = rate x latency(N). True where even the ceiling cannot
    keep up (the queue grows, and the load is the ceiling)."""
    low, high = 1.0, max(1.0, ceiling)
    if rate_rps * latency_ms(high) / 1000.0 >= high:
        return high, True
    if rate_rps * latency_ms(low) / 1000.0 <= low:
        return low, False
    for _ in range(60):
        middle = 0.5 * (low + high)
        if rate_rps * latency_ms(middle) / 1000.0 > middle:
            low = middle
        else:
            high = middle
    return high, False
