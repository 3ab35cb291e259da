"""The record: everything an advice rests on and says. A report renders a record and nothing else."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from advisor.capacity.document import CapacityPlan
from advisor.checks.finding import CheckResult
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate, Deployment
from profiles.evidence import Evidence
from profiles.methods import refuse_unknown_method
from profiles.schema import (
    SCHEMA_VERSION,
    Amount,
    Moment,
    RequestLimit,
    Schema,
    Seen,
    SeenShare,
    Setting,
    Share,
    Source,
    Speculated,
)
from profiles.workload import Workload


def whole_requests(room: float | None) -> int | None:
    """How many requests run at once where there is room for so many: whole ones. Every page that names the number asks
    here."""
    return None if room is None else math.floor(room + 1e-9)


AS_PAIRED = "a step is as long as the pairs show"
"""How the note of a priced cell begins whose step times follow a trial's paired comparison."""
PAIRED = "measured in"
"""How the note of a priced cell begins whose speed-up a trial compared pair by pair; it says at which lengths."""
CANNOT_RUN = "cannot be run"
"""How the note of a priced cell begins whose candidate cannot run here: its figures are about nothing."""

HeldBack = Literal[
    "acceptance", "matching", "draft_time", "verify_compute", "overhead", "prefill_share", "memory", "uncertainty",
    "together", "nothing",
]
"""What keeps a cell from a gain worth having. `matching`: too few steps find a draft. `uncertainty`: the middle of its
interval is worth having, not all of it. `together`: no part alone."""


class Priced(Schema):
    """One (candidate, k, load): what it would do. Speed-ups are against no speculation at the same load."""

    candidate: Candidate
    label: str
    k: Speculated
    running: RequestLimit
    acceptance_length: Seen
    """Mean tokens per step, bonus included, steps without a draft counted."""
    step_ms: Seen
    """One engine step: draft, verify and overhead."""
    draft_ms: Amount
    verify_ms: Amount
    overhead_ms: Amount
    baseline_step_ms: Seen
    decode_speedup: Seen
    """Decode alone."""
    speedup: Seen
    """End to end, prefill counted: what a user's request sees."""
    tpot_ms: Seen
    ttft_ms: Seen | None = None
    tokens_per_s: Seen
    """Output tokens per second of the engine at this load."""
    probability_of_gain: Share
    """Chance that the end-to-end speed-up exceeds 1 plus the worthwhile gain."""
    fits: bool = True
    meets_slo: bool | None = None
    chosen: bool = False
    """Whether this is the k that would be decided for, were its load the usual one: of this candidate's k there, the
    one whose gain is surest, and of two that are no more than noise apart the smaller. False throughout in records
    written before it was kept."""
    limited_by: Literal[
        "acceptance", "draft_time", "verify_compute", "overhead", "prefill_share", "memory", "nothing"
    ] = "nothing"
    """What keeps the speed-up from k + 1: the largest loss."""
    held_back_by: HeldBack | None = None
    """The part that, set to its neutral value alone, would make the end-to-end speed-up worth having (of several the
    one that lifts it most); null in records written before it was kept."""
    held_back_from: Amount | None = None
    """The speed-up that there would be then; null where no part is to blame alone."""
    unpaired_speedup: Seen | None = None
    """End-to-end speed-up by acceptance and steps timed one by one, where a trial's paired comparison of this candidate
    decides instead; null where none does."""
    from_trial: bool = False
    """Whether acceptance and step times are those of a trial of this candidate. A figure is `measured` only where the
    trial timed this very k and load; elsewhere it is modelled from what it timed. False in records written before it
    was kept, which called either measured."""
    notes: tuple[str, ...] = ()

    @property
    def rests_on_trial(self) -> bool:
        """Timed itself, or modelled from what a trial timed; measured alone in records that do not tell the two
        apart."""
        return self.from_trial or self.speedup.source is Source.MEASURED


