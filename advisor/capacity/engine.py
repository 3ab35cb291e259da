"""From prices and plans of a situation to the engine that is simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.capacity.arrivals import length_quantile
from advisor.capacity.simulation import EngineModel
from advisor.capacity.step_table import tabulate
from advisor.cost.machine import engine_limits
from advisor.prediction import Pricing
from advisor.schedule import Band, k_at
from profiles.deployment import Candidate
from profiles.methods import method
from profiles.workload import Lengths


def engine_model(
    pricing: Pricing, candidate: Candidate, k: int, schedule: Sequence[Band] | None, prompt: Lengths, output: Lengths
) -> EngineModel:
    """One replica with a candidate at one k, or with k by a schedule."""
    limits = engine_limits(pricing.situation)
    most = limits.max_num_seqs
    null = method(candidate.method).drafter == "none"
    if null:
        k_of = (0,) * (most + 1)
    elif schedule:
        k_of = (k_at(schedule, 1), *(k_at(schedule, n) for n in range(1, most + 1)))
    else:
        k_of = (k,) * (most + 1)
    ks = tuple(sorted(set(k_of)))
    loaded = max(ks)
    acceptance = pricing.acceptance[candidate.label]
    longest_prompt = max(length_quantile(prompt, 0.99), prompt.max or 0.0, 2.0 * prompt.mean)
    longest_output = max(length_quantile(output, 0.99), output.max or 0.0, 2.0 * output.mean)
    table = tabulate(
        pricing.cost, candidate, acceptance, ks,
        max_num_seqs=most, max_context=longest_prompt + longest_output, max_prompt=longest_prompt + longest_output,
        token_budget=limits.max_num_batched_tokens,
    )
    # What a trial measured of this candidate against the baseline overrules the model of its steps.
    carried = None if null else pricing.carried_over(candidate)
    if carried is not None:
        table = table.scaled(math.exp(-carried[0]))
    memory = pricing.plan(candidate, loaded)
    return EngineModel(
        table=table,
        k_of=k_of,
        accept=tuple(accept_row(pricing, candidate, row) for row in ks),
        token_budget=limits.max_num_batched_tokens,
        kv_tokens=memory.kv_tokens_without if null else memory.kv_tokens_with,
        extra_slots=_extra_slots(candidate, loaded),
    )


def accept_row(pricing: Pricing, candidate: Candidate, k: int) -> tuple[float, ...]:
    """Chance that each of k positions is accepted (unconditional, steps without a draft counted), such that their sum
    is the acceptance length known for this k."""
    if k == 0:
        return ()
    known = [q.value for q in pricing.acceptance[candidate.label].per_position[:k]]
    known += [known[-1] if known else 0.0] * (k - len(known))
    wanted, have = pricing.length(candidate, k).value - 1.0, sum(known)
    if have <= 0:
        return (wanted / k,) * k
    row = [min(1.0, p * wanted / have) for p in known]
    for i in range(1, k):
        row[i] = min(row[i], row[i - 1])
    return tuple(row)


def _extra_slots(candidate: Candidate, k: int) -> int:
    return {"0": 0, "1": 1, "k": k, "k-1": k - 1}[method(candidate.method).slots_per_request]
