"""Two servers, one with speculation and one without, compared in paired, alternating blocks over HTTP.

Both may share one GPU, so only one works at a time; the other is watched to be idle. Pairs in which anyone else used
either server are dropped and said, never averaged in.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from probes.trial import plausibility
from probes.trial.answers import Answer, BlockRun, text_divergence
from probes.trial.engine_errors import EngineFailure
from probes.trial.load_client import EventLoop, LoadClient, RequestFailed
from probes.trial.progress import Progress
from probes.trial.prompts import Prompt, prompts_summary
from probes.trial.server_counters import Moment, WatchedServer, acceptance_of, check_roles
from probes.trial.two_servers import RunningPair, shares_of, started_pair, status_of
from profiles.deployment import NO_SPECULATION, Candidate, Deployment
from profiles.errors import InputError, ProbeError
from profiles.evidence import (
    ArmEvidence,
    ArmStatus,
    Block,
    GpuDevice,
    Implausibility,
    PairedBlock,
    PairedComparison,
    RequestAcceptance,
    TrialEvidence,
)
from profiles.methods import METHODS
from profiles.plausibility import later_positions, position_totals, rates
from profiles.workload import Sampling, Task

_IDLE_PATIENCE_S = 20.0
_POLLUTED_IN_A_ROW = 3
_WARM_TOKENS = 8
_LEAST_S = 5.0
"""With less than this left after the starts, nothing can be measured."""
_ORDERS: tuple[Literal["baseline_first", "speculative_first"], ...] = ("baseline_first", "speculative_first")


@dataclass
class _Arm:
    """One server, its client, and what was measured on it in pairs that count."""

    server: WatchedServer
    client: LoadClient
    blocks: list[Block] = field(default_factory=list)
    ttft_ms: list[float] = field(default_factory=list)
    tpot_ms: list[float] = field(default_factory=list)


@dataclass
class _Run:
    """One block on one server with what the counters of both said about it."""

    block: BlockRun
    moved: Moment
    foreign: str | None
    """What others did meanwhile, or None."""


def compare_servers(
    baseline_url: str, speculative_url: str, prompts: Sequence[Prompt], running: int,
    stop: Callable[[Sequence[PairedBlock]], str | None], max_tokens: int, budget_s: float,
    progress: Progress, token: str | None = None, *,
    candidate: Candidate, sampling: Sampling | None = None, seed: int = 0, timeout_s: float = 120.0,
    source: str = "built-in", requests_per_block: int | None = None, device: str = "unknown", hardware: str = "unknown",
) -> TrialEvidence:
    """Compare two running servers on the same prompts, `running` at a time, until `stop` says why to end.

    `stop` sees the pairs so far and returns the reason to end, or None. `budget_s` bounds the whole in seconds.
    `candidate` says what the speculative server runs; its k is read from the server's counters. `timeout_s` bounds each
    silence of a server. Block times are those of a server kept at the load, prefill included (`kept_at_load_s`).
    Prompts repeat, under another cache salt, only where the candidate doesn't look drafts up in earlier text.

    Raises InputError (addresses, roles, no prompt) and ProbeError (nothing could be concluded). Ctrl-C and a server
    that dies keep the pairs measured before.
    """
    if not prompts:
        raise InputError("there are no prompts to compare the servers on: name a JSONL file with some, or a task")
    comparison = _Comparison(
        _arm("baseline", baseline_url, token, timeout_s), _arm("speculative", speculative_url, token, timeout_s),
        list(prompts), running, max_tokens, sampling or Sampling(), seed, candidate, progress,
        budget_s, requests_per_block or max(2, running))
    try:
        comparison.prepare()
        stopped = comparison.measure(stop)
        return comparison.evidence(stopped, prompts, source, budget_s, device, hardware)
    finally:
        comparison.close()


def _arm(name: str, url: str, token: str | None, timeout_s: float) -> _Arm:
    server = WatchedServer(name, url, token, timeout_s)
    # The model's name is known only once the server was asked: `prepare` fills it in.
    client = LoadClient(server.address.base_url, server.shown, "", token=token, timeout_s=timeout_s,
                        use_environment_proxy=not server.loopback)
    return _Arm(server, client)


@dataclass
class _Comparison:
    baseline: _Arm
    speculative: _Arm
    prompts: list[Prompt]
    running: int
    max_tokens: int
    sampling: Sampling
    seed: int
    candidate: Candidate
    progress: Progress
    budget_s: float
    per_block: int
    began: float = field(default_factory=time.monotonic)
    loop: EventLoop = field(default_factory=EventLoop)
    k: int = 0
    place: int = 0
    """Prompts taken so far; beyond the list's length they repeat."""
    pairs: list[PairedBlock] = field(default_factory=list)
    acceptance: list[RequestAcceptance] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    answered: list[tuple[Answer, Answer]] = field(default_factory=list)
    """(baseline's, speculative's) to the same prompt, kept pairs only."""
    counted: dict[str, float] = field(default_factory=dict)
    """The speculative server's own counters over kept blocks."""
    foreign: list[str] = field(default_factory=list)
    failure: str | None = None
    failed_arm: str | None = None

    # --- before ------------------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Check who speculates, wait until both are idle, warm both up."""
        arms = (self.baseline, self.speculative)
        if self.baseline.server.address.metrics_url == self.speculative.server.address.metrics_url:
            raise InputError(f"both servers are {self.baseline.server.shown}: give the address of a server without "
                             "speculation and of one with it")
        moments = []
        for arm in arms:
            arm.server.find_model()
            arm.client.model = arm.server.model
            moments.append(arm.server.moment())
        check_roles(moments[0], moments[1], (self.baseline.server.shown, self.speculative.server.shown))
        self.k = len(moments[1].per_position)
        for arm in arms:
            arm.server.wait_idle(_IDLE_PATIENCE_S)
            self._tell(f"warming up the {arm.server.arm} server")
            self._warm_up(arm)

    def _warm_up(self, arm: _Arm) -> None:
        # From the end of the list: measured prompts must not be known to a prefix cache or a suffix tree.
        some = self.prompts[-min(self.running, len(self.prompts)):]
        for _ in range(len(self.prompts) + 1):
            try:
                self._run(arm, some, _WARM_TOKENS, "warm-up")
                return
            except RequestFailed as failed:
                if failed.kind == "no_template" and not arm.client.text_only:
                    self.baseline.client.text_only = self.speculative.client.text_only = True
                elif failed.kind == "too_long" and len(self.prompts) > 1 and failed.place is not None:
                    self.prompts.remove(some[failed.place])
                    some = self.prompts[-min(self.running, len(self.prompts)):]
                else:
                    raise
        raise ProbeError(f"{arm.server.shown} takes none of the prompts: use shorter ones")

    # --- during ------------------------------------------------------------------------------------------------------
    def measure(self, stop: Callable[[Sequence[PairedBlock]], str | None]) -> str:
        """Pairs until something ends it; returns what did."""
        polluted = 0
        longest = 0.0
        try:
            while True:
                begin = time.monotonic()
                if self.pairs and longest > self._left_s:
                    return "budget"
                batch, salt = self._next_prompts()
                if batch is None:
                    return "prompts ran out"
                try:
                    kept = self._pair(batch, salt)
                except RequestFailed as failed:
                    if failed.kind == "too_long" and failed.place is not None and len(self.prompts) > 1:
                        self.prompts.remove(batch[failed.place])
                        self.progress.note("a prompt does not fit the servers' max_model_len and is left out")
                        continue
                    if failed.kind == "out_of_time" and self.pairs:
                        return "budget"
                    return self._failed(failed)
                except ProbeError as error:
                    return self._failed(error)
                polluted = 0 if kept else polluted + 1
                if polluted == _POLLUTED_IN_A_ROW:
                    return self._failed(ProbeError(f"other traffic in {polluted} pairs in a row ({self.foreign[-1]}): "
                                                   "run the comparison while both servers are idle"))
                longest = max(longest, time.monotonic() - begin)
                if kept:
                    last = self.pairs[-1]
                    self._tell(f"pair {len(self.pairs)}: {last.speedup:.2f}x with {last.running} running")
                    reason = stop(self.pairs)
                    if reason is not None:
                        return reason
        except KeyboardInterrupt:
            if not self.pairs:
                raise
            return "interrupted"

    def _failed(self, error: ProbeError) -> str:
        if not self.pairs:
            raise error
        self.failure = str(error)
        return "a server failed"

    def _next_prompts(self) -> tuple[list[Prompt] | None, str | None]:
        size = len(self.prompts)
        repeats = METHODS[self.candidate.method].drafter != "lookup"
        if self.place and self.place + self.per_block > size and not repeats:
            return None, None
        batch = [self.prompts[(self.place + i) % size] for i in range(self.per_block)]
        salt = f"round-{self.place // size}" if self.place + self.per_block > size else None
        self.place += self.per_block
        return batch, salt

    def _pair(self, batch: list[Prompt], salt: str | None) -> bool:
        order = _ORDERS[len(self.pairs) % 2]
        arms = [self.baseline, self.speculative]
        if order == "speculative_first":
            arms.reverse()
        runs: dict[str, _Run] = {}
        for arm, other in (arms, arms[::-1]):
            runs[arm.server.arm] = self._watched(arm, other, batch, salt)
        foreign = [run.foreign for run in runs.values() if run.foreign]
        if foreign:
            self.foreign += foreign
            self.progress.note(f"pair dropped: {foreign[0]}")
            return False
        self._keep(runs["baseline"], runs["speculative"], batch, order)
        return True

    def _watched(self, arm: _Arm, other: _Arm, batch: list[Prompt], salt: str | None) -> _Run:
        self.failed_arm = other.server.arm
        before_other = other.server.wait_idle(_IDLE_PATIENCE_S)
        self.failed_arm = arm.server.arm
        before = arm.server.wait_idle(_IDLE_PATIENCE_S)
        block = self._run(arm, batch, self.max_tokens, salt)
        moved = arm.server.after(before, len(batch))
        self.failed_arm = other.server.arm
        beside = other.server.moment().since(before_other)
        foreign = None
        if moved.finished > len(batch) or moved.busy:
            foreign = (f"the {arm.server.arm} server finished {moved.finished:.0f} requests, {len(batch)} of them ours"
                       + (f", and {moved.busy:.0f} more were running" if moved.busy else ""))
        elif beside.finished or beside.generated or beside.busy:
            foreign = f"the {other.server.arm} server served others while the {arm.server.arm} server was measured"
        self.failed_arm = None
        return _Run(block, moved, foreign)

    def _run(self, arm: _Arm, batch: Sequence[Prompt], max_tokens: int, salt: str | None) -> BlockRun:
        return self.loop.run(arm.client.run(batch, self.running, max_tokens, self.sampling, self.seed, salt,
                                            self._left_s))

    @property
    def _left_s(self) -> float:
        return max(self.began + self.budget_s - time.monotonic(), 0.0)

    def _tell(self, stage: str) -> None:
        self.progress.update(stage, time.monotonic() - self.began, self._left_s)

    def _keep(self, base: _Run, spec: _Run, batch: list[Prompt],
              order: Literal["baseline_first", "speculative_first"]) -> None:
        tasks = [p.task for p in batch]
        task = tasks[0] if len(set(tasks)) == 1 else Task.MIXED
        for arm, run, k in ((self.baseline, base, 0), (self.speculative, spec, self.k)):
            decode_s, decode_tokens = run.block.at_full_load(self.running)
            arm.blocks.append(Block(
                k=k, running=self.running, task=task, wall_s=run.block.wall_s, output_tokens=run.block.output_tokens,
                decode_s=decode_s, decode_tokens=decode_tokens))
            arm.ttft_ms += [a.ttft_ms for a in run.block.answers]
            arm.tpot_ms += [a.tpot_ms for a in run.block.answers if a.tpot_ms is not None]
        self.acceptance += acceptance_of(spec.block.answers, spec.moved, tasks, self.k)
        self.prompt_tokens += [a.prompt_tokens for a in base.block.answers]
        self.pairs.append(PairedBlock(
            running=self.running, baseline_s=base.block.kept_at_load_s(self.running),
            speculative_s=spec.block.kept_at_load_s(self.running),
            baseline_tokens=base.block.output_tokens, speculative_tokens=spec.block.output_tokens, order=order))
        self.answered += zip(base.block.answers, spec.block.answers, strict=True)
        for name, value in (("generation_tokens", spec.moved.generated), ("spec_decode_num_drafts", spec.moved.drafts)):
            self.counted[name] = self.counted.get(name, 0.0) + value

    # --- after -------------------------------------------------------------------------------------------------------
    def evidence(self, stopped: str, prompts: Sequence[Prompt], source: str, budget_s: float, device: str,
                 hardware: str) -> TrialEvidence:
        speedups = [pair.speedup for pair in self.pairs]
        spread = statistics.stdev(speedups) / statistics.fmean(speedups) if len(speedups) > 1 else None
        comparison = PairedComparison(
            candidate=self.candidate, k=self.k, running=self.running, mode="two_servers", pairs=tuple(self.pairs),
            stopped=stopped, within_run_spread=spread,
            ttft_ms={a.server.arm: statistics.fmean(a.ttft_ms) for a in (self.baseline, self.speculative)},
            tpot_ms={a.server.arm: statistics.fmean(a.tpot_ms) for a in (self.baseline, self.speculative) if a.tpot_ms})
        return TrialEvidence(
            engine_version=self._version(), device=device, hardware=hardware, target=self.baseline.server.model,
            temperature=self.sampling.temperature, max_tokens=self.max_tokens,
            prompts=prompts_summary(prompts, source, statistics.fmean(self.prompt_tokens)),
            arms=(self._arm_evidence(self.baseline, NO_SPECULATION, ()),
                  self._arm_evidence(self.speculative, self.candidate, tuple(self.acceptance))),
            comparison=comparison, implausible=tuple(self._implausible()), budget_s=budget_s, stopped=stopped)

    def _implausible(self) -> list[Implausibility]:
        arm = self.candidate.label
        drafted, accepted = position_totals(self.acceptance)
        found = later_positions(arm, drafted, accepted) + rates(arm, drafted, accepted)
        tokens = sum(block.output_tokens for block in self.speculative.blocks)
        found += plausibility.counters(arm, self.counted, drafted, tokens, METHODS[self.candidate.method].always_drafts)
        if self.sampling.temperature == 0:
            # The baseline is not run against itself here: its own noise is the least that the test assumes.
            found += plausibility.greedy_output(arm, text_divergence(self.answered), text_divergence(()))
        if self.foreign:
            found.append(Implausibility(code="other_traffic", arm=arm, message=(
                f"{len(self.foreign)} blocks saw other traffic and their pairs were dropped: {self.foreign[0]}")))
        return found

    def _arm_evidence(self, arm: _Arm, candidate: Candidate, requests: tuple[RequestAcceptance, ...]) -> ArmEvidence:
        died = self.failure is not None and self.failed_arm == arm.server.arm
        try:
            room = None if self.failure else arm.server.kv_cache_tokens()
        except ProbeError:
            room = None
        return ArmEvidence(candidate=candidate, status=ArmStatus.CRASHED if died else ArmStatus.DONE,
                           error=self.failure if died else None, kv_cache_tokens=room, requests=requests,
                           blocks=tuple(arm.blocks))

    def _version(self) -> str | None:
        try:
            return self.speculative.server.version() or self.baseline.server.version()
        except ProbeError:
            return None

    def close(self) -> None:
        for arm in (self.baseline, self.speculative):
            arm.server.close()
            self.loop.run(arm.client.close())
        self.loop.close()