class Memory(Schema):
    """KV room with and without the chosen (or first) candidate. GiB are 2**30 bytes; per GPU unless said."""

    fits: bool | None
    """With the candidate, for as many requests of mean length as must run at once (one where nothing is asked)."""
    target_fits: bool | None = None
    """The target alone with KV for one request of mean length; where it does not, no candidate is to blame."""
    gpu_memory_gib: float | None
    usable_gib: float | None
    """gpu_memory_utilization times total (all of it where the KV cache's size is stated), other processes' memory
    off."""
    target_weights_gib: float
    draft_weights_gib: float
    overhead_gib: float | None
    """Activations, graphs, runtime; without speculation."""
    overhead_with_gib: float | None = None
    """The same with speculation: logits of k more tokens a request."""
    kv_bytes_per_token_target: float
    kv_bytes_per_token_draft: float
    kv_tokens_without: int | None
    """Tokens as the start-up log names them, with the max_model_len that the config with speculation has, on both
    sides."""
    kv_tokens_with: int | None
    max_concurrency_without: float | None
    """Requests of mean length (prompt + output) that fit at once."""
    max_concurrency_with: float | None
    max_model_len_without: int | None = None
    """Longest request that fits alone, at most the engine's (or the model's) own limit."""
    max_model_len_with: int | None = None
    window: int | None = None
    """max_model_len that the engine takes by itself: the stated one, else the model's own; null where nobody says."""
    window_fits_without: bool | None = None
    """Whether an engine without speculation starts with that window: it must hold one request of it. False where even
    a tenth more memory would not do, null within that, or where it is unknown."""
    window_fits_with: bool | None = None
    write_max_model_len_without: int | None = None
    """max-model-len that a config without speculation has to state to start, where nobody stated one and the model's
    own does not surely fit; null where none is needed."""
    write_max_model_len_with: int | None = None
    kv_gib_without: float | None = None
    """Memory for KV without speculation: what weights and overhead leave of usable_gib, or the size that is stated;
    null where unknown, and in records written before it was kept."""
    kv_gib_with: float | None = None
    kv_stated_by: str = ""
    """Serve option that states the size of the KV cache (kv-cache-memory-bytes, num-gpu-blocks-override), to which
    gpu_memory_utilization is nothing; empty where the engine finds it by itself."""
    kv_fits_without: bool | None = None
    """Whether a KV cache of that size is there beside weights and overhead: false where even a tenth more memory would
    not do, null within that, or where no size is stated."""
    kv_fits_with: bool | None = None
    source: Source = Source.MODELLED
    notes: tuple[str, ...] = ()

    @property
    def requests_without(self) -> int | None:
        """Whole requests of mean length that fit at once without speculation."""
        return whole_requests(self.max_concurrency_without)

    @property
    def requests_with(self) -> int | None:
        """The same with the candidate."""
        return whole_requests(self.max_concurrency_with)


class Reason(Schema):
    """One plain sentence, and which of the users' questions it answers."""

    question: Literal[
        "predictable_text",
        "memory",
        "creative_or_hot",
        "concurrency",
        "prefill_share",
        "cost_of_step",
        "evidence",
        "other",
    ]
    sentence: str
    for_or_against: Literal["for", "against", "neutral"] = "neutral"


