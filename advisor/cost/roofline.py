"""Step time from facts: what a pass reads and computes over the hardware's rates, plus the host's time.

Sums, not maxima, of weight reading and computing: the published fit on an H100 grows with every token from the first
on (constants.json says where each constant was read).
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.cost.constants import constant, constants
from advisor.cost.fitted import lost_graphs_ms
from advisor.cost.machine import Machine, engine_limits, machine_for
from advisor.cost.shape_bytes import bytes_per_param, flop_per_token, kv_bytes_read, weight_bytes_read
from advisor.cost.step import Cost, Step, runner_for
from advisor.situation import Situation
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate
from profiles.methods import method
from profiles.schema import Source


@dataclass(frozen=True)
class RooflineCost:
    """StepCost computed from the GPU's and the models' facts."""

    situation: Situation
    machine: Machine

    @classmethod
    def of(cls, situation: Situation) -> RooflineCost:
        """The model for a situation; never fails: unknown hardware is assumed and says so in `description`."""
        return cls(situation, machine_for(situation))

    @property
    def description(self) -> str:
        return (
            f"modelled from facts: {self.machine.name} at {self.machine.bandwidth_gbs:g} GB/s, host times as published "
            "for vLLM 0.10.1 on H100 SXM (advisor/cost/constants.json)"
        )

    # --- passes -------------------------------------------------------------------------------------------------
    def _pass_ms(
        self, shape: ModelShape, running: float, tokens: float, context_tokens: float, tensor_parallel: int
    ) -> float:
        """GPU time of one pass of a model, host time apart."""
        machine = self.machine
        weights = weight_bytes_read(shape, tokens, constant("moe_routing_temper")) / tensor_parallel
        kv = running * kv_bytes_read(
            shape, context_tokens, self.situation.deployment.engine.kv_cache_dtype, tensor_parallel
        )
        compute = (
            tokens
            * flop_per_token(shape)
            / tensor_parallel
            / (machine.compute_tflops(shape) * 1e12 * constant("compute_efficiency"))
        )
        read = weights / (machine.bandwidth_gbs * 1e9 * constant("bandwidth_efficiency"))
        read += kv / (machine.bandwidth_gbs * 1e9 * constant("kv_bandwidth_efficiency"))
        communication = 0.0
        if tensor_parallel > 1:
            message = tokens * shape.hidden_size * 2.0 * 2.0 * (tensor_parallel - 1) / tensor_parallel
            once = machine.allreduce_ms + message / (machine.link_gbs * 1e9 * constant("interconnect_efficiency")) * 1e3
            communication = 2.0 * shape.num_layers * once
        return (read + compute) * 1e3 + communication

    def _eager(self, tokens: float) -> bool:
        if self.situation.runner == "cpu":
            return False
        engine = self.situation.deployment.engine
        return engine.enforce_eager or tokens > self.machine.graph_tokens

    def target(self, running: float, tokens: float, context_tokens: float) -> Cost:
        shape = self.situation.target
        ms = self._pass_ms(
            shape, running, tokens, context_tokens, self.situation.deployment.engine.tensor_parallel_size
        )
        if self._eager(tokens):
            ms = max(ms, shape.num_layers * constant("layer_eager_ms"))
        return Cost(ms + self.machine.step_host_ms, self.machine.step_log_sd, self.machine.source)

    def _draft_shape(self, candidate: Candidate) -> ModelShape | None:
        return self.situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None

    def _head_params(self, shape: ModelShape | None) -> float:
        """Parameters one pass of a head or native layer reads: its own, or one target layer and the vocabulary."""
        target = self.situation.target
        if shape is not None:
            # The catalog counts the output head, even a shared one, as active.
            return float(max(1, shape.active_params))
        if target.mtp_params:
            return float(target.mtp_params) / max(1, target.mtp_layers) + float(target.vocab_size) * target.hidden_size
        layer = (target.active_params - target.vocab_size * target.hidden_size) / max(1, target.num_layers)
        return max(0.0, layer) * 1.15 + float(target.vocab_size) * target.hidden_size

    def draft(self, candidate: Candidate, running: float, k: int, context_tokens: float) -> Cost:
        described = method(candidate.method)
        error = constants()["relative_error"]
        if k <= 0 or described.drafter == "none":
            return Cost(0.0, 0.0, self.machine.source)
        if described.drafter == "lookup":
            verify = self.target(running, running * (1 + k), context_tokens).ms
            return Cost(verify * constant("lookup_share_of_verify"), float(error["overhead"]), self.machine.source)
        runner = runner_for(candidate, self.situation)
        graphs = runner == "cpu" or runner in described.draft_graphs
        if described.drafter == "model" and runner == "v1":
            graphs = not self.situation.release.has("draft_model_graph_fault")
        if self.situation.deployment.engine.enforce_eager and runner != "cpu":
            graphs = False
        shape = self._draft_shape(candidate)
        tensor_parallel = candidate.tensor_parallel_size or self.situation.deployment.engine.tensor_parallel_size
        if described.drafter == "model" and shape is not None:
            gpu_ms = self._pass_ms(shape, running, running, context_tokens, tensor_parallel)
            layers, host = shape.num_layers, shape.num_layers * constant("draft_layer_host_ms")
        else:
            gpu_ms = self._head_pass_ms(
                shape, running, running * (k if described.passes == "single" else 1), context_tokens, tensor_parallel
            )
            layers, host = (shape.num_layers if shape is not None else 1), constant("head_pass_host_ms")
        if runner == "cpu":
            host = self.machine.step_host_ms
        elif not graphs:
            gpu_ms = max(gpu_ms, layers * constant("draft_layer_eager_ms"))
        passes = k if described.passes == "per_token" else 1
        spread = float(error["draft" if graphs else "draft_eager"])
        return Cost(passes * (gpu_ms + host), spread, self.machine.source)

    def _head_pass_ms(
        self, shape: ModelShape | None, running: float, tokens: float, context_tokens: float, tensor_parallel: int
    ) -> float:
        machine, target = self.machine, self.situation.target
        params = self._head_params(shape)
        width = bytes_per_param(shape) if shape is not None else 2.0
        read = params * width / tensor_parallel / (machine.bandwidth_gbs * 1e9 * constant("bandwidth_efficiency"))
        kv = running * kv_bytes_read(shape or target, context_tokens, tensor_parallel=tensor_parallel)
        if shape is None:
            kv /= max(1, target.num_layers)
        read += kv / (machine.bandwidth_gbs * 1e9)
        compute = (
            tokens
            * 2.0
            * params
            / tensor_parallel
            / (machine.compute_tflops(shape or target) * 1e12 * constant("compute_efficiency"))
        )
        return (read + compute) * 1e3

    # --- whole steps --------------------------------------------------------------------------------------------
    def overhead(self, candidate: Candidate, running: float, k: int) -> Cost:
        described = method(candidate.method)
        error = float(constants()["relative_error"]["overhead"])
        if described.drafter == "none":
            return Cost(0.0, 0.0, self.machine.source)
        if k == 0:
            base = self.target(running, running, 0.0).ms
            return Cost(base * constant("idle_share"), error, self.machine.source)
        if self.machine.graph_tokens == 0:
            # The CPU engine: the host's share was only seen as the price of an idle speculation.
            return Cost(self.target(running, running, 0.0).ms * constant("idle_share"), error, self.machine.source)
        ms = constant("round_host_ms") + running * constant("round_host_per_request_ms")
        if not described.async_scheduling:
            ms += constant("sync_scheduling_ms")
        return Cost(ms, error, self.machine.source)

    def prefill(self, tokens: float) -> Cost:
        error = float(constants()["relative_error"]["prefill"])
        budget = engine_limits(self.situation).max_num_batched_tokens
        full, rest = divmod(max(1.0, tokens), budget)
        ms = full * self.target(1, budget, 0.0).ms + (self.target(1, rest, 0.0).ms if rest >= 1 else 0.0)
        # Attention over the prompt itself: 4 x hidden FLOP a pair of tokens and layer, half of them masked.
        shape = self.situation.target
        full_layers = sum(g.layers for g in shape.attention if g.kind in ("full", "mla") and g.window is None)
        tensor_parallel = self.situation.deployment.engine.tensor_parallel_size
        rate = self.machine.compute_tflops(shape) * 1e12 * constant("compute_efficiency") * tensor_parallel
        ms += 2.0 * shape.hidden_size * tokens * tokens * full_layers / rate * 1e3
        return Cost(ms, error, self.machine.source)

    def draft_prefill(self, candidate: Candidate, tokens: float) -> Cost:
        described = method(candidate.method)
        error = float(constants()["relative_error"]["prefill"])
        if not described.draft_has_kv:
            return Cost(0.0, 0.0, self.machine.source)
        shape = self._draft_shape(candidate)
        if described.drafter == "model" and shape is not None:
            return Cost(
                self._pass_ms(shape, 1, tokens, 0.0, 1) + shape.num_layers * constant("draft_layer_host_ms"),
                error,
                self.machine.source,
            )
        return Cost(
            self._head_pass_ms(shape, 1, tokens, 0.0, 1) + constant("head_pass_host_ms"), error, self.machine.source
        )

    def step(self, candidate: Candidate, running: float, k: int, drafted: float, context_tokens: float) -> Step:
        described = method(candidate.method)
        if described.drafter == "none":
            base = self.target(running, running, context_tokens)
            return Step(0.0, base.ms, 0.0, base.log_sd, 0.0, base.source)
        verify = self.target(running, running * (1.0 + drafted), context_tokens)
        # A step without any draft is a plain one: lookups of few requests often have none.
        drafting = 1.0 if described.always_drafts else min(1.0, running * drafted / max(1, k))
        lost = lost_graphs_ms(self.situation, described) * (drafting if drafted > 0 else 0.0)
        if lost > 0:
            verify = Cost(verify.ms + lost, verify.log_sd, verify.source)
        draft = self.draft(candidate, running, k, context_tokens)
        overhead = self.overhead(candidate, running, k)
        return compose(draft, verify, overhead, self.machine.ratio_log_sd, notes=self._notes(candidate))

    def _notes(self, candidate: Candidate) -> tuple[str, ...]:
        described = method(candidate.method)
        runner = runner_for(candidate, self.situation)
        notes: list[str] = []
        if runner != self.situation.runner:
            notes.append(f"priced on the {runner.upper()} runner")
        if (
            described.drafter in ("model", "head", "native")
            and runner in ("v1", "v2")
            and runner not in described.draft_graphs
        ):
            notes.append(f"the drafter runs without CUDA graphs on the {runner.upper()} runner")
        return tuple(notes)


def compose(
    draft: Cost,
    verify: Cost,
    overhead: Cost,
    ratio_log_sd: float,
    notes: tuple[str, ...] = (),
    source: Source | None = None,
) -> Step:
    """A step of its parts. The parts' errors are independent, so they add in squares, weighted by their share."""
    total = draft.ms + verify.ms + overhead.ms
    own = ((draft.ms * draft.log_sd) ** 2 + (overhead.ms * overhead.log_sd) ** 2) ** 0.5 / total
    return Step(
        draft.ms,
        verify.ms,
        overhead.ms,
        (verify.log_sd**2 + own**2) ** 0.5,
        (ratio_log_sd**2 + own**2) ** 0.5,
        source or verify.source,
        notes,
    )
