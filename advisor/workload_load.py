"""The load and lengths decided for: stated, recorded, or assumed, and Little's law between rate and concurrency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from advisor.situation import Situation
from profiles.workload import Lengths

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

    @property
    def context_tokens(self) -> float:
        """Mean KV tokens of a request while it decodes."""
        return self.prompt_tokens + 0.5 * self.output_tokens


def _mean(*candidates: Lengths | None) -> float | None:
    return next((c.mean for c in candidates if c is not None), None)


def traffic_of(situation: Situation) -> Traffic:
    """Load and lengths of the deployment's workload, filled from probes, then from the trial, then assumed."""
    workload = situation.deployment.workload
    server, trial = situation.server, situation.trial
    recorded = next((e.requests for e in reversed(situation.evidence) if e.requests is not None), None)
    assumptions: list[str] = []
    prompt = _mean(
        workload.prompt_tokens, recorded.prompt_tokens if recorded else None, server.prompt_tokens if server else None
    )
    output = _mean(
        workload.output_tokens, recorded.output_tokens if recorded else None, server.output_tokens if server else None
    )
    stated = prompt is not None and output is not None
    if prompt is None:
        if trial is not None and trial.prompts.mean_prompt_tokens:
            prompt = trial.prompts.mean_prompt_tokens
            assumptions.append(f"prompt length not stated: {prompt:.0f} tokens as in the trial")
        else:
            prompt = ASSUMED_PROMPT_TOKENS
            assumptions.append(f"prompt length not stated: {prompt:.0f} tokens assumed")
    if output is None:
        if trial is not None:
            output = float(trial.max_tokens)
            assumptions.append(f"output length not stated: {output:.0f} tokens as in the trial")
        else:
            output = ASSUMED_OUTPUT_TOKENS
            assumptions.append(f"output length not stated: {output:.0f} tokens assumed")
    hits = workload.prefix_cache_hit_rate
    if hits == 0.0 and server is not None and server.prefix_cache_hit_rate:
        hits = server.prefix_cache_hit_rate
        assumptions.append(f"prefix cache hit rate {hits:.2f} as the running server shows")
    running, rate = workload.concurrency, workload.arrival_rate_rps
    if running is None and rate is None:
        if server is not None and server.running is not None and server.running.value >= 0.5:
            running = server.running.value
            assumptions.append(f"load not stated: {running:.1f} running requests as the server shows")
        elif recorded is not None and recorded.concurrency.get("mean"):
            running = float(recorded.concurrency["mean"])
            assumptions.append(f"load not stated: {running:.1f} running requests as the recorded requests show")
        elif recorded is not None and recorded.arrival_rate_rps:
            rate = recorded.arrival_rate_rps
            assumptions.append(f"load not stated: {rate:.2f} requests per second as recorded")
        else:
            running = ASSUMED_CONCURRENCY
            assumptions.append(f"load not stated: {running:.0f} running requests assumed")
    if not workload.temperature_stated:
        assumptions.append(
            "temperature not stated: 0 as in the trial" if trial is not None else
            "temperature not stated: between 0 and 1 assumed (vLLM's default is 1)")
    if not workload.tasks_stated and trial is None:
        assumptions.append("kind of text not stated: anything between creative writing and code assumed")
    return Traffic(
        running, workload.concurrency_p95, rate, prompt, output, prompt * (1.0 - hits), stated, tuple(assumptions)
    )


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
