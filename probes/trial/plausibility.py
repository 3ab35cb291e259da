"""Patterns a correct engine cannot show. They are said, never averaged in. Pure functions of counts.

Each test is made for one claim: with correct speculation it fires with a chance below about one in a thousand (stated
at the test), so that a finding means something. Token ids stay in memory; only counts leave.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiles.evidence import Implausibility, StepSample
from profiles.plausibility import RARE, rates

PERMUTATIONS = 2000
"""Random splits behind a two-sample test: its smallest p-value is about 1/2000."""


STEADY_STEPS = 8
"""Steps a cell needs before its steadiness is judged."""


def unsteady(arm: str, cells: Sequence[StepSample]) -> list[Implausibility]:
    """Steps of one shape whose 90th percentile is half as long again as their median: something else ran beside."""
    worst, told = 0.0, False
    for cell in cells:
        times = sorted(cell.step_ms)
        if len(times) >= STEADY_STEPS:
            worst = max(worst, times[int(0.9 * (len(times) - 1))] / times[len(times) // 2] - 1)
            told = bool(cell.beside_ms)
    if worst < 0.5:
        return []
    advice = ("its steps are read in units of plain steps made between them, and intervals are wider for it" if told
              else "no timing made meanwhile can be trusted; run the trial again when it is quiet")
    return [Implausibility(
        code="unsteady_steps", arm=arm, severity="warn",
        message=f"steps of the same shape took up to {100 * worst:.0f} % longer than their median: other work shares "
                f"this machine, and {advice}")]


# --- acceptance ------------------------------------------------------------------------------------------------------
def counters(arm: str, counted: Mapping[str, Any], drafted: Sequence[int], output_tokens: int,
             always_drafts: bool) -> list[Implausibility]:
    """The engine's own counters against what the steps showed. `counted`: differences, as worker.py states them."""
    said = []
    if output_tokens and not counted.get("generation_tokens", output_tokens):
        said.append("it gave tokens, but its generation counter did not move")
    drafts = counted.get("spec_decode_num_drafts")
    seen = drafted[0] if drafted else 0
    if seen and not drafts:
        said.append(f"its steps carried {seen} drafts, but its counter of drafts did not move")
    if always_drafts and output_tokens and not seen and not drafts:
        said.append("it was asked to speculate and never drafted (a context beyond the draft's limit does this)")
    found = [Implausibility(code="counters_did_not_move", arm=arm, severity="warn", message=text) for text in said]
    positions = counted.get("spec_decode_num_accepted_tokens_per_pos")
    if drafts and positions:
        found += rates(arm, [int(drafts)] * len(positions), [int(p) for p in positions])
    return found


# --- greedy output ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Divergence:
    """How often two greedy runs of the same prompts part. `tokens`: compared up to and with each parting."""

    requests: int
    differing: int
    tokens: int
    first: int | None
    """Earliest parting, counted from the first output token (0)."""


