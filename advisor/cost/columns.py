"""A deployment as rows of the step-time model: the columns that `predict` prices, filled from shapes, not names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from advisor.cases.case import Case
from advisor.cases.facts import CardFacts, DraftFacts, TargetFacts, card_of, draft_of, target_of
from advisor.cases.model import Model, shipped_model
from advisor.cases.names import stored_bits
from advisor.cases.table import Table, table_of
from advisor.cost.constants import constants
from advisor.cost.gain import token_budget
from advisor.cost.machine import engine_limits
from advisor.cost.physics import target_ms
from advisor.cost.shape_bytes import kv_element_bytes
from advisor.cost.step import draft_has_graphs
from advisor.situation import Situation
from advisor.workload_load import traffic_of
from profiles.catalog.models import find_model
from profiles.deployment import NO_SPECULATION, Candidate
from profiles.errors import InputError
from profiles.methods import method
from profiles.workload import Task

_CPU_LINK_GBS = 25.0
_FREE_ON_CPU = (
    "layer_ms", "request_host_ms", "verify_layer_ms", "verify_token_ms", "round_async_ms", "round_request_ms",
    "sync_ms", "sync_request_ms", "draft_model_layer_ms", "head_layer_ms", "draft_token_ms", "piecewise_layer_ms",
    "ragged_layer_ms", "hybrid_layer_ms", "beyond_graph_layer_ms",
)  # fmt: skip
"""What a GPU's host takes by layer, request or token: fractions of a millisecond, lost in a CPU engine's step."""


@dataclass(frozen=True)
class Rows:
    """Rows of a deployment's questions, and the model that prices them."""

    situation: Situation
    _known: dict[tuple[str, Task | None], Table] = field(default_factory=dict)

    def table(
        self,
        candidate: Candidate,
        k: Any,
        running: Any,
        prompt_tokens: Any,
        output_tokens: Any,
        *,
        cached_share: float = 0.0,
        family: Task | None = None,
    ) -> Table:
        """One row for each entry of k, running, prompt_tokens and output_tokens (numbers or equally long arrays).

        cached_share: of the prompt's tokens, found in the prefix cache. family: kind of text; None where nobody said.
        """
        import numpy as np

        one = self._one(candidate, family)
        ks, runnings, prompts, outputs = np.broadcast_arrays(*(
            np.atleast_1d(np.asarray(value, dtype=float)) for value in (k, running, prompt_tokens, output_tokens)
        ))
        rows = len(ks)
        graph_tokens = {k: self._graph_tokens(k) for k in {int(each) for each in ks}}
        columns: dict[str, Any] = {name: np.repeat(column, rows) for name, column in one.of.items()}
        columns.update(k=ks, running=runnings, prompt=prompts, output=outputs, cached=np.full(rows, cached_share),
                       graph_tokens=np.array([graph_tokens[int(each)] for each in ks]))
        return Table(columns, one.cases * rows, one.labels * rows)

    @cached_property
    def model(self) -> Model:
        """The shipped model; on the CPU engine with its own fixed times, where the GPU's say nothing."""
        shipped = shipped_model()
        if self.situation.runner != "cpu":
            return shipped
        own = {**shipped.constants, **dict.fromkeys(_FREE_ON_CPU, 0.0), **constants()["cpu_engine"]["constants"]}
        plain = self.table(NO_SPECULATION, 0, 1, 1, 0).of
        one = float(target_ms(plain, own, 1.0, 1.0, 0.0, 1.0)[0])
        # The host's share of a speculating step was only seen there as the price of an idle speculation.
        own["round_vllm_ms"] = float(constants()["idle_share"]["value"]) * one
        return replace(shipped, constants=own)

    # --- one row ------------------------------------------------------------------------------------------------
    def _one(self, candidate: Candidate, family: Task | None) -> Table:
        key = (candidate.label, family)
        if key not in self._known:
            self._known[key] = self._built(candidate, family)
        return self._known[key]

    def _built(self, candidate: Candidate, family: Task | None) -> Table:
        import numpy as np

        engine = self.situation.deployment.engine
        table, _ = table_of([self._case(candidate, family)], [(self._card, self._target, self._draft(candidate))])
        on_cpu = self.situation.runner == "cpu"
        eager = engine.enforce_eager and not on_cpu
        budget = engine_limits(self.situation).max_num_batched_tokens if on_cpu else engine.max_num_batched_tokens
        columns: Mapping[str, Any] = {
            **table.of,
            "budget": np.array([float(budget or token_budget(table.of)[0])]),
            # How many requests fit is the memory plan's answer here, not that of weights and KV alone.
            "memory": np.array([np.inf]),
            "eager": np.array([float(eager)]),
            "draft_eager": np.array([float(not on_cpu and not draft_has_graphs(candidate, self.situation))]),
        }
        return replace(table, of=dict(columns))

    def _case(self, candidate: Candidate, family: Task | None) -> Case:
        """What a line of cases would say: names label what acceptance is known of, nulls are what nobody stated."""
        deployment, workload = self.situation.deployment, self.situation.deployment.workload
        engine = deployment.engine
        on_cpu = self.situation.runner == "cpu"
        stated = 1.0 if traffic_of(self.situation).lengths_stated else None
        return Case(
            id=None, gpu=None if self._card.assumed and not on_cpu else self._card.name, n_gpus=None,
            tensor_parallel=engine.tensor_parallel_size, target=deployment.target.id, target_params_b=None,
            active_params_b=None, draft=candidate.draft.id if candidate.draft else None,
            draft_params_b=None, method=candidate.method, engine="vllm", engine_version=self.situation.release.version,
            dtype=None, quantization=None, k=1, tree=False, load_kind="concurrency", load_value=1.0,
            temperature=workload.sampling.temperature if workload.temperature_stated else None, task=None,
            family=family, prompt_len=stated, output_len=stated, metric=None, acceptance_length=None,
            acceptance_log_sd=0.0, measured=(),
        )  # fmt: skip

    @cached_property
    def _card(self) -> CardFacts:
        if self.situation.runner != "cpu":
            return card_of(self.situation.gpu)
        known = constants()["cpu_engine"]
        rate = float(known["tflops"])
        return CardFacts("cpu", float(known["bandwidth_gbs"]), math.inf, rate, rate, rate, _CPU_LINK_GBS, nvlink=False,
                         consumer=False, amd=False, assumed=True)

    @cached_property
    def _target(self) -> TargetFacts:
        engine, stated = self.situation.deployment.engine, self.situation.deployment.target
        shape = self.situation.target
        stored = stored_bits(engine.quantization, None, None)
        if stored is None and (shape.quantization is None or find_model(stated.id) == shape):
            stored = stored_bits(None, engine.dtype, stated.id)
        if stated.facts is not None and stated.facts.bits_per_weight is not None:
            stored = None
        return target_of(shape, stored, kv_element_bytes(shape, engine.kv_cache_dtype))

    def _draft(self, candidate: Candidate) -> DraftFacts:
        described = method(candidate.method)
        name = candidate.draft.id if candidate.draft is not None else None
        shape = self.situation.drafts.get(name) if name is not None else None
        try:
            return draft_of(described, shape, name, None, self._target)
        except InputError:
            # A draft of which nobody knows the size is priced as the usual one of its kind.
            return draft_of(described, None, None, None, self._target)

    def _graph_tokens(self, k: int) -> float:
        """Largest step, in tokens, that runs under captured graphs."""
        engine, gpu = self.situation.deployment.engine, self.situation.gpu
        arguments = {key.replace("-", "_"): value for key, value in engine.extra_args.items()}
        listed = arguments.get("cudagraph_capture_sizes")
        sizes = [*(listed if isinstance(listed, list) else ()), arguments.get("max_cudagraph_capture_size")]
        stated = [size for size in sizes if isinstance(size, int) and size > 0]
        if stated:
            return float(max(stated))
        capability = gpu.compute_capability if gpu is not None else None
        most = engine_limits(self.situation).max_num_seqs
        return float(max(1, self.situation.release.capture_ceiling(most, k, capability)))
