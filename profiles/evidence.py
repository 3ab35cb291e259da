"""What a probe may report. One document, `Evidence`, with one section per kind of probe.

Prompts and responses never enter evidence: lengths, counts and hashes only. Every number is a `Quantity`, or a raw
count or sample list from which the advisor derives quantities with intervals. Times are milliseconds, memory is
bytes or GiB as the name says.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate
from profiles.recorded import RecordedAcceptance
from profiles.schema import (
    MAX_TOKENS,
    SCHEMA_VERSION,
    Amount,
    Count,
    Moment,
    Ms,
    PositiveSeconds,
    Running,
    Schema,
    Seconds,
    Seen,
    SeenShare,
    Share,
    Speculated,
    Temperature,
    Watts,
    number,
)
from profiles.traffic import RequestsEvidence
from profiles.workload import Lengths, Task

Context = Annotated[float, Field(ge=0, le=MAX_TOKENS), number]
"""Mean tokens of a request or step."""
Length = Annotated[float, Field(ge=1, le=MAX_TOKENS), number]
"""Mean tokens of a step, the target's own token included."""


# --- GPU ----------------------------------------------------------------------------------------------------------
class GpuProcess(Schema):
    """Another process on the device; names are never kept."""

    pid: Count
    used_bytes: Count | None = None


class MigInstance(Schema):
    name: str
    total_bytes: Count | None = None
    used_bytes: Count | None = None
    free_bytes: Count | None = None


class GpuDevice(Schema):
    """One device as NVML answers; None where NVML says N/A (unified memory) or refuses."""

    index: Count
    name: str
    total_bytes: Count | None = None
    used_bytes: Count | None = None
    free_bytes: Count | None = None
    unified_memory: bool = False
    """The device shares the host's memory; the sizes are then the host's."""
    processes: tuple[GpuProcess, ...] | None = None
    """None where permission was refused."""
    mig_enabled: bool = False
    mig: tuple[MigInstance, ...] = ()
    utilization: SeenShare | None = None
    """Share of the window with a kernel running, 0..1."""
    power_draw_w: Watts | None = None
    power_cap_w: Watts | None = None
    power_default_w: Watts | None = None
    compute_capability: str | None = None
    ecc: bool | None = None
    notes: tuple[str, ...] = ()


class GpuEvidence(Schema):
    driver: str | None = None
    cuda: str | None = None
    nvml: str | None = None
    devices: tuple[GpuDevice, ...] = ()
    window_s: Seconds = 0.0


# --- What cannot be ---------------------------------------------------------------------------------------------
class Implausibility(Schema):
    """A pattern that a correct engine cannot show: said, never averaged in."""

    code: Literal[
        "later_positions_never_accepted", "acceptance_above_one", "counters_did_not_move", "greedy_output_differs",
        "sampled_distribution_differs", "acceptance_not_monotone", "other_traffic", "unsteady_steps",
    ]
    arm: str
    """The candidate it was seen of, or the server."""
    message: str
    severity: Literal["error", "warn", "info"] = "warn"


# --- Server -------------------------------------------------------------------------------------------------------
class SpeculationCounters(Schema):
    """Differences over the window. acceptance_length counts only steps that had a draft (see tokens_per_step)."""

    enabled: bool
    drafts: Amount
    """Verifications that had a draft; 0, like the other counts, where the engine exports only its own mean length."""
    draft_tokens: Amount
    accepted_tokens: Amount
    per_position: tuple[Amount, ...]
    """Unconditional: accepted at this position / drafts."""
    acceptance_length: Length | None
    tokens_per_step: Length | None = None
    """generated / (generated - accepted): steps without a draft counted too."""
    in_window: bool = True
    """False where nothing was drafted in the window, and these are counts since the server's start."""
    dispersion: Amount | None = None
    """Variance of the acceptance length between parts of the window over that of drafts independent of each other;
    None where too few parts had drafts."""

    @property
    def accepted_variance(self) -> float | None:
        """Variance of the tokens accepted from one draft, by position; without positions the largest that the mean
        allows. None without drafts."""
        if self.drafts <= 0:
            return None
        mean = self.accepted_tokens / self.drafts
        if self.per_position:
            return max(0.0, sum((2 * i + 1) * share for i, share in enumerate(self.per_position)) - mean**2)
        return max(0.0, mean * (self.draft_tokens / self.drafts - mean))