def side_by_side(
    deployment: Deployment, base: Path, candidate: Candidate, k: int, prompts: Sequence[Prompt], running: int,
    stop: Callable[[Sequence[PairedBlock]], str | None], progress: Progress, *, gpu: GpuDevice | None,
    weights_gib: tuple[float, float] | None = None, source: str = "built-in", hardware: str = "unknown",
    max_tokens: int | None = None, budget_s: float | None = None, requests_per_block: int | None = None,
) -> TrialEvidence:
    """Start the deployment without and with `candidate` at `k` on loopback, compare them, end both.

    `gpu` is the device both share as NVML answers, None on the CPU engine; `weights_gib` of (target, draft) where they
    are not folders here. `base` is what relative model folders are relative to. `budget_s` (the deployment's by
    default) counts the starts. Raises InputError where both don't fit, and what `compare_servers` and `started_pair`
    raise; no process, port or file is left in any case.
    """
    budget = deployment.trial.budget_s if budget_s is None else budget_s
    began = time.monotonic()
    shares = shares_of(deployment, base, candidate, gpu, weights_gib)
    device = gpu.name if gpu is not None else "cpu"
    with started_pair(deployment, base, candidate, k, shares, progress, budget) as pair:
        left = budget - (time.monotonic() - began)
        if left < _LEAST_S:
            raise ProbeError(f"starting both took {time.monotonic() - began:.0f} s of the budget's {budget:.0f} "
                             "s: raise --budget and run again")
        try:
            evidence = compare_servers(
                pair.baseline_url, pair.speculative_url, prompts, running, stop,
                max_tokens or deployment.trial.max_tokens, left, progress, pair.token, candidate=candidate,
                sampling=deployment.workload.sampling, seed=deployment.trial.seed, source=source, device=device,
                hardware=hardware, requests_per_block=requests_per_block)
        except RequestFailed as failed:
            raise _own_words(pair) or failed from None
        failures = [status_of(pair.baseline), status_of(pair.speculative)]
        starts = (pair.baseline_start_s, pair.speculative_start_s)
        lives = (pair.baseline.lived_s, pair.speculative.lived_s)
        arms = tuple(
            arm.model_copy(update={
                "start_s": start, "engine_s": life,
                **({"status": failure.status, "error": str(failure)} if failure is not None else {})})
            for arm, start, life, failure in zip(evidence.arms, starts, lives, failures, strict=True))
        return evidence.model_copy(update={"arms": arms, "engine_s": sum(lives), "target": deployment.target.id,
                                           "budget_s": budget})


def _own_words(pair: RunningPair) -> EngineFailure | None:
    """The last error of the server that died, which tells more than a broken connection."""
    for name, process in (("baseline", pair.baseline), ("speculative", pair.speculative)):
        failure = status_of(process)
        if failure is not None:
            return EngineFailure(failure.status, f"the {name} server died during the comparison: {failure}")
    return None
