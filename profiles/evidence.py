"""What a probe may report. One document, `Evidence`, with one section per kind of probe.

Prompts and responses never enter evidence: lengths, counts and hashes only. Every number is a `Quantity`, or a raw
count or sample list from which the advisor derives quantities with intervals. Times are milliseconds, memory is
bytes or GiB as the name says.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import Field

from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate
from profiles.schema import SCHEMA_VERSION, Quantity, Schema
from profiles.workload import Lengths, Task


# --- GPU ----------------------------------------------------------------------------------------------------------
class GpuProcess(Schema):
    """Another process on the device; names are never kept."""

    pid: int
    used_bytes: int | None = None


class MigInstance(Schema):
    name: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None


class GpuDevice(Schema):
    """One device as NVML answers; None where NVML says N/A (unified memory) or refuses."""

    index: int
    name: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    unified_memory: bool = False
    """The device shares the host's memory; the sizes are then the host's."""
    processes: tuple[GpuProcess, ...] | None = None
    """None where permission was refused."""
    mig_enabled: bool = False
    mig: tuple[MigInstance, ...] = ()
    utilization: Quantity | None = None
    """Share of the window with a kernel running, 0..1."""
    power_draw_w: float | None = None
    power_cap_w: float | None = None
    power_default_w: float | None = None
    compute_capability: str | None = None
    ecc: bool | None = None
    notes: tuple[str, ...] = ()


class GpuEvidence(Schema):
    driver: str | None = None
    cuda: str | None = None
    nvml: str | None = None
    devices: tuple[GpuDevice, ...] = ()
    window_s: float = 0.0


# --- Server -------------------------------------------------------------------------------------------------------
class SpeculationCounters(Schema):
    """Differences over the window. acceptance_length counts only steps that had a draft (see tokens_per_step)."""

    enabled: bool
    drafts: float
    """Verifications that had a draft; 0, like the other counts, where the engine exports only its own mean length."""
    draft_tokens: float
    accepted_tokens: float
    per_position: tuple[float, ...]
    """Unconditional: accepted at this position / drafts."""
    acceptance_length: float | None
    tokens_per_step: float | None = None
    """generated / (generated - accepted): steps without a draft counted too."""


class ServerEvidence(Schema):
    """Two scrapes of one server, `window_s` apart; means are over the window, gauges the mean of all
    scrapes in it."""

    url: str
    engine: str
    engine_version: str | None = None
    models: tuple[str, ...]
    engines: int = 1
    window_s: float
    running: Quantity | None
    waiting: Quantity | None
    kv_cache_usage: Quantity | None
    request_rate_rps: Quantity | None = None
    generation_tokens_per_s: Quantity | None = None
    prompt_tokens_per_s: Quantity | None = None
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    requests_in_window: float | None = None
    ttft_ms: Quantity | None = None
    tpot_ms: Quantity | None = None
    preemptions: float | None = None
    prefix_cache_hit_rate: float | None = None
    speculation: SpeculationCounters | None = None
    notes: tuple[str, ...] = ()


# --- Trial --------------------------------------------------------------------------------------------------------
class ArmStatus(str, Enum):
    DONE = "done"
    REFUSED = "refused"
    """The engine would not start with this configuration."""
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    """Ctrl-C or the budget ended it; what was measured is kept."""
    SKIPPED = "skipped"


class StepSample(Schema):
    """Decode-only engine steps of one shape: `running` requests, each verifying up to 1 + k tokens."""

    k: int
    """Speculative tokens asked for in these steps (0 inside a speculating engine is not the baseline)."""
    running: int
    context_tokens: float
    """Mean tokens of KV per request over these steps."""
    tokens_per_step: float
    """Mean tokens the target's forward pass carried, over all requests."""
    step_ms: tuple[float, ...]
    """Wall time of each step."""
    draft_ms: tuple[float, ...] = ()
    """Of which the drafter's share, where the engine let us time it."""
    output_tokens: int
    """Tokens these steps gave, all requests together."""
    task: Task | None = None


class PrefillSample(Schema):
    """Engine steps that carried prompt tokens."""

    tokens: int
    """Prompt tokens of the step."""
    step_ms: float


class RequestAcceptance(Schema):
    """One request's steps: how many drafts of each length it got and how far each was accepted."""

    task: Task
    prompt_tokens: int
    output_tokens: int
    steps: int
    """Decode steps, with or without a draft."""
    drafted: tuple[int, ...]
    """drafted[i]: steps that had a draft of at least i + 1 tokens."""
    accepted: tuple[int, ...]
    """accepted[i]: steps in which the token at position i was accepted."""
    k: int | None = None
    """Speculative tokens asked for; drafts of a lookup may be shorter, so their lengths do not tell."""


class Block(Schema):
    """A timed run of a set of prompts at one load and k, start to end, prefill included."""

    k: int
    running: int
    task: Task | None
    wall_s: float
    output_tokens: int
    decode_s: float
    """Wall time of the decode-only steps at full load."""
    decode_tokens: int
    """Output tokens of those steps."""
    start: int = 0
    """Which engine start (0, 1, ...) it belongs to: between-run spread needs more than one."""


