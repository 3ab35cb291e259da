"""One arm of a trial: start its engine, run its blocks, keep what was measured whatever becomes of the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import psutil

from probes.trial import plausibility
from probes.trial.engine_errors import EngineFailure
from probes.trial.engine_process import EngineProcess
from probes.trial.plan import OUTPUT_BLOCK, ArmPlan
from probes.trial.progress import spoken
from probes.trial.samples import SAMPLE_COUNT, SAMPLE_TOKENS, BlockPlan, request_samples
from probes.trial.session import Session
from profiles.evidence import ArmStatus, RequestAcceptance
from profiles.methods import method
from profiles.plausibility import later_positions, position_totals, rates
from profiles.workload import Task

_SPARE_BYTES = 4 << 30
"""Host memory that must be free for a process more that has imported its engine and waits."""


def spawned(session: Session, arm: ArmPlan) -> EngineProcess:
    """A process in the arm's environment that imports the engine and waits to be told what to start."""
    plan = session.plan
    process = EngineProcess({}, env=plan.env_of(arm), repair=plan.repair, silence_s=plan.silence_s)
    process.spawn()
    return process


def launch(session: Session, arm: ArmPlan, engine_args: dict[str, Any], first: bool = True) -> EngineProcess:
    """Start an engine for the arm and run one unrecorded block, so that no cell holds one-off costs. EngineFailure."""
    label = spoken(arm.candidate)
    # A bound on the start, or an engine that never gets ready would eat the budget of all others.
    patience = max(60.0, min(1800.0, session.left_s))
    process = session.take_spare(arm) or spawned(session, arm)
    process.engine_args, process.start_timeout_s = engine_args, patience
    following = session.next_start(arm) if first else None
    if following is not None and psutil.virtual_memory().available > _SPARE_BYTES:
        # Half of a start is importing the engine, on one processor: the next one's while this one loads its weights.
        session.spare = spawned(session, following)
    estimated = session.estimator.start_s()
    told = session.expected.start_s()
    try:
        with session.countdown.step(told):
            session.tell(f"{label}: starting the engine")
            process.start(waiting=lambda _: session.tell(f"{label}: starting the engine"))
        session.started(arm, process, first)
        ids = session.tokens(process)
        process.call("run_block", prompts=[ids[0], ids[-1]], running=2, k=None, max_tokens=4, ignore_eos=True,
                     temperature=0.0)
        session.estimator.observe("start", estimated, process.lived_s)
        session.expected.observe("start", told, process.lived_s)
    except BaseException:
        session.close(arm, process)
        raise
    return process


def block_command(session: Session, process: EngineProcess, block: BlockPlan, *, k: int | None,
                  whole: bool) -> dict[str, Any]:
    """The `run_block` command (worker.py) of a block; `whole`: prompts count as new, and answers end where the model
    ends them."""
    plan = session.plan
    ids = [session.tokens(process)[place % len(plan.prompts)] for place in block.places]
    if block.context_tokens is not None:
        long = lengthened(session.tokens(process), block.context_tokens)
        ids = [long for _ in block.places]
        # Alone, so that the others find it in the prefix cache and their steps are decode only.
        process.call("run_block", prompts=[long], running=1, k=k, max_tokens=1, ignore_eos=True, temperature=0.0)
    return {"prompts": ids, "running": block.running, "k": k, "max_tokens": block.max_tokens, "ignore_eos": not whole,
            **session.sampling, "keep_prefix_cache": not whole,
            "deadline_s": None if plan.budget_s is None else max(1.0, session.left_s)}


def run_block(session: Session, process: EngineProcess, block: BlockPlan, label: str, *, k: int | None,
              whole: bool) -> dict[str, Any]:
    """One block on a running engine, plain steps of the resident one in between where there is one (another one)."""
    command = block_command(session, process, block, k=k, whole=whole)
    estimated, begin = session.estimator.block_s(block), time.monotonic()
    told = session.expected.beside_s(block, 1 if session.resident not in (None, process) else 0)
    stage = f"{label}: {block.key}"
    with session.countdown.step(told), session.beside(process, command["prompts"][:block.running]) as turn:
        session.tell(stage)
        data: dict[str, Any] = process.call("run_block", turn=turn, beat=lambda steps, tokens: session.tell(stage),
                                            **command)
    if data["complete"]:
        session.estimator.observe("block", estimated, time.monotonic() - begin)
        session.expected.observe("block", told, time.monotonic() - begin)
    return data


def lengthened(prompts: list[list[int]], tokens: int) -> list[int]:
    """Token ids of that many tokens, made of the prompts one after another."""
    text: list[int] = []
    while len(text) < tokens:
        for ids in prompts:
            text += ids
    return text[:tokens]


def run_arm(session: Session, arm: ArmPlan, keep: bool = False) -> EngineProcess | None:
    """Run what the arm still owes. With `keep`, an engine that is well is returned alive, for the comparison.

    A failed engine marks the arm and is told; nothing is raised but KeyboardInterrupt, after the block in progress was
    saved as far as it got.
    """
    if not session.waits(arm):
        return None
    session.take_turn(arm)
    session.change(arm, status=ArmStatus.INTERRUPTED, error=None)
    process: EngineProcess | None = None
    well = False
    try:
        process = launch(session, arm, arm.engine_args)
        if keep:
            session.resident = process
        if arm.dynamic and process.info["k_control"] != "schedule_lookup":
            # This release hides its lookup: one start for each k instead.
            session.change(arm, k_control="one_start_per_k")
            process = _one_start_per_k(session, arm, process)
        else:
            session.change(arm, k_control=process.info["k_control"])
            _run_blocks(session, arm, process, session.owed(arm))
        session.change(arm, status=ArmStatus.INTERRUPTED if session.owed(arm) else ArmStatus.DONE)
        well = True
    except EngineFailure as failure:
        session.change(arm, status=failure.status, error=str(failure))
        session.progress.note(f"{spoken(arm.candidate)}: {failure.status.value.replace('_', ' ')}: {failure}")
    finally:
        if process is not None and not (keep and well):
            session.resident = None if session.resident is process else session.resident
            session.close(arm, process)
        session.end_turn(arm)
        session.save()
    return process if keep and well else None


