"""What is worked out over recorded outputs: acceptance at every k, nothing generated. A section of `Evidence`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from profiles.methods import refuse_unknown_method
from profiles.schema import (
    Amount,
    Count,
    Quantity,
    Running,
    Schema,
    SeenShare,
    Setting,
    Share,
    Speculated,
    Temperature,
    number,
    refuse_outside,
)
from profiles.workload import Lengths, Task

Length = Annotated[float, Field(ge=1, le=65), number]
"""Mean tokens of a step, the target's own token included."""


class AcceptancePoint(Schema):
    """Acceptance at one k. Intervals are 80 %, by resampling requests."""

    k: Speculated
    acceptance_length: Quantity
    """Mean tokens per step, bonus included; steps without a draft count as steps of one token."""
    per_position: tuple[Share, ...]
    """Unconditional: steps whose token at this position was accepted / all steps."""
    per_position_low: tuple[Share, ...] = ()
    per_position_high: tuple[Share, ...] = ()
    matched_share: SeenShare
    """Share of the steps that had a draft."""
    drafted_tokens: Amount
    """Mean drafted tokens of a step."""
    engine_acceptance_length: Length | None = None
    """As the engine's own counters show it: steps with a draft only. None where no step had one."""
    steps: Count

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        refuse_outside("acceptance_length", 1.0, self.acceptance_length.value, 1.0 + self.k)
        if len(self.per_position) > self.k:
            raise ValueError(f"per_position has {len(self.per_position)} positions: expected at most k, {self.k}")


class AcceptanceCurve(Schema):
    """One method, draft and setting at every k up to the maximum."""

    method: str
    draft: str | None = None
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Every setting of the method, the engine's defaults written out."""
    requests: Count
    by_k: tuple[AcceptancePoint, ...]
    """All requests together; by_k[i] is of k = i + 1."""
    by_task: dict[Task, tuple[AcceptancePoint, ...]] = Field(default_factory=dict)
    """The same by task family, where the records tell it."""
    notes: tuple[str, ...] = ()

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        refuse_unknown_method(self.method)


class BestSetting(Schema):
    """The setting with the longest acceptance at one k; of equals the one that drafts fewer tokens."""

    task: Task | None = None
    """None: all requests together."""
    k: Speculated
    method: str
    draft: str | None = None
    settings: dict[str, Setting] = Field(default_factory=dict)
    acceptance_length: Quantity
    drafted_tokens: Amount

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        refuse_unknown_method(self.method)


class RecordedAcceptance(Schema):
    """Acceptance worked out over recorded outputs, nothing generated: what was recorded is what the target said."""

    tier: Literal["replay", "scoring"]
    """replay: drafts recomputed from the text. scoring: one pass of the draft over the text."""
    files: tuple[str, ...]
    """Names without their folders."""
    target: str | None = None
    """Whose tokens were counted; None where the records hold token ids and no tokenizer was named."""
    requests: Count
    distinct: Count | None = None
    """Of the requests, how many are no copy of another one: what intervals rest on."""
    skipped: dict[str, Count] = Field(default_factory=dict)
    """Records left out, by reason."""
    skipped_lines: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Where the first ones of each reason are: `file:line`."""
    tasks: dict[Task, Count] = Field(default_factory=dict)
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    models: tuple[str, ...] = ()
    """Models the records name."""
    of_target: bool | None = None
    """Whether the target wrote these outputs; None where that is not known."""
    target_agreement: SeenShare | None = None
    """Share of the recorded tokens that are the target's own first choice, where it was asked."""
    lower_bound: bool = False
    """The outputs are another model's: a draft made for this target agrees with it more than with them."""
    temperature: Temperature | None = None
    """Temperature the outputs were drawn at; None where not known."""
    running: Running = 1
    """Requests walked side by side: a suffix tree shared by them grows as they go."""
    curves: tuple[AcceptanceCurve, ...] = ()
    best: tuple[BestSetting, ...] = ()
    notes: tuple[str, ...] = ()

    def refuse_contradiction(self) -> None:
        super().refuse_contradiction()
        if self.distinct is not None and self.distinct > self.requests:
            raise ValueError(f"distinct is {self.distinct:,} of {self.requests:,} requests: expected at most as many")