class ServerEvidence(Schema):
    """Two scrapes of one server, `window_s` apart; means are over the window, gauges the mean of all
    scrapes in it."""

    url: str
    engine: str
    engine_version: str | None = None
    models: tuple[str, ...]
    engines: Count = 1
    window_s: Seconds
    running: Seen | None
    waiting: Seen | None
    kv_cache_usage: SeenShare | None
    request_rate_rps: Seen | None = None
    generation_tokens_per_s: Seen | None = None
    prompt_tokens_per_s: Seen | None = None
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    requests_in_window: Amount | None = None
    ttft_ms: Seen | None = None
    tpot_ms: Seen | None = None
    inter_token_ms: Seen | None = None
    """Mean gap between two chunks of a stream: several tokens where speculation is on."""
    e2e_ms: Seen | None = None
    """Mean time of a whole request, queueing included."""
    prompt_tokens_total: Amount | None = None
    """Counts are over the window, or since the server's start where there was only one scrape."""
    output_tokens_total: Amount | None = None
    requests_total: Amount | None = None
    """Finished requests."""
    engine_steps: Amount | None = None
    """Prefills included."""
    preemptions: Amount | None = None
    prefix_cache_hit_rate: Share | None = None
    model_roots: dict[str, str] = Field(default_factory=dict)
    """What each served name was loaded from, where the engine's list of models says so."""
    speculation: SpeculationCounters | None = None
    implausible: tuple[Implausibility, ...] = ()
    """What is wrong with its counts: `speculation` then holds the counts, and no acceptance that follows from them."""
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

    k: Speculated
    """Speculative tokens asked for in these steps (0 inside a speculating engine is not the baseline)."""
    running: Running
    context_tokens: Context
    """Mean tokens of KV per request over these steps."""
    tokens_per_step: Amount
    """Mean tokens the target's forward pass carried, over all requests."""
    step_ms: tuple[Ms, ...]
    """Wall time of each step."""
    draft_ms: tuple[Ms, ...] = ()
    """Of which the drafter's share, where the engine let us time it."""
    output_tokens: Count
    """Tokens these steps gave, all requests together."""
    task: Task | None = None
    beside_ms: tuple[Ms, ...] = ()
    """For each of these steps what a step took on a plain engine that stayed resident, made between them: how fast the
    machine was just then. Empty where there was no room for one."""
    beside_running: Count = 0
    """Requests in those plain steps."""


class PrefillSample(Schema):
    """Engine steps that carried prompt tokens."""

    tokens: Count
    """Prompt tokens of the step."""
    step_ms: Ms
    beside_ms: Ms | None = None
    """As in StepSample."""
    beside_running: Count = 0


class RequestAcceptance(Schema):
    """One request's steps: how many drafts of each length it got and how far each was accepted."""

    task: Task
    prompt_tokens: Count
    output_tokens: Count
    steps: Count
    """Decode steps, with or without a draft."""
    drafted: tuple[Count, ...]
    """drafted[i]: steps that had a draft of at least i + 1 tokens."""
    accepted: tuple[Count, ...]
    """accepted[i]: steps in which the token at position i was accepted."""
    k: Speculated | None = None
    """Speculative tokens asked for; drafts of a lookup may be shorter, so their lengths do not tell."""


class Block(Schema):
    """A timed run of a set of prompts at one load and k, start to end, prefill included."""

    k: Speculated
    running: Running
    task: Task | None
    wall_s: Seconds
    output_tokens: Count
    decode_s: Seconds
    """Wall time of the decode-only steps at full load."""
    decode_tokens: Count
    """Output tokens of those steps."""
    beside_ms: Ms | None = None
    """Mean of the plain steps between them, as in StepSample."""
    start: Count = 0
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
    start_s: Seconds | None = None
    """Seconds from process start to ready."""
    engine_s: Seconds = 0.0
    """Seconds the engine process lived, start included."""
    kv_cache_tokens: Count | None = None
    """KV tokens the engine said it has room for."""
    model_memory_bytes: Count | None = None
    """Weights loaded, drafter included, as the engine said."""
    steps: tuple[StepSample, ...] = ()
    prefill: tuple[PrefillSample, ...] = ()
    requests: tuple[RequestAcceptance, ...] = ()
    blocks: tuple[Block, ...] = ()