def starts_by_k(arm: ArmPlan, blocks: list[BlockPlan]) -> Iterator[tuple[dict[str, Any], list[BlockPlan]]]:
    """Engine arguments and the blocks they serve, one start for each k, the largest first."""
    seats = int(arm.engine_args["max_num_seqs"])
    for k, group in groupby(sorted(blocks, key=lambda b: -b.k), key=lambda b: b.k):
        config = {**arm.engine_args["speculative_config"], "num_speculative_tokens_per_batch_size": [[1, seats, k]]}
        yield {**arm.engine_args, "speculative_config": config}, list(group)


def _one_start_per_k(session: Session, arm: ArmPlan, process: EngineProcess) -> EngineProcess:
    """Run the owed blocks with an engine for each k; the last one is left running."""
    running_k: int | None = arm.k_max
    for args, blocks in starts_by_k(arm, session.owed(arm)):
        if running_k != blocks[0].k:
            session.close(arm, process)
            process = launch(session, arm, args)
        running_k = None
        _run_blocks(session, arm, process, blocks)
    return process


def _run_blocks(session: Session, arm: ArmPlan, process: EngineProcess, blocks: list[BlockPlan]) -> None:
    for block in blocks:
        if session.left_s <= 0:
            return
        needed = session.estimator.block_s(block)
        if block.key != OUTPUT_BLOCK and session.turn_left_s(arm) < needed:
            return
        if block.key != OUTPUT_BLOCK and _hopeless(session, arm):
            session.done.setdefault(arm.key, []).extend(b.key for b in session.owed(arm))
            session.progress.note(f"{spoken(arm.candidate)}: acceptance is too low for a gain at any load; its step "
                                  "times are not measured further")
            return
        k = block.k if process.info["k_control"] == "schedule_lookup" else None
        try:
            data = run_block(session, process, block, spoken(arm.candidate), k=k, whole=block.key == OUTPUT_BLOCK)
        except KeyboardInterrupt:
            partial = process.interrupt()
            if partial is not None and partial["steps"]:
                session.record(arm, block, {**partial, "complete": False})
            raise
        session.record(arm, block, data)
        _look(session, arm, block, data)
        if block.key == OUTPUT_BLOCK and data["complete"] and session.plan.sampling.temperature > 0:
            _sampled_probe(session, arm, process, k)
        session.save()
        if not data["complete"]:
            return


def _look(session: Session, arm: ArmPlan, block: BlockPlan, data: dict[str, Any]) -> None:
    """Hold the block against what a correct engine can show."""
    greedy, label = session.plan.sampling.temperature == 0, arm.candidate.label
    if not arm.k_max:
        if greedy:
            session.remember(block, data)
        return
    if not block.k:
        return
    drafted, accepted = position_totals(_acceptance(data, block.k))
    found = later_positions(label, drafted, accepted) + rates(label, drafted, accepted)
    # The first token of each comes of its prompt's step, which verifies nothing.
    decoded = sum(max(0, len(r["ids"]) - 1) for r in data["requests"])
    found += plausibility.counters(label, data["counters"], drafted, decoded,
                                   method(arm.candidate.method).always_drafts)
    if greedy and block.key == OUTPUT_BLOCK:
        noise = plausibility.divergence(session.noise)
        found += plausibility.greedy_output(label, session.parted(block, data), noise)
    session.say(found)


def _acceptance(data: dict[str, Any], k: int) -> list[RequestAcceptance]:
    places = 1 + max((r["place"] for r in data["requests"]), default=0)
    return request_samples(data["requests"], [Task.MIXED] * places, k)


def _sampled_probe(session: Session, arm: ArmPlan, process: EngineProcess, k: int | None) -> None:
    """Many short sampled continuations of one prompt; the arm's are held against the baseline's."""
    plan = session.plan
    session.tell(f"{spoken(arm.candidate)}: sampled outputs")
    data = process.call(
        "run_block", prompts=[session.tokens(process)[0]] * SAMPLE_COUNT, k=k,
        running=min(32, int(plan.base_args["max_num_seqs"])), max_tokens=SAMPLE_TOKENS, ignore_eos=True,
        **session.sampling, keep_prefix_cache=True)
    samples = [r["ids"] for r in data["requests"]]
    if not arm.k_max:
        session.samples = samples
        return
    label = arm.candidate.label
    totals = position_totals(_acceptance(data, k or arm.k_max))
    session.say(later_positions(label, *totals))
    if session.samples:
        session.say(plausibility.sampled_output(label, session.samples, samples, plan.seed))


def _hopeless(session: Session, arm: ArmPlan) -> bool:
    """Even a step that cost nothing extra would not gain: tokens per step bound the speed-up from above.

    Two standard errors over requests are granted, and a tenth for the texts not seen.
    """
    requests = session.change(arm).requests
    ratios = [1 + sum(r.accepted) / r.steps for r in requests if r.steps]
    if len(ratios) < 4:
        return False
    mean = sum(ratios) / len(ratios)
    error = (sum((x - mean) ** 2 for x in ratios) / (len(ratios) - 1) / len(ratios)) ** 0.5
    return bool((mean + 2 * error - 1) * 1.1 < session.plan.worthwhile_gain)
