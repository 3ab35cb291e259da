"""From what an engine child reported of a block to the evidence's own shapes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profiles.evidence import Block, PrefillSample, RequestAcceptance, StepSample
from profiles.workload import Task

SAMPLE_COUNT = 96
"""Continuations of one prompt behind the test of the sampled distribution, each arm."""
SAMPLE_TOKENS = 4
LONGEST_CELL = 240
"""Step times kept of one cell: enough for any statistic drawn from them, and a file stays readable."""


@dataclass(frozen=True)
class BlockPlan:
    """One timed run that an arm owes: what to run, and what it is for."""

    key: str
    """Unique within the arm; a resumed trial skips the keys it has."""
    k: int
    running: int
    places: tuple[int, ...]
    """Which of the plan's prompts."""
    max_tokens: int
    context_tokens: int | None = None
    """Prompts lengthened to about this many tokens, for the cost of a long context; None: as they are."""


def context_bucket(tokens: float) -> int:
    """Steps of similar context are one cell: buckets are powers of two of 64 tokens and up, 0 below."""
    bucket = 0
    edge = 64
    while tokens >= edge:
        bucket, edge = edge, edge * 2
    return bucket


def beside(rows: Sequence[Sequence[Any]]) -> list[float | None]:
    """For each row the mean of the other engine's turn before it and of its next one; not every row has one."""
    before: list[float | None] = []
    for row in rows:
        before.append(row[9] if row[9] is not None else before[-1] if before else None)
    found: list[float | None] = []
    after: float | None = None
    for row, last in zip(reversed(rows), reversed(before), strict=True):
        around = [ms for ms in (last, after) if ms is not None]
        found.append(_mean(around) if around else None)
        after = row[9] if row[9] is not None else after
    return found[::-1]


def step_samples(rows: Sequence[Sequence[Any]], k: int, task: Task | None,
                 beside_running: int = 0) -> list[StepSample]:
    """Decode-only steps grouped by (running, context bucket); `rows` as worker.py states them.

    `beside_running`: requests in the plain steps that another engine made between these.
    """
    cells: dict[tuple[int, int], list[tuple[Sequence[Any], float | None]]] = defaultdict(list)
    for row, plain_ms in zip(rows, beside(rows), strict=True):
        _, running, prefilling, *_ = row
        if running and not prefilling:
            cells[running, context_bucket(row[7])].append((row, plain_ms))
    samples = []
    for (running, _), cell in sorted(cells.items()):
        # Thinned evenly: the counts below must belong to the very steps whose times are kept.
        thinned = cell[:: max(1, -(-len(cell) // LONGEST_CELL))]
        kept = [row for row, _ in thinned]
        drafts = [row[8] for row in kept]
        plain = tuple(ms for _, ms in thinned if ms is not None)
        told = beside_running > 0 and len(plain) == len(kept)
        samples.append(StepSample(
            k=k, running=running, context_tokens=_mean([row[7] for row in kept]),
            tokens_per_step=_mean([row[4] for row in kept]), step_ms=tuple(row[0] for row in kept),
            draft_ms=tuple(drafts) if all(d is not None for d in drafts) else (),
            output_tokens=sum(row[6] for row in kept), task=task, beside_ms=plain if told else (),
            beside_running=beside_running if told else 0))
    return samples


def prefill_samples(rows: Sequence[Sequence[Any]], beside_running: int = 0) -> list[PrefillSample]:
    """Steps that carried prompt tokens and nothing else, so that no decode time is in them."""
    return [PrefillSample(tokens=row[3], step_ms=row[0], beside_ms=plain_ms if beside_running else None,
                          beside_running=beside_running if plain_ms is not None else 0)
            for row, plain_ms in zip(rows, beside(rows), strict=True) if row[3] and row[1] == row[2]]


def request_samples(requests: Sequence[dict[str, Any]], tasks: Sequence[Task],
                    k: int) -> list[RequestAcceptance]:
    """One entry a request that decoded at all; `tasks[i]` is of the block's i-th prompt, `k` is what it asked for."""
    return [RequestAcceptance(task=tasks[r["place"]], prompt_tokens=r["prompt_tokens"], output_tokens=len(r["ids"]),
                              steps=r["steps"], k=k, drafted=tuple(r["drafted"]), accepted=tuple(r["accepted"]))
            for r in requests if r["steps"]]


def timed_block(data: dict[str, Any], k: int, running: int, task: Task | None, start: int) -> Block:
    """Whole-block figures, and those of its decode-only steps at full load."""
    timed = zip(data["steps"], beside(data["steps"]), strict=True)
    whole = [(row, plain_ms) for row, plain_ms in timed if row[1] == running and not row[2]]
    full, plain = [row for row, _ in whole], [plain_ms for _, plain_ms in whole if plain_ms is not None]
    return Block(k=k, running=running, task=task, wall_s=data["wall_s"], output_tokens=data["output_tokens"],
                 decode_s=sum(row[0] for row in full) / 1e3, decode_tokens=sum(row[6] for row in full), start=start,
                 beside_ms=_mean(plain) if plain else None)


def kept_at_load_s(data: dict[str, Any], running: int) -> float:
    """Seconds that the block's work takes of a server kept at `running` requests.

    A block ends with fewer requests than it began with: half of its steps, where a dozen answers of one length run
    eight at a time. Steps with less beside them are cheaper and leave more room for drafts, so that a block's own time
    flatters one arm or the other. Their part counts by the requests they carried, at the price of the steps at full
    load.
    """
    decoding = [(row[0], row[1]) for row in data["steps"] if row[1] and not row[2]]
    full_ms = [ms for ms, requests in decoding if requests == running]
    wall_s = float(data["wall_s"])
    if not full_ms:
        return wall_s
    at_load_ms = _mean(full_ms) * sum(float(requests) for _, requests in decoding) / running
    return wall_s + (at_load_ms - sum(float(ms) for ms, _ in decoding)) / 1e3


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