class ArmEvidence(Schema):
    """One engine configuration: what it took to start, and all that was measured in it."""

    candidate: Candidate
    status: ArmStatus
    error: str | None = None
    """The engine's own last error, in one line."""
    k_control: Literal["schedule_lookup", "one_start_per_k", "fixed"] = "fixed"
    """How k was varied: by setting the engine's lookup between blocks, by restarts, or not at all."""
    runner: Literal["v1", "v2", "cpu"] | None = None
    """Model runner the arm was timed on: a draft's step time is another on the other."""
    start_s: float | None = None
    """Seconds from process start to ready."""
    engine_s: float = 0.0
    """Seconds the engine process lived, start included."""
    kv_cache_tokens: int | None = None
    """KV tokens the engine said it has room for."""
    model_memory_bytes: int | None = None
    """Weights loaded, drafter included, as the engine said."""
    steps: tuple[StepSample, ...] = ()
    prefill: tuple[PrefillSample, ...] = ()
    requests: tuple[RequestAcceptance, ...] = ()
    blocks: tuple[Block, ...] = ()


class PairedBlock(Schema):
    """One baseline block and one speculating block on the same prompts, run back to back."""

    running: int
    baseline_s: float
    speculative_s: float
    baseline_tokens: int
    speculative_tokens: int
    baseline_start: int = 0
    speculative_start: int = 0
    order: Literal["baseline_first", "speculative_first"] = "baseline_first"

    @property
    def speedup(self) -> float:
        """Tokens per second with over tokens per second without."""
        return (self.speculative_tokens / self.speculative_s) / (self.baseline_tokens / self.baseline_s)


class PairedComparison(Schema):
    """The chosen k against the baseline at the user's load, in alternating blocks."""

    candidate: Candidate
    k: int
    running: int
    mode: Literal["both_resident", "alternate_restarts", "two_servers"]
    pairs: tuple[PairedBlock, ...]
    stopped: str
    """Why it ended: interval clear of the worthwhile gain, below it, or budget."""
    within_run_spread: float | None = None
    """Relative standard deviation of block speed-ups inside one start."""
    between_run_spread: float | None = None
    """Relative spread of the same cell over engine starts."""
    ttft_ms: dict[str, float] = Field(default_factory=dict)
    """Mean time to first token by arm (`baseline`, `speculative`), where requests came over HTTP."""
    tpot_ms: dict[str, float] = Field(default_factory=dict)


class Implausibility(Schema):
    """A pattern that a correct engine cannot show: said, never averaged in."""

    code: Literal[
        "later_positions_never_accepted", "acceptance_above_one", "counters_did_not_move", "greedy_output_differs",
        "sampled_distribution_differs", "acceptance_not_monotone", "other_traffic", "unsteady_steps",
    ]
    arm: str
    message: str
    severity: Literal["error", "warn", "info"] = "warn"


class PromptSummary(Schema):
    """Which prompts were run; never their text."""

    source: str
    """`built-in` or the file's name."""
    count: int
    by_task: dict[Task, int] = Field(default_factory=dict)
    mean_prompt_tokens: float | None = None
    sha256: str | None = None


class TrialEvidence(Schema):
    engine: str = "vllm"
    engine_version: str | None = None
    device: str
    """`cpu` or the GPU's name."""
    hardware: str
    """Human description: processor or GPU, threads, memory."""
    target: str
    target_config_hash: str | None = None
    temperature: float = 0.0
    max_tokens: int
    prompts: PromptSummary
    arms: tuple[ArmEvidence, ...] = ()
    comparison: PairedComparison | None = None
    implausible: tuple[Implausibility, ...] = ()
    repairs: tuple[str, ...] = ()
    """Named repairs applied to the engine under trial."""
    engine_s: float = 0.0
    """Wall seconds with an engine starting or at work; a resident engine that idles is not counted twice."""
    budget_s: float | None = None
    stopped: str = "complete"

    @property
    def baseline(self) -> ArmEvidence | None:
        return next((arm for arm in self.arms if arm.candidate.method == "none"), None)


class RequestsEvidence(Schema):
    """What a set of recorded requests says of the workload."""

    requests: int
    skipped: dict[str, int] = Field(default_factory=dict)
    duration_s: float | None = None
    arrival_rate_rps: float | None = None
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    concurrency: dict[str, Any] = Field(default_factory=dict)
    models: tuple[str, ...] = ()


class Evidence(Schema):
    """One probe's report. Save with `--save`, give back to `advise --evidence FILE`."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["gpu", "server", "requests", "trial", "model"]
    collected_at: str
    """UTC, ISO 8601."""
    tool_version: str
    command: str
    """The command that produced it, secrets removed."""
    gpu: GpuEvidence | None = None
    server: ServerEvidence | None = None
    requests: RequestsEvidence | None = None
    trial: TrialEvidence | None = None
    models: tuple[ModelShape, ...] = ()