class Decision(Schema):
    """The advice. `enable` is null where the interval straddles the worthwhile gain (abstained, exit 3)."""

    enable: bool | None
    method: str | None
    draft: str | None
    k: Speculated | None
    """k at the load decided for: what the speed-up is of. The largest k of a schedule may be larger."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    schedule: tuple[tuple[int, int, int], ...] | None
    """k by batch size, [start, end, k] inclusive; null where this release, runner or method does not honour it."""
    running: RequestLimit
    """The load decided for."""
    speedup: Amount | None
    """Of the advised cell. When off, of the best cell looked at where it lost on speed alone; null where memory, a
    latency limit or the engine ruled it out, or there was nothing to look at."""
    speedup_low: Amount | None
    speedup_high: Amount | None
    speedup_source: Source
    speedup_from_trial: bool = False
    """Whether it follows from a trial of this candidate, as `from_trial` in `candidates`: where the source is
    `modelled`, from what that timed at other k, loads or lengths."""
    probability_of_gain: Share | None
    """Chance that the speed-up exceeds 1 plus the worthwhile gain, as in `candidates`. (`predict` has a field of this
    name for any gain at all: the chance that its speed-up exceeds 1.)"""
    break_even_acceptance_length: Amount | None
    crossover_load: RequestLimit | None
    """Smallest load from which on no k of the chosen candidate gains; null when none was found up to
    `crossover_searched_to`."""
    reasons: tuple[str, ...]
    crossover_searched_to: int | None = None
    """Largest load looked at for the crossover (max_num_seqs); null where it was not looked for."""
    would_settle: str | None = None
    """When abstaining: the measurement that would decide it."""

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        refuse_unknown_method(self.method)

    @classmethod
    def without_figures(cls, *, enable: bool | None, running: int) -> Decision:
        """A decision that names no candidate and no figure that could be taken for a finding about one."""
        return cls(
            enable=enable, method=None, draft=None, k=None, schedule=None, running=running, speedup=None,
            speedup_low=None, speedup_high=None, speedup_source=Source.MODELLED, probability_of_gain=None,
            break_even_acceptance_length=None, crossover_load=None, reasons=(),
        )


class Provenance(Schema):
    """What was decided for, hashed, so that drift can be noticed later."""

    tool_version: str
    created_at: Moment
    vllm_version: str
    runner: str
    gpu: str
    gpu_count: int
    target: ModelShape
    drafts: tuple[ModelShape, ...] = ()
    cost_source: str
    """Which cost model: measured on this engine, or modelled from facts (with the constants' release and hardware)."""


class Saturation(Schema):
    """An arrival rate that the deployment's replicas cannot keep up with. A replica is one engine; rates are requests
    per second."""

    arrival_rate_rps: float
    """Of the whole deployment."""
    replicas: int
    """Those of the deployment as it is stated (data_parallel_size)."""
    held_rps_without: float
    """What one full replica holds without speculation."""
    held_rps_with: float | None
    """With the best candidate at the load decided for; null where there is none that fits."""
    replicas_without: int
    """Replicas that hold the rate, before any limit on latency."""
    replicas_with: int | None
    shared_running: int
    """Requests running on each of `replicas_without` that share the rate evenly, without speculation (Little's law)."""


class AtRate(Schema):
    """An arrival rate that the replicas keep up with, with and without the candidate that was looked at: requests leave
    sooner with it where it gains, so fewer run at once (Little's law). Loads are of one replica."""

    arrival_rate_rps: float
    """Of the whole deployment."""
    running_without: float
    """The load that was decided for."""
    running_with: float
    """What runs with the candidate at the same rate."""
    speedup: float
    """Time of a request in the engine without it over with it, each at its own load. The decision's speed-up is at the
    load without speculation on both sides, and is nearer to 1."""


class EmittedConfig(Schema):
    """The config as written, and what cannot live in the file."""

    vllm_yaml: str
    env: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Proposal(Schema):
    """Something the catalog has for this target, looked at because the deployment names no candidates."""

    label: str
    method: str
    draft: str | None
    taken: bool
    """Whether it became a candidate."""
    reason: str
    """Why it is one, or why not; one sentence without a full stop."""


class DraftMapRow(Schema):
    """One draft size. `speedup` and `k` stand beside `DraftMap.acceptance_lengths`; null where it does not fit."""

    method: str
    """draft_model, or the method of a trained head of one target layer."""
    params: int
    """Parameters the draft brings."""
    fits: bool
    """Whether at least one k leaves room in memory."""
    speedup: tuple[float | None, ...]
    """End to end, at the k that is best there."""
    k: tuple[int | None, ...]
    break_even_acceptance_length: float | None
    """At the reference k; null where even drafts that are always accepted do not pay."""

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        refuse_unknown_method(self.method)


class DraftMap(Schema):
    """What draft size and acceptance would pay here, drafts that do not exist included: medians, no intervals."""

    running: int
    """The load decided for."""
    reference_k: int
    """The k that acceptance lengths are stated at; each cell has its own best k."""
    acceptance_lengths: tuple[float, ...]
    """Mean tokens per step at the reference k, bonus included."""
    rows: tuple[DraftMapRow, ...]
    cost_source: str

    @model_validator(mode="after")
    def _one_cell_a_length(self) -> DraftMap:
        wanted = len(self.acceptance_lengths)
        if any(len(row.speedup) != wanted or len(row.k) != wanted for row in self.rows):
            raise ValueError(f"every row holds one speedup and one k for each of the {wanted} acceptance_lengths")
        return self


class Record(Schema):
    """Everything, re-derivable: `specadvise report record.json` prints what the run printed."""

    schema_version: int = SCHEMA_VERSION
    decision: Decision
    reasons: tuple[Reason, ...]
    candidates: tuple[Priced, ...]
    memory: Memory
    memory_by_candidate: dict[str, Memory] = Field(default_factory=dict)
    emitted: EmittedConfig
    deployment: Deployment
    evidence: tuple[Evidence, ...]
    assumptions: tuple[str, ...] = ()
    """What nobody stated, and the value taken instead; each says whether that is measured, recorded, modelled or
    assumed."""
    warnings: tuple[str, ...] = ()
    provenance: Provenance
    per_position: dict[str, tuple[SeenShare, ...]] = Field(default_factory=dict)
    """Per-position acceptance by candidate label (unconditional)."""
    matched_shares: dict[str, Share] = Field(default_factory=dict)
    """Share of steps that find a draft, by label of a candidate that looks its drafts up: `per_position` counts the
    other steps too."""
    proposals: tuple[Proposal, ...] = ()
    """What the catalog has for this target, where the deployment names no candidates."""
    draft_map: DraftMap | None = None
    """Null where this release starts no method that could use a draft of one's own."""
    acceptance_tiers: dict[str, Literal["trial", "scoring", "replay", "server", "published"]] = Field(
        default_factory=dict
    )
    """Where the acceptance of each candidate comes from, by label: a live trial, one pass of the draft over recorded
    outputs, drafts recomputed from recorded text, a running server's counters, or published cases."""
    checklist: CheckResult | None = None
    """What the rules of `specadvise check` say of the emitted config; null in records written before it was kept."""
    saturation: Saturation | None = None
    """Set where a stated arrival rate is more than the deployment's replicas hold: the decision is then the one for a
    full replica. Null where they keep up."""
    at_rate: AtRate | None = None
    """Set where an arrival rate is stated or recorded that the replicas keep up with, and a candidate was looked at;
    null in records written before it was kept."""
    capacity: CapacityPlan | None = None
    """What `specadvise plan` says of this deployment, where `advise --plan` asked for it."""
    workload: Workload | None = None
    """The traffic decided for: what the deployment states, with load and lengths that it does not state filled in; null
    in records written before it was kept."""
    workload_sources: dict[str, str] = Field(default_factory=dict)
    """Where each field of it comes from: stated, recorded in FILE, read from the server, as in the trial, or assumed.
    An assumed temperature or task mix is a range, and stays unset."""
    extra: dict[str, Any] = Field(default_factory=dict)