def divergence(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Divergence:
    """Compare outputs pairwise over their common length: one run may have been cut shorter."""
    differing = tokens = 0
    first: int | None = None
    for left, right in pairs:
        length = min(len(left), len(right))
        parting = next((i for i in range(length) if left[i] != right[i]), None)
        if parting is None:
            tokens += length
            continue
        differing += 1
        tokens += parting + 1
        first = parting if first is None else min(first, parting)
    return Divergence(len(pairs), differing, tokens, first)


def pooled(several: Sequence[Divergence]) -> Divergence:
    """Several comparisons as one."""
    firsts = [d.first for d in several if d.first is not None]
    return Divergence(sum(d.requests for d in several), sum(d.differing for d in several),
                      sum(d.tokens for d in several), min(firsts, default=None))


def greedy_output(arm: str, seen: Divergence, noise: Divergence) -> list[Implausibility]:
    """Greedy outputs that part from the baseline's more often than the baseline parts from itself.

    Batches of another shape round differently, so equal models part now and then: `noise` is the baseline against
    itself at another load. Compared are partings per token, by the exact test of two Poisson rates (conditional
    binomial); noise that was hardly measured is taken as one parting in 100 tokens.
    """
    if not seen.tokens or not seen.differing:
        return []
    # One pseudo-observation: a short noise run with no parting does not prove that there are none.
    noise_tokens, noise_partings = noise.tokens + 100, noise.differing + 1
    share = seen.tokens / (seen.tokens + noise_tokens)
    chance = binomial_tail(seen.differing, seen.differing + noise_partings, share)
    rate, noise_rate = seen.differing / seen.tokens, noise_partings / noise_tokens
    if chance > RARE or rate < 2 * noise_rate:
        return []
    first = "" if seen.first is None else f", the earliest at output token {seen.first + 1}"
    return [Implausibility(
        code="greedy_output_differs", arm=arm, severity="error",
        message=f"greedy output differs from the baseline's in {seen.differing} of {seen.requests} requests{first}: "
                f"{rate:.3f} partings a token, where the baseline against itself shows {noise_rate:.3f}; "
                "speculation must not change greedy output beyond rounding")]


# --- sampled output --------------------------------------------------------------------------------------------------
def two_sample_p(left: Sequence[int], right: Sequence[int], seed: int = 0) -> float:
    """Chance that two samples of token ids from one distribution differ at least as much (permutation chi-square).

    Rare tokens need no pooling: the null is made from the samples themselves.
    """
    if not left or not right:
        return 1.0
    both = [*left, *right]
    totals = Counter(both)
    observed = _chi_square(Counter(left), totals, len(left), len(both))
    rng = random.Random(seed)
    at_least = 1
    for _ in range(PERMUTATIONS):
        rng.shuffle(both)
        at_least += _chi_square(Counter(both[: len(left)]), totals, len(left), len(both)) >= observed - 1e-9
    return at_least / (PERMUTATIONS + 1)


def sampled_output(arm: str, baseline: Sequence[Sequence[int]], speculative: Sequence[Sequence[int]],
                   seed: int = 0) -> list[Implausibility]:
    """Sampled continuations of one prompt, baseline against arm, token by token after the first.

    The first token of a request comes from its prefill, which carries no draft; what follows is what speculation could
    bend. The smallest p-value is corrected for the positions looked at (Bonferroni).
    """
    width = min((len(ids) for ids in (*baseline, *speculative)), default=0)
    tests = {i: two_sample_p([ids[i] for ids in baseline], [ids[i] for ids in speculative], seed)
             for i in range(1, min(width, 4))}
    if not tests:
        return []
    position, p = min(tests.items(), key=lambda item: item[1])
    corrected = min(1.0, p * len(tests))
    if corrected > 2 * RARE:
        return []
    return [Implausibility(
        code="sampled_distribution_differs", arm=arm, severity="error",
        message=f"sampled output token {position + 1} of {len(speculative)} continuations of one prompt is distributed "
                f"unlike the baseline's {len(baseline)} (two-sample permutation test, p {corrected:.4f}): this engine "
                "does not sample correctly with speculation on; measure at temperature 0, or on another build")]


# --- tails -----------------------------------------------------------------------------------------------------------
def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(X >= successes) for X binomial(trials, chance); exact, by logarithms."""
    if successes <= 0:
        return 1.0
    if successes > trials or chance <= 0:
        return 0.0
    if chance >= 1:
        return 1.0
    terms = [_log_choose(trials, x) + x * math.log(chance) + (trials - x) * math.log1p(-chance)
             for x in range(successes, trials + 1)]
    top = max(terms)
    return min(1.0, math.exp(top) * sum(math.exp(t - top) for t in terms))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _chi_square(left: Counter[int], both: Counter[int], size: int, total: int) -> float:
    """Pearson's statistic of a 2 x tokens table; only the left row is needed, the right follows from the totals."""
    share = size / total
    value = 0.0
    for token, count in both.items():
        expected = count * share
        difference = left.get(token, 0) - expected
        value += difference * difference * (1 / expected + (1 / (count - expected) if count > expected else 0.0))
    return value
