"""The plan as a document: what `specadvise plan --format json` prints and the text form renders."""

from __future__ import annotations

from typing import Literal

from profiles.schema import SCHEMA_VERSION, Quantity, Schema

Role = Literal["null", "recommended", "undecided", "not recommended", "named"]


class LoadPoint(Schema):
    """One arrival rate at one replica, simulated. Means are over requests, the beginning of the run left out."""

    arrival_rate_rps: float
    requests: int
    """Requests simulated."""
    sustained: bool
    """The engine keeps up; otherwise the queue grows, and the latencies only say how long was simulated."""
    running: float
    """Mean requests in the engine, those that wait for a place included."""
    ttft_ms: float
    """Time to first token, queueing included."""
    ttft_p95_ms: float
    tpot_ms: float
    """Time per output token after the first, over all tokens."""
    tpot_p95_ms: float
    latency_s: float
    """Arrival to last token, from the mean load by Little's law."""
    output_tokens_per_s: float
    kv_usage: float | None
    """Mean share of the KV cache that requests hold; null where its size is unknown."""
    preemptions_per_request: float


class ContextRoom(Schema):
    """How many requests of one length fit at once."""

    percentile: str
    """mean, p50, p90, p95, p99 or max of the workload's lengths."""
    context_tokens: float
    """Prompt and output of such a request."""
    max_concurrency: float | None
    """Requests of that length at once: KV cache and max_num_seqs; null where the cache's size is unknown."""


class Fleet(Schema):
    """What a peak takes. Replicas share the arrivals evenly."""

    growth: float
    """Times the stated peak."""
    peak_rate_rps: float
    replicas: int
    replicas_low: int
    """With the high end of the rate's interval."""
    replicas_high: int
    """With its low end."""
    gpus: int
    usd_per_month: float | None
    """All GPUs, all hours; null without a price."""
    usd_per_million_output_tokens: float | None
    """At the usual load, peaks' idle capacity paid for; null without a price or a usual rate."""
    headroom: float
    """Share of the fleet's highest rate that the peak leaves free."""


class ArmPlan(Schema):
    """One candidate, or none, on this hardware."""

    label: str
    role: Role
    k: int
    schedule: tuple[tuple[int, int, int], ...] | None = None
    """k by running requests, [first, last, k]; null where k is the same at every load."""
    acceptance_length: Quantity
    kv_tokens: int | None
    """Room of one replica's KV cache."""
    contexts: tuple[ContextRoom, ...]
    curve: tuple[LoadPoint, ...]
    saturation_rate_rps: float
    """Requests per second of one replica that never idles, simulated."""
    saturation_bound_rps: float
    """The same from mean values alone."""
    highest_rate_rps: Quantity
    """Highest arrival rate of one replica within the SLOs (or, without SLOs, that it keeps up with)."""
    limited_by: Literal["ttft", "tpot", "throughput", "slo unreachable"]
    """What the next higher rate would break."""
    at_usual: LoadPoint | None = None
    """One replica of the fleet for the stated peak, at its share of the usual rate."""
    at_peak: LoadPoint | None = None
    kv_headroom_at_p95: float | None = None
    """Share of the KV cache left if all that run at the peak had the p95 length; negative: preemptions."""
    usd_per_million_output_tokens: float | None = None
    """One replica run at its highest rate."""
    fleets: tuple[Fleet, ...] = ()
    hurts_from_running: int | None = None
    """Running requests from which on this candidate no longer gains at any k; null where it always does."""
    hurts_from_rate_rps: float | None = None
    """Arrival rate of one replica from which on its requests take longer than without it; null where none was seen."""
    avoiding_schedule: tuple[tuple[int, int, int], ...] | None = None
    """The schedule that keeps it from hurting; null where one k serves every load."""
    schedule_note: str = ""
    """Why this deployment would not honour a schedule; empty where it does."""
    notes: tuple[str, ...] = ()


class Abstention(Schema):
    """One part of the question that the inputs cannot carry."""

    about: str
    why: str
    would_settle: str


class Traffic(Schema):
    """What was planned for."""

    usual_rate_rps: float | None
    """Requests per second of the whole deployment, all replicas together."""
    peak_rate_rps: float | None
    """The same at the busiest time."""
    prompt_tokens: float
    output_tokens: float
    prefix_cache_hit_rate: float
    burstiness: float
    source: str
    """process (gamma-distributed gaps) or the trace's name."""


class Variant(Schema):
    """One what-if: the same question with one thing changed."""

    change: str
    """As given, such as gpu=H200,context=2x."""
    recommended: str
    """Label of the arm that the decision would take there."""
    arms: tuple[ArmPlan, ...]
    gpus_per_replica: int
    price: str
    notes: tuple[str, ...] = ()
    abstained: tuple[Abstention, ...] = ()


class CapacityPlan(Schema):
    """Everything `specadvise plan` answers. GPUs are all those of the replicas; money is US dollars."""

    schema_version: int = SCHEMA_VERSION
    target: str
    gpu: str
    gpus_per_replica: int
    vllm_version: str
    max_num_seqs: int
    max_num_batched_tokens: int
    traffic: Traffic
    ttft_ms: float | None
    """The SLO on the mean time to first token, if any."""
    tpot_ms: float | None
    recommended: str
    """Label of the arm that the decision takes; `none` where speculation is off or was not decided."""
    decided: bool
    """False where the decision between speculation and none was an abstention."""
    price: str
    """Price and where it comes from; says when it is assumed, or that there is none."""
    arms: tuple[ArmPlan, ...]
    """The null candidate first."""
    what_if: tuple[Variant, ...] = ()
    abstained: tuple[Abstention, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cost_source: str
    """Which step-time model drove the simulation."""
    seed: int
