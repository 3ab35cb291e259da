"""The probability with which a target that samples takes a given token: temperature, then top-k, then top-p."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SampledAs:
    """How outputs are drawn. Temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1


def chance_among(choice: int, logprobs: Mapping[int, float], sampled: SampledAs) -> float:
    """Probability of `choice` after sampling's filters, from the target's likeliest tokens and their log
    probabilities at temperature 1.

    A choice that is not among them counts as never taken: with 20 of them it has less than a twentieth, and usually
    less than a hundredth. Their tail is taken as half of what it can be at most when cooled, and as it is at
    temperature 1.
    """
    ordered = sorted(logprobs.items(), key=lambda item: -item[1])
    if not ordered or choice not in logprobs:
        return 0.0
    if sampled.temperature <= 0:
        return 1.0 if ordered[0][0] == choice else 0.0
    power = 1.0 / sampled.temperature
    weights = [(token, math.exp(power * logprob)) for token, logprob in ordered]
    rest = max(0.0, 1.0 - sum(math.exp(logprob) for _, logprob in ordered))
    least = math.exp(ordered[-1][1])
    tail = rest if power == 1.0 else 0.5 * rest * least ** (power - 1.0) if power > 1.0 else rest**power
    if sampled.top_k > 0:
        weights, tail = weights[: sampled.top_k], 0.0 if sampled.top_k <= len(weights) else tail
    total = tail + sum(weight for _, weight in weights)
    kept: list[tuple[int, float]] = []
    mass = 0.0
    for token, weight in weights:
        # A token stays while those before it have not reached top-p.
        if kept and mass >= sampled.top_p * total:
            break
        kept.append((token, weight))
        mass += weight
    whole = total if sampled.top_p >= 1.0 else max(mass, sampled.top_p * total)
    return next((weight / whole for token, weight in kept if token == choice), 0.0)