class PairedBlock(Schema):
    """One baseline block and one speculating block on the same prompts, run back to back or by turns. Their seconds are
    those of a server kept at `running` requests: what a block's end does with fewer counts as if others ran beside."""

    running: Running
    baseline_s: PositiveSeconds
    speculative_s: PositiveSeconds
    baseline_tokens: Count
    speculative_tokens: Count
    baseline_start: Count = 0
    speculative_start: Count = 0
    order: Literal["baseline_first", "speculative_first", "step_by_step"] = "baseline_first"
    """`step_by_step`: the two took turns, the one with fewer tokens going next."""

    @property
    def speedup(self) -> float:
        """Tokens per second with over tokens per second without."""
        return (self.speculative_tokens / self.speculative_s) / (self.baseline_tokens / self.baseline_s)


class PairedComparison(Schema):
    """The chosen k against the baseline at the user's load, in alternating blocks."""

    candidate: Candidate
    k: Speculated
    running: Running
    mode: Literal["both_resident", "alternate_restarts", "two_servers"]
    pairs: tuple[PairedBlock, ...]
    stopped: str
    """Why it ended: interval clear of the worthwhile gain, below it, or budget."""
    within_run_spread: Amount | None = None
    """Relative standard deviation of block speed-ups inside one start."""
    between_run_spread: Amount | None = None
    """Relative spread of the same cell over engine starts."""
    ttft_ms: dict[str, Ms] = Field(default_factory=dict)
    """Mean time to first token by arm (`baseline`, `speculative`), where requests came over HTTP."""
    tpot_ms: dict[str, Ms] = Field(default_factory=dict)


class PromptSummary(Schema):
    """Which prompts were run; never their text."""

    source: str
    """`built-in` or the file's name."""
    count: Count
    by_task: dict[Task, Count] = Field(default_factory=dict)
    mean_prompt_tokens: Context | None = None
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
    """sha256 over the target's config.json and its weight files' names and sizes, for whoever compares two trials of
    one name."""
    temperature: Temperature = 0.0
    max_tokens: Count
    prompts: PromptSummary
    arms: tuple[ArmEvidence, ...] = ()
    comparison: PairedComparison | None = None
    implausible: tuple[Implausibility, ...] = ()
    repairs: tuple[str, ...] = ()
    """Named repairs applied to the engine under trial."""
    engine_s: Seconds = 0.0
    """Wall seconds with an engine starting or at work; a resident engine that idles is not counted twice."""
    budget_s: Seconds | None = None
    stopped: str = "complete"

    @property
    def baseline(self) -> ArmEvidence | None:
        return next((arm for arm in self.arms if arm.candidate.method == "none"), None)


class Evidence(Schema):
    """One probe's report. Save with `--save`, give back to `advise --evidence FILE`."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["gpu", "server", "requests", "replay", "scoring", "trial", "model"]
    collected_at: Moment
    """UTC, ISO 8601."""
    tool_version: str
    command: str
    """The command that produced it, secrets removed."""
    gpu: GpuEvidence | None = None
    server: ServerEvidence | None = None
    requests: RequestsEvidence | None = None
    replay: RecordedAcceptance | None = None
    scoring: RecordedAcceptance | None = None
    trial: TrialEvidence | None = None
    models: tuple[ModelShape, ...] = ()

    @property
    def implausible(self) -> tuple[Implausibility, ...]:
        """What was found that a correct engine cannot show."""
        section = self.trial or self.server
        return section.implausible if section is not None else ()

    @model_validator(mode="after")
    def _section_of_its_kind(self) -> Evidence:
        """Readers go by section, people by `kind`: where the two differ, one of them would be misled."""
        sections = ("gpu", "server", "requests", "replay", "scoring", "trial")
        found = [name for name in sections if getattr(self, name) is not None]
        found += ["model"] if self.models and not found else []
        if found != [self.kind]:
            raise ValueError(f"kind is {self.kind} and the sections are {', '.join(found) or 'none'}: expected the "
                             "section of that kind and no other")
        return self
