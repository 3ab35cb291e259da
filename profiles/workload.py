"""What users send: load, lengths, task mix, sampling. Stated by the user or filled by a probe."""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from profiles.mistakes import given
from profiles.schema import Load, MeanTokens, Schema, Share, Temperature, number, shown

_MAX_SHARE = 10**9
"""Shares are relative; anything larger is a slip, and its sum may overflow."""


_ROUNDED = 1.01
"""People round a mean and a longest length alike."""


class Task(str, Enum):
    """Task families: they decide how predictable the text is."""

    CODE = "code"
    JSON_SQL = "json_sql"
    MATH = "math"
    CHAT = "chat"
    SUMMARIZATION = "summarization"
    TRANSLATION = "translation"
    CREATIVE = "creative"
    RAG_LONG_CONTEXT = "rag_long_context"
    AGENT = "agent"
    REASONING = "reasoning"
    MIXED = "mixed"


TASK_ALIASES = {
    "json": Task.JSON_SQL,
    "sql": Task.JSON_SQL,
    "structured": Task.JSON_SQL,
    "summarisation": Task.SUMMARIZATION,
}


def parse_task(text: str) -> Task:
    """Task by any name people write (`json`, `sql`, `summarisation`); ValueError names the allowed ones."""
    key = text.strip().lower().replace("-", "_").replace(" ", "_")
    if key in TASK_ALIASES:
        return TASK_ALIASES[key]
    try:
        return Task(key)
    except ValueError:
        raise ValueError(
            f"unknown task {shown(text)}: expected one of {', '.join(t.value for t in Task)}, json, sql"
        ) from None


class Lengths(Schema):
    """Token counts of a prompt or an output: a mean, and percentiles where known."""

    mean: MeanTokens
    """Mean number of tokens."""
    p50: MeanTokens | None = None
    """Median number of tokens."""
    p90: MeanTokens | None = None
    """90th percentile."""
    p95: MeanTokens | None = None
    """95th percentile."""
    p99: MeanTokens | None = None
    """99th percentile."""
    max: MeanTokens | None = None
    """Longest seen."""

    @model_validator(mode="after")
    def _in_order(self) -> Lengths:
        known = [(name, value) for name in ("p50", "p90", "p95", "p99", "max")
                 if (value := getattr(self, name)) is not None]
        for (lower, low), (upper, high) in pairwise(known):
            if low > high:
                raise ValueError(f"{lower} is {low:g} and {upper} is {high:g}: expected percentiles in rising order")
        return self

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        if self.max is not None and self.mean > self.max * _ROUNDED:
            raise ValueError(f"mean is {self.mean:g} and max is {self.max:g}: expected a mean of at most the longest")


class Sampling(Schema):
    """How tokens are drawn. Hot sampling lowers acceptance; min_p and logit_bias are refused with speculation."""

    temperature: Temperature = 0.0
    """Sampling temperature; 0 is greedy. Left out, anything between 0 and 1 is assumed (vLLM's own default is 1)."""
    top_p: Annotated[float, Field(gt=0, le=1), number] = 1.0
    """Nucleus sampling mass."""
    top_k: Annotated[int, Field(ge=-1, le=10**7), number] = -1
    """Top-k cut; -1 is off."""
    min_p: Share = 0.0
    """vLLM refuses requests with min_p above 1e-5 when speculation is on."""


class Workload(Schema):
    """The traffic of the whole deployment, shared evenly by its data parallel replicas. Give `concurrency` (requests
    running at once) or `arrival_rate_rps`."""

    concurrency: Load | None = None
    """Requests running at once at the usual load."""
    concurrency_p95: Load | None = None
    """Requests running at once in the busy hour."""
    arrival_rate_rps: Load | None = None
    """Requests per second that arrive at the whole deployment at the usual load, as `plan --peak` is at the busiest
    one; where concurrency is not known. Little's law turns each replica's share into concurrency; a rate that the
    replicas do not hold is decided for full ones, and `plan` counts how many it takes."""
    prompt_tokens: Lengths | None = None
    """Prompt length in tokens: a number (the mean) or a mapping of mean and percentiles."""
    output_tokens: Lengths | None = None
    """Output length in tokens: a number (the mean) or a mapping of mean and percentiles."""
    tasks: dict[Task, float] = Field(default_factory=lambda: {Task.MIXED: 1.0})
    """Share of each task family; a single name or a list (equal shares) is accepted."""
    sampling: Sampling = Sampling()
    """Sampling parameters most requests use."""
    structured_output_share: Share = 0.0
    """Share of requests with a JSON schema, a grammar or tool calls."""
    prefix_cache_hit_rate: Share = 0.0
    """Share of prompt tokens found in the prefix cache (they cost no prefill)."""

    @property
    def temperature_stated(self) -> bool:
        """Whether somebody said at which temperature requests sample; vLLM's own default is 1, not this file's 0."""
        return "sampling" in self.model_fields_set and "temperature" in self.sampling.model_fields_set

    @property
    def tasks_stated(self) -> bool:
        """Whether somebody said what kind of text this is."""
        return "tasks" in self.model_fields_set

    @field_validator("prompt_tokens", "output_tokens", mode="before")
    @classmethod
    def _number_is_mean(cls, value: object) -> object:
        return {"mean": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value

    @field_validator("tasks", mode="before")
    @classmethod
    def _normalise_tasks(cls, value: object) -> object:
        if isinstance(value, (str, Task)):
            value = [value]
        if isinstance(value, (list, tuple)):
            if not all(isinstance(name, str) for name in value):
                raise ValueError("an item of the list is no name: expected names, or a mapping of name to share")
            value = dict.fromkeys(value, 1.0)
        if not isinstance(value, dict) or not value:
            raise ValueError("expected a task name, a list of names, or a mapping of name to share")
        shares: dict[Task, float] = {}
        for name, share in value.items():
            task = name if isinstance(name, Task) else parse_task(name if isinstance(name, str) else given(name))
            if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= _MAX_SHARE:
                raise ValueError(f"share of task {task.value!r} is {given(share)}: expected a number from 0 to "
                                 f"{_MAX_SHARE:,}")
            shares[task] = shares.get(task, 0.0) + float(share)
        total = sum(shares.values())
        if total <= 0:
            raise ValueError("task shares sum to 0: at least one must be positive")
        return {task: share / total for task, share in shares.items()}

    @model_validator(mode="after")
    def _one_load(self) -> Workload:
        if self.concurrency is not None and self.arrival_rate_rps is not None:
            raise ValueError("both concurrency and arrival_rate_rps are given: state one, the other follows from it")
        return self
