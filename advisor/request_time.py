"""One request's time in the engine at a load, and what keeps its speed-up from k + 1."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from advisor.cost.step import Step, StepCost
from advisor.intervals import Z80, speedup_between
from profiles.deployment import Candidate
from profiles.schema import Quantity, Source

LimitedBy = Literal["acceptance", "draft_time", "verify_compute", "overhead", "prefill_share", "memory", "nothing"]

_LEAST_PACE = 0.05
"""Of its own length: no step is made shorter than that, whatever pairs say."""


@dataclass(frozen=True)
class Tokens:
    """Tokens of the workload's requests."""

    prompt: float
    output: float
    cached_share: float = 0.0
    """Of the prompt's tokens, found in the prefix cache: they cost no prefill."""

    @property
    def uncached(self) -> float:
        return self.prompt * (1.0 - self.cached_share)


@dataclass(frozen=True)
class Request:
    """A request's time in the engine at a load: what speed-ups are ratios of. Milliseconds."""

    prefill_ms: float
    """What one request's prefill takes of the engine beside the decode steps, those that it shares taken off."""
    first_token_ms: float
    steps: float
    step: Step
    running: float
    acceptance_length: float
    output_tokens: float
    correction: float = 0.0
    """ln of what a learned correction adds to the modelled speed-up (0 for the null candidate)."""

    @property
    def total_ms(self) -> float:
        return self.running * self.prefill_ms + self.steps * self.step.ms

    @property
    def decode_share(self) -> float:
        return min(1.0, self.steps * self.step.ms / self.total_ms)

    @property
    def tpot_ms(self) -> float:
        """Time per output token a user sees, other requests' prefills included."""
        return ((self.running - 1.0) * self.prefill_ms + self.steps * self.step.ms) / self.output_tokens

    @property
    def tokens_per_s(self) -> float:
        return self.running * self.output_tokens / self.total_ms * 1000.0

    def at_pace(self, longer: float) -> Request:
        """The same request where it takes `longer` times as long in all: its prompts are what they are, so its steps
        are as much longer as that takes."""
        prompts = self.running * self.prefill_ms - self.step.ms
        times = max(_LEAST_PACE, (self.total_ms * longer - prompts) / (self.step.ms * (1.0 + self.steps)))
        step = replace(self.step, draft_ms=self.step.draft_ms * times, verify_ms=self.step.verify_ms * times,
                       overhead_ms=self.step.overhead_ms * times)
        return replace(self, step=step, prefill_ms=self.prefill_ms + (step.ms - self.step.ms) / self.running)


def request_of(
    cost: StepCost, candidate: Candidate, k: int, running: float, length: float, drafted: float, tokens: Tokens
) -> Request:
    """A request's time of measured parts: N prefills and its steps, N at a time.

    length, drafted: tokens that a step gives and drafts in the mean.
    """
    step = cost.step(candidate, running, k, drafted, tokens.prompt + 0.5 * tokens.output)
    none, prompt = cost.prefill(0.0).ms, cost.prefill(max(1.0, tokens.uncached)).ms
    if candidate.method != "none":
        none += cost.draft_prefill(candidate, 0.0).ms
        prompt += cost.draft_prefill(candidate, tokens.uncached).ms
    # Prompt tokens ride along in a step that the others decode in, and that drafts as their other steps do: a request
    # pays for its tokens, and all who run pay for the step.
    prefill_ms = max(0.0, prompt - none) + step.ms / running
    steps = max(0.0, tokens.output - 1.0) / length
    return Request(
        prefill_ms, prompt + (0.5 * step.ms if running > 1 else 0.0), steps, step, running, length, tokens.output
    )


def measured_speed(
    base: Request, own: Request, k: int, acceptance_sd: float, threshold: float, source: Source
) -> tuple[Quantity, Quantity, float]:
    """Decode speed-up, end-to-end speed-up, and the log standard deviation that the chance of a gain goes by, of times
    that a trial measured. acceptance_sd: of the log of the acceptance length."""
    ratio = own.tokens_per_s / base.tokens_per_s
    prefill_sd = 0.25 * abs(own.decode_share - base.decode_share)
    # A step gives 1 to k + 1 tokens, so acceptance can move a speed-up no further than there.
    spread = Z80 * acceptance_sd
    worse = min(spread, math.log(own.acceptance_length))
    better = min(spread, math.log((k + 1.0) / own.acceptance_length))
    below, above = (math.hypot(side, Z80 * own.step.ratio_log_sd) for side in (worse, better))
    decode_q = speedup_between(own.acceptance_length * base.step.ms / own.step.ms, below, above, k, source)
    below, above = (math.hypot(own.decode_share * side, Z80 * prefill_sd) for side in (below, above))
    speed_q = speedup_between(ratio, below, above, k, source)
    full = own.total_ms - own.steps * own.step.ms * (1.0 - own.acceptance_length / (k + 1.0))
    ceiling = ratio * own.total_ms / full
    if ceiling <= 1.0:
        # Not even a draft accepted whole makes up for its step: there is no chance of a gain to speak of.
        return decode_q, speed_q.model_copy(update={"high": min(speed_q.high or ceiling, ceiling)}), 0.0
    return decode_q, speed_q, (above if speed_q.value < threshold else below) / Z80


def limit_of(base: Request, own: Request, k: int) -> LimitedBy:
    """What keeps a cell's speed-up from k + 1: the largest of its losses, in logarithms."""
    if k == 0:
        return "overhead"
    growth = max(0.0, math.log(own.step.ms / base.step.ms))
    extra: dict[LimitedBy, float] = {
        "draft_time": own.step.draft_ms,
        "verify_compute": max(0.0, own.step.verify_ms - base.step.ms),
        "overhead": own.step.overhead_ms,
    }
    whole = sum(extra.values())
    losses: dict[LimitedBy, float] = {"acceptance": math.log((k + 1.0) / own.acceptance_length)}
    for name, share in extra.items():
        losses[name] = growth * share / whole if whole > 0 else 0.0
    decode = own.acceptance_length * base.step.ms / own.step.ms
    # Fewer requests at once give so many times fewer tokens, though each of them has a shorter step.
    losses["memory"] = max(0.0, math.log(base.running / own.running))
    end_to_end = base.total_ms / own.total_ms
    losses["prefill_share"] = abs(math.log(decode / end_to_end)) if end_to_end > 0 else 0.0
    return max(losses, key=lambda name: losses[name])
