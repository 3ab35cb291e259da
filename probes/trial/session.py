"""The state of one trial while it runs: what was measured, what is done, the budget's clock, the checkpoint."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from probes.trial.checkpoint import Checkpoint
from probes.trial.engine_errors import EngineFailure
from probes.trial.engine_process import EngineProcess, Turn
from probes.trial.estimate import Estimator, Expected
from probes.trial.plan import OUTPUT_BLOCK, ArmPlan, TrialPlan
from probes.trial.plausibility import Divergence, divergence, unsteady
from probes.trial.progress import Progress, spoken
from probes.trial.samples import BlockPlan, prefill_samples, request_samples, step_samples, timed_block
from probes.trial.stepwise import PlainSteps
from profiles.evidence import ArmEvidence, ArmStatus, Implausibility, PairedComparison, TrialEvidence

Ids = list[int]

_OVERDUE = 0.1
"""Of the time that a start or block under way has taken: the least that it is still said to take."""
BUDGET_ENDED = "the budget ended before the interval was clear"
"""How a comparison ends that a later run may go on with."""
COMPARISON_SHARE = 1 / 3
"""Part of the budget that arms leave to the comparison at most."""
LEAST_COMPARISON = 1 / 2
"""Part of what the comparison wants that must be left for it to begin."""
FINISHED = (ArmStatus.DONE, ArmStatus.REFUSED, ArmStatus.CRASHED, ArmStatus.OUT_OF_MEMORY, ArmStatus.HUNG)
"""Nothing more is to be had of such an arm."""


class Session:
    """Everything the stages of a trial share. Token ids stay here, in memory."""

    def __init__(self, plan: TrialPlan, progress: Progress, checkpoint: Path | None, resume: bool) -> None:
        self.plan = plan
        self.progress = progress
        self.estimator = Estimator(plan)
        self.expected = Expected(plan)
        self.began = time.monotonic()
        self.arms: dict[str, ArmEvidence] = {}
        self.done: dict[str, list[str]] = {}
        self.implausible: list[Implausibility] = []
        self.comparison: PairedComparison | None = None
        self.repairs: tuple[str, ...] = ()
        self.info: dict[str, Any] = {}
        """The `ready` event of the latest engine start."""
        self.stopped = "complete"
        self.prompt_ids: list[Ids] | None = None
        self.outputs: dict[int, Ids] = {}
        """The baseline's outputs by prompt."""
        self.noise: list[tuple[Ids, Ids]] = []
        """The baseline's outputs against its own at another load."""
        self.samples: list[Ids] = []
        """The baseline's sampled continuations of one prompt."""
        self._turned: set[str] = set()
        """Arms that had their turn in this run, finished or not."""
        self.resident: EngineProcess | None = None
        """A plain engine that stays beside the candidates', and so can tell how fast the machine is just then."""
        self.spare: EngineProcess | None = None
        """A process that has imported its engine, for the next start."""
        self._up: str | None = None
        """The arm whose own engine is running."""
        self._step: tuple[float, float] | None = None
        """When the start or block under way began on the trial's clock, and how long it was expected to take."""
        self.comparing: int | None = None
        """The k of the comparison under way."""
        self._turn_ends_s = float("inf")
        """On the trial's clock: when the arm under way should leave the rest to the others."""
        self._earlier: TrialEvidence | None = None
        self._closed = False
        """No more checkpoints: what comes now is not to be resumed from."""
        self.checkpoint = Checkpoint(checkpoint, plan.digest, progress.note) if checkpoint is not None else None
        if resume and self.checkpoint is not None:
            self._resume(self.checkpoint)

    def _resume(self, checkpoint: Checkpoint) -> None:
        document = checkpoint.load()
        if document is None:
            self.progress.note(f"nothing to resume at {checkpoint.path}: starting from the beginning")
            return
        trial = document.trial
        keys = [self.plan.baseline.key, *(arm.key for arm in self.plan.arms)]
        self.done = {key: list(blocks) for key, blocks in document.done.items()}
        by_label = {key.partition(" ")[2]: key for key in keys}
        for arm in trial.arms:
            key = by_label.get(arm.candidate.label)
            if key is not None:
                self.arms[key] = arm
        self.comparison, self.repairs, self._earlier = trial.comparison, trial.repairs, trial
        self.implausible = list(trial.implausible)
        blocks = sum(len(b) for b in self.done.values())
        self.progress.note(f"resuming: {blocks} blocks of {len(self.arms)} arms are already measured")

    @property
    def resumed_pairs(self) -> PairedComparison | None:
        """The comparison that this run goes on with: of an earlier run, which had tried every arm that is tried now.
        Another one would throw its pairs away."""
        earlier = self._earlier
        if earlier is None or earlier.comparison is None or not earlier.comparison.pairs or not self.comparison_open:
            return None
        before = {arm.candidate.label for arm in earlier.arms if arm.requests}
        new = any(arm.requests and arm.candidate.label not in before for arm in self.arms.values())
        return None if new else earlier.comparison

    # --- clock ---------------------------------------------------------------------------------------------------
    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.began

    @property
    def left_s(self) -> float:
        return float("inf") if self.plan.budget_s is None else self.plan.budget_s - self.spent_s

    @property
    def comparison_open(self) -> bool:
        """Whether the paired comparison is still to come, or to go on where a budget or Ctrl-C ended it."""
        if self.comparison is not None:
            return self.comparison.stopped in ("", "interrupted", BUDGET_ENDED)
        # Without one measured candidate there is nothing to compare.
        return any(self.done.get(arm.key) or self.waits(arm) for arm in self.plan.arms)

    def reserve_s(self) -> float:
        """What the paired comparison will want, at most its share of the budget: arms must leave it from the start, or
        a slow machine would spend it on them. Nothing where it would keep an arm from being tried at all: the best one
        may be among those."""
        if not self.comparison_open:
            return 0.0
        if self.resumed_pairs is not None:
            # More pairs are what the trial was resumed for: cells still owed get what these leave.
            begun = self.resident is not None or self.waits(self.plan.baseline)
            return self.estimator.comparison_s(self.resumed_pairs.k, starts=1 if begun else 2)
        wanted = self.estimator.comparison_s(self.plan.arms[0].k_max)
        if self.plan.budget_s is None:
            return wanted
        reserve = min(wanted, COMPARISON_SHARE * self.plan.budget_s)
        untried = sum(self.estimator.arm_s(a, self.owed(a)[:1]) for a in self.plan.arms
                      if self.waits(a) and not self.done.get(a.key))
        kept = self.left_s - untried >= (reserve if untried else LEAST_COMPARISON * wanted)
        return reserve if kept else 0.0

    def waits(self, arm: ArmPlan) -> bool:
        """Whether the arm still has its turn before it in this run, or is in it."""
        return arm.key not in self._turned and self.status(arm) not in FINISHED and bool(self.owed(arm))

    def needs_s(self, arm: ArmPlan) -> float:
        """What the arm would take to its end; an engine that runs already is not started again."""
        return self.estimator.arm_s(arm, self.owed(arm)) - (self.estimator.start_s() if self._up == arm.key else 0.0)

    def take_turn(self, arm: ArmPlan) -> None:
        """Give the arm what it needs, or where the budget does not hold all that wait its part of what is left to them:
        so that the last one is tried before the first one is measured at leisure."""
        waiting = {a.key: self.needs_s(a) for a in (self.plan.baseline, *self.plan.arms) if self.waits(a)}
        left, needed = self.left_s - self.reserve_s(), sum(waiting.values())
        part = 1.0 if needed <= left else waiting.get(arm.key, 0.0) / needed
        self._turn_ends_s = self.spent_s + max(0.0, left) * part

    def end_turn(self, arm: ArmPlan) -> None:
        self._turned.add(arm.key)
        self._turn_ends_s = float("inf")

    def turn_left_s(self, arm: ArmPlan) -> float:
        """Seconds until the arm under way should stop measuring: at the end of its part, or before where starts and
        blocks prove slower than thought and the others' first blocks would no longer fit."""
        firsts = sum(self.estimator.arm_s(a, self.owed(a)[:1]) for a in self.plan.arms
                     if a.key != arm.key and self.waits(a) and not self.done.get(a.key))
        return min(self._turn_ends_s - self.spent_s, self.left_s - self.reserve_s() - firsts)

    def has_room(self) -> bool:
        """Whether one more arm may be started. An arm that nothing is known of may take what the comparison would
        have."""
        return self.left_s - self.reserve_s() >= self.estimator.start_s()

    def tell(self, stage: str) -> None:
        """Tell where the trial is. Arms take no more than the comparison leaves, so that one which ends early moves the
        time left by what it saves and no further."""
        told, k_max = self.expected, self.plan.arms[0].k_max if self.plan.arms else 0
        reserve = self.reserve_s()
        arms = sum(told.arm_s(arm, self.owed(arm)) - (told.start_s() if self._up == arm.key else 0.0)
                   for arm in (self.plan.baseline, *self.plan.arms) if self.waits(arm))
        arms = min(arms, max(0.0, self.left_s - reserve))
        if reserve:
            # Where arms end early the comparison may take more than what was kept for it.
            reserve = told.comparison_s(k_max)
        begun_s, step_s = self._step or (self.spent_s, 0.0)
        # A start or block that takes longer than thought still takes a while: nobody knows how long, but not nothing.
        running_s = self.spent_s - begun_s
        elapsed_s = min(running_s, step_s - _OVERDUE * running_s)
        if self.comparing is not None:
            # Under way it ends when its interval is clear: one more pair is the least it takes.
            pairs = max(1, told.pairs - len(self.comparison.pairs if self.comparison is not None else ()))
            reserve = told.pairs_s(pairs, self.comparing)
        self.progress.update(stage, self.spent_s, max(0.0, min(arms + reserve - elapsed_s, self.left_s)))

    @contextmanager
    def step(self, expected_s: float) -> Iterator[None]:
        """A start or block under way: what has passed of it is no longer to come."""
        self._step = (self.spent_s, expected_s)
        try:
            yield
        finally:
            self._step = None

    @property
    def sampling(self) -> dict[str, Any]:
        """As run_block takes it."""
        chosen = self.plan.sampling
        return {"temperature": chosen.temperature, "top_p": chosen.top_p, "top_k": chosen.top_k}

    # --- pace ----------------------------------------------------------------------------------------------------
    @contextmanager
    def beside(self, process: EngineProcess, prompts: Sequence[Ids]) -> Iterator[Turn | None]:
        """Plain steps of these prompts on the resident engine, between those of a block of `process`: what the block
        asks at each turn. None where no other engine is resident; the trial goes on without once it fails."""
        if self.resident in (None, process) or not self.resident.info["hooks"]["steps"]:
            yield None
            return
        plain = PlainSteps(self.resident, prompts, self.sampling)

        def turn(event: dict[str, Any]) -> float | None:
            try:
                return plain.turn(event) if self.resident is not None else None
            except EngineFailure:
                self.resident = None
                return None

        ended = False
        try:
            yield turn
            ended = True
        except EngineFailure:
            ended = True
            raise
        finally:
            # Not when the user interrupts: the engine may be in the middle of a step, and is ended anyway.
            if ended and self.resident is not None:
                with suppress(EngineFailure):
                    plain.end()

    # --- arms ----------------------------------------------------------------------------------------------------
    def status(self, arm: ArmPlan) -> ArmStatus | None:
        evidence = self.arms.get(arm.key)
        return evidence.status if evidence is not None else None

    def owed(self, arm: ArmPlan) -> list[BlockPlan]:
        """The arm's blocks that are still to run."""
        done = self.done.get(arm.key, ())
        return [block for block in arm.blocks if block.key not in done]

    def change(self, arm: ArmPlan, **values: Any) -> ArmEvidence:
        """Set fields of the arm's evidence."""
        old = self.arms.get(arm.key) or ArmEvidence(candidate=arm.candidate, status=ArmStatus.INTERRUPTED)
        self.arms[arm.key] = old.model_copy(update=values)
        return self.arms[arm.key]

    def started(self, arm: ArmPlan, process: EngineProcess, first: bool = True) -> None:
        """Note what a fresh engine said of itself; `first`: it is the arm's own start, not the comparison's."""
        self.info = process.info
        self.repairs = tuple(sorted({*self.repairs, *process.info.get("repairs", ())}))
        if first:
            self._up = arm.key
            self.change(arm, start_s=process.start_s, kv_cache_tokens=process.info.get("kv_cache_tokens"),
                        model_memory_bytes=process.info.get("model_memory_bytes"), runner=process.info.get("runner"))

    def next_start(self, arm: ArmPlan) -> ArmPlan | None:
        """Whose engine is likely to be started after the arm's own: the next that waits, or the comparison's."""
        for other in self.plan.arms:
            if other.key != arm.key and self.waits(other):
                return other
        return arm if arm.k_max and self.comparison is None else None

    def take_spare(self, arm: ArmPlan) -> EngineProcess | None:
        """The process that waits for an engine to start, where there is one of the arm's environment."""
        spare, self.spare = self.spare, None
        if spare is None or (spare.alive and spare.env == self.plan.env_of(arm)):
            return spare
        spare.close()
        return None

    def close(self, arm: ArmPlan, process: EngineProcess) -> None:
        """End the engine and count its seconds, once."""
        process.close()
        if self._up == arm.key:
            self._up = None
        if not process.accounted:
            process.accounted = True
            self.change(arm, engine_s=self.change(arm).engine_s + process.lived_s)

    def tokens(self, process: EngineProcess) -> list[Ids]:
        """Every prompt's token ids, by the target's own tokenizer; asked of the first engine that runs."""
        if self.prompt_ids is None:
            answer = process.call("tokenize", prompts=[
                {"text": p.text} if p.text is not None else {"messages": p.as_messages()} for p in self.plan.prompts])
            for note in answer["notes"]:
                self.progress.note(note)
            top = max((arm.k_max for arm in self.plan.arms), default=0)
            room = int(process.info["max_model_len"]) - self.plan.max_tokens - top - 1
            if any(len(ids) > room for ids in answer["ids"]):
                self.progress.note(f"prompts longer than {room} tokens are shortened from the front to fit the engine")
            self.prompt_ids = [ids[-room:] for ids in answer["ids"]]
        return self.prompt_ids

    def record(self, arm: ArmPlan, block: BlockPlan, data: dict[str, Any], start: int = 0) -> None:
        """Add a block's samples to the arm; a block that was cut short stays owed, its samples stay."""
        evidence = self.change(arm)
        places = [place % len(self.plan.prompts) for place in block.places]
        tasks = [self.plan.prompts[place].task for place in places]
        task = self.plan.task_of(places)
        # A prompt repeated to fill a load is one observation of acceptance, not several.
        fresh = [r for r in data["requests"] if places.index(places[r["place"]]) == r["place"]]
        requests = request_samples(fresh, tasks, block.k) if arm.k_max and block.k else []
        together = min(block.running, len(places))
        steps = step_samples(data["steps"], block.k, task, together)
        self.say(unsteady(arm.candidate.label, steps))
        self.change(
            arm, steps=(*evidence.steps, *steps),
            prefill=(*evidence.prefill, *prefill_samples(data["steps"], together)),
            requests=(*evidence.requests, *requests),
            blocks=(*evidence.blocks, timed_block(data, block.k, block.running, task, start)))
        if data["complete"]:
            self.done.setdefault(arm.key, []).append(block.key)
        else:
            # The next run measures this block again: its half stays out of the file, or it would count twice.
            self._closed = True

    def remember(self, block: BlockPlan, data: dict[str, Any]) -> None:
        """Keep the baseline's outputs, and how they part from its own at another load."""
        for request in data["requests"]:
            place = block.places[request["place"]] % len(self.plan.prompts)
            if block.key == OUTPUT_BLOCK:
                self.outputs[place] = request["ids"]
            elif block.context_tokens is None and place in self.outputs:
                self.noise.append((self.outputs[place], request["ids"]))

    def parted(self, block: BlockPlan, data: dict[str, Any]) -> Divergence:
        """The block's greedy outputs against the baseline's of the same prompts, as far as both exist."""
        pairs = [(self.outputs[place], r["ids"]) for r in data["requests"]
                 if (place := block.places[r["place"]] % len(self.plan.prompts)) in self.outputs]
        return divergence(pairs)

    def say(self, found: Sequence[Implausibility]) -> None:
        """Add findings, each once, and tell the user."""
        names = {arm.candidate.label: spoken(arm.candidate) for arm in (self.plan.baseline, *self.plan.arms)}
        for finding in found:
            if not any(f.code == finding.code and f.arm == finding.arm for f in self.implausible):
                self.implausible.append(finding)
                self.progress.note(f"{names.get(finding.arm, finding.arm)}: {finding.message}")

    # --- evidence ------------------------------------------------------------------------------------------------
    def evidence(self) -> TrialEvidence:
        """All that was measured so far."""
        ids, earlier = self.prompt_ids, self._earlier
        mean = sum(map(len, ids)) / len(ids) if ids else (earlier.prompts.mean_prompt_tokens if earlier else None)
        device = self.info.get("device") or (earlier.device if earlier else ("cpu" if self.plan.on_cpu else "unknown"))
        order = [self.plan.baseline, *self.plan.arms]
        return TrialEvidence(
            engine_version=self.info.get("vllm_version") or (earlier.engine_version if earlier else None),
            device=device, hardware=describe_host(device, self.info.get("threads")), target=self.plan.target,
            target_config_hash=self.plan.fingerprints.get(self.plan.target), temperature=self.plan.sampling.temperature,
            max_tokens=self.plan.max_tokens, prompts=self.plan.summary(mean),
            arms=tuple(self.arms[arm.key] for arm in order if arm.key in self.arms), comparison=self.comparison,
            implausible=tuple(self.implausible), repairs=self.repairs,
            engine_s=self.spent_s + (earlier.engine_s if earlier else 0.0),
            budget_s=self.plan.budget_s, stopped=self.stopped)

    def finish(self) -> None:
        """The last word on disk: nothing where all is done, else what a later run needs to go on."""
        if self.checkpoint is not None and self.stopped == "complete":
            self.checkpoint.remove()
        else:
            self.save()

    def save(self) -> None:
        if self.checkpoint is not None and not self._closed:
            self.checkpoint.save(self.done, self.evidence())


def describe_host(device: str, threads: int | None) -> str:
    """Processor or GPU, threads and memory of this machine in words."""
    memory = f"{psutil.virtual_memory().total / 2**30:.0f} GiB"
    if device != "cpu":
        return f"{device}, host with {psutil.cpu_count()} processors and {memory}"
    return f"{_processor()}, {threads or psutil.cpu_count()} threads, {memory}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
