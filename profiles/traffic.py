"""What recorded requests may say of the traffic: the section of `Evidence` that `probe requests` fills.

Lengths, counts and shares only: no text, no folder of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from profiles.schema import Amount, Count, Schema, Seconds, Seen, SeenShare, Share, number, refuse_outside
from profiles.workload import Lengths, Task


def pooled(counts: Mapping[str, int], most: int = 4) -> str:
    """What several models sent or wrote, taken as one, as notes say it: `2 models are taken together (a 60 %, b 40 %)`.

    counts: requests of each; shares are left out where some are not known (0).
    """
    total, known = sum(counts.values()), all(counts.values())
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    named = [" ".join(name.split())[:80] + (f" {100 * count / total:.3g} %" if known else "")
             for name, count in ranked[:most]]
    named += [f"{len(counts) - most} more"] if len(counts) > most else []
    return f"{len(counts)} models are taken together ({', '.join(named)})"


class LogFile(Schema):
    """One file that was read."""

    name: str
    """Its name without the folder."""
    format: str
    read: Count
    """Lines or records that were requests, failed ones included; 0 for a document that only states totals."""
    skipped: Count


class Arrivals(Schema):
    """Requests over time."""

    start: str | None = None
    """UTC of the first arrival, ISO 8601; None where the log counts from its own start."""
    bin_s: Seconds
    """Width of one entry of `counts`."""
    counts: tuple[Count, ...]
    """Arrivals in each bin from the first arrival on."""
    busy_window_s: Seconds
    """3600, or less where the log is shorter."""
    busy_start_s: Seconds
    """Start of the busiest window of that width, from the first arrival."""
    busy_rate_rps: Amount
    dispersion: Amount | None = None
    """Variance over mean of the arrivals per second: 1 is Poisson, more is bursts."""


class LengthCell(Schema):
    """The requests whose prompt and output lie in these ranges (the upper end not included)."""

    prompt_from: Count
    prompt_to: Count
    output_from: Count
    output_to: Count
    share: Share


Parameter = Annotated[float, Field(ge=-(10**9), le=10**9), number]
"""A sampling parameter; some say off by -1."""


class SamplingSeen(Schema):
    """One sampling parameter over the requests that state it."""

    requests: Count
    stated_share: Share
    usual: Parameter
    usual_share: Share
    mean: Parameter
    low: Parameter
    high: Parameter

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        for name in ("usual", "mean"):
            refuse_outside(name, self.low, getattr(self, name), self.high)


class TextSignals(Schema):
    """What the texts say, without a word of them."""

    requests: Count
    """How many were looked at."""
    tasks: dict[Task, Share] = Field(default_factory=dict)
    tasks_from: str = ""
    structured_output: SeenShare | None = None
    """Requests with a JSON schema, a grammar or tools."""
    tool_calls: SeenShare | None = None
    output_copies_prompt: SeenShare | None = None
    """Share of the output's 4-word runs that stand in the prompt: what n-gram and suffix drafts live on."""
    sampling: dict[str, SamplingSeen] = Field(default_factory=dict)


class RequestsEvidence(Schema):
    """What a set of recorded requests says of the workload."""

    requests: Count
    skipped: dict[str, Count] = Field(default_factory=dict)
    """Lines that are no requests, by reason."""
    skipped_at: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The first of them, as file:line."""
    failed: Count = 0
    """Requests that did not succeed; they are in no other number."""
    files: tuple[LogFile, ...] = ()
    duration_s: Annotated[float, Field(ge=0, le=10**10), number] | None = None
    """From the first arrival to the last."""
    arrival_rate_rps: Amount | None = None
    arrivals: Arrivals | None = None
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    tokens_from: str = "the log"
    """the log; `characters` (assumed: 4 to a token); or the tokenizer's folder."""
    output_to_prompt_ratio: Amount | None = None
    """All output tokens over all prompt tokens."""
    joint_lengths: tuple[LengthCell, ...] = ()
    decode_time_share: SeenShare | None = None
    """Share of the requests' time that is spent after the first token."""
    ttft_ms: Seen | None = None
    tpot_ms: Seen | None = None
    concurrency: dict[str, Any] = Field(default_factory=dict)
    """mean, p95, max of running requests, `basis` (how they were obtained), and where known `over_time` and
    `with_waiting`."""
    models: tuple[str, ...] = ()
    text: TextSignals | None = None
    temperature: SamplingSeen | None = None
    cached_prompt_share: SeenShare | None = None
    """Prompt tokens that came from a prefix cache, or prompt blocks seen before where a trace names its blocks."""
    engine: dict[str, Any] | None = None
    """What a server log or benchmark result says of the engine: versions, throughput, speculation."""
    notes: tuple[str, ...] = ()
