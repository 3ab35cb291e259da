"""How long the rest of a trial will take: a first guess from the weights, then corrected by what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from probes.trial.plan import OUTPUT_BLOCK, ArmPlan, TrialPlan
from probes.trial.samples import SAMPLE_COUNT, SAMPLE_TOKENS, BlockPlan
from probes.trial.stepwise import SHARE
from profiles.evidence import ArmEvidence

_CPU_BYTES_S = 10e9
_GPU_BYTES_S = 1.2e12
"""Weights read per second by a decode step, for the first guess alone; corrected after the first block."""

_CPU_SLOWER = 1.5
"""Times that, in steps of a processor as people have them: on two cores 0.9 GB took 209 ms and 1.8 GB took 164 ms."""

PAIRS_EXPECTED = 3
ROUND_PAIRS = 2
"""Pairs of blocks an engine start serves when engines are restarted in turn."""
LEAST_ROUNDS = 2
_AGAIN = 3
"""Cells that a comparison of two resident engines times again at its end, where the budget has room: its k, and those
beside it."""


class Estimator:
    """Seconds of starts and blocks. `observe` scales what is to come by how wrong the past was."""

    def __init__(self, plan: TrialPlan) -> None:
        self.plan = plan
        weights = plan.weight_bytes or (1e9 if plan.on_cpu else 16e9)
        self._step_s = max(0.004, weights / (_CPU_BYTES_S if plan.on_cpu else _GPU_BYTES_S))
        self._start_s = (8.0 + weights / 2e8) if plan.on_cpu else (40.0 + weights / 1e9)
        self._ratio = {"start": 1.0, "block": 1.0}
        self._seen = {"start": 0, "block": 0}

    def start_s(self) -> float:
        return self._start_s * self._ratio["start"]

    def block_s(self, block: BlockPlan) -> float:
        return self._raw_block_s(block) * self._ratio["block"]

    def arm_s(self, arm: ArmPlan, blocks: Sequence[BlockPlan] | None = None) -> float:
        return self.start_s() + sum(self.block_s(b) for b in (arm.blocks if blocks is None else blocks))

    def pair_s(self, k: int) -> float:
        """One baseline block and one speculating block at the user's load."""
        plan = self.plan
        return sum(self.block_s(BlockPlan("", k_of, plan.user_load, plan.pair_places(0), plan.max_tokens))
                   for k_of in (0, k))

    def comparison_s(self, k: int, starts: int = 1) -> float:
        return starts * self.start_s() + PAIRS_EXPECTED * self.pair_s(k)

    def observe(self, kind: str, estimated_s: float, actual_s: float) -> None:
        """`kind` is start or block. Ratios are averaged on a log scale, the newest counting at least a fifth."""
        if estimated_s <= 0 or actual_s <= 0:
            return
        self._seen[kind] += 1
        weight = max(0.2, 1 / self._seen[kind])
        error = math.log(actual_s / estimated_s)
        self._ratio[kind] *= math.exp(max(-3.0, min(3.0, weight * error)))

    def _raw_block_s(self, block: BlockPlan) -> float:
        waves = math.ceil(len(block.places) / block.running)
        gained = 1 + min(block.k, 4) * 0.4
        steps = waves * block.max_tokens / gained
        step = self._step_s * (1 + 0.04 * block.running * (block.k + 1)) * (1 + 0.1 * block.k)
        prompt_tokens = (block.context_tokens or 80) * len(block.places)
        return steps * step + self._step_s * (waves + prompt_tokens * 0.03)


class Expected(Estimator):
    """What the user is told of the time left: with the plain steps that a resident engine makes between those of a
    candidate's block, the sampled outputs, and every engine start of the comparison.

    Sharing the budget goes by `Estimator`: what is not sure to come must not keep an arm from its first block.
    """

    def __init__(self, plan: TrialPlan) -> None:
        super().__init__(plan)
        if plan.on_cpu:
            self._step_s *= _CPU_SLOWER
        self.both = plan.on_cpu and bool(plan.arms)
        """Whether two engines stay resident in the comparison; a guess until the trial has seen whether there is
        room."""
        self.beside = self.both
        """Whether a plain engine stays beside those of the arms too."""

    def observe_arm(self, arm: ArmPlan, evidence: ArmEvidence, done: Sequence[str]) -> None:
        """What an earlier run measured of the arm, in the order of `done`."""
        self.observe("start", self.start_s(), evidence.start_s or 0.0)
        planned = {block.key: block for block in arm.blocks}
        for key, timed in zip(done, evidence.blocks, strict=False):
            block = planned.get(key)
            if block is not None and (block.k, block.running) == (timed.k, timed.running):
                self.observe("block", self.block_s(block), timed.wall_s)

    def beside_s(self, block: BlockPlan, k_max: int) -> float:
        """A block of an arm, with plain steps in between where it drafts."""
        return self.block_s(block) * (1.0 + SHARE if self.beside and k_max else 1.0)

    def arm_s(self, arm: ArmPlan, blocks: Sequence[BlockPlan] | None = None) -> float:
        blocks = arm.blocks if blocks is None else blocks
        found = self.start_s() + sum(self.beside_s(block, arm.k_max) for block in blocks)
        if self.plan.sampling.temperature > 0 and any(block.key == OUTPUT_BLOCK for block in blocks):
            seats = int(self.plan.base_args["max_num_seqs"])
            found += self.block_s(BlockPlan("", arm.k_max, min(32, seats), tuple(range(SAMPLE_COUNT)), SAMPLE_TOKENS))
        return found

    @property
    def pairs(self) -> int:
        """Pairs that a comparison takes at least, in most cases."""
        return PAIRS_EXPECTED if self.both else ROUND_PAIRS * LEAST_ROUNDS

    def comparison_s(self, k: int, starts: int = 1, pairs: int = 0) -> float:
        """What is left of a comparison that has so many pairs already, one more being the least; where both engines
        stay its k and those beside it once more, after so many starts, else two starts for each round of pairs."""
        owed = max(1, self.pairs - pairs)
        if self.both:
            load = self.plan.user_load
            cell = BlockPlan("", k, load, tuple(range(load)), self.plan.max_tokens)
            return starts * self.start_s() + owed * self.pair_s(k) + _AGAIN * self.beside_s(cell, k)
        return math.ceil(owed / ROUND_PAIRS) * (2 * self.start_s() + ROUND_PAIRS * self.pair_s(k))
