"""Runs inside the engine child: drives vLLM's step loop and notes what each step carried and gave.

Everything private of vLLM that the trial touches is touched here, behind a guard that says what was found:
`scheduler.update_from_output` (which request carried how many drafts, how many tokens came out), the drafter's propose
function (its time), `scheduler.dynamic_sd_lookup` (k without a restart). Where one is missing, less is reported and the
`hooks` of the ready event say so. Read in vLLM 0.32; standard library only, so that the child starts light.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StepRow:
    """One engine step. Times are milliseconds; `context` is the mean tokens a scheduled request has behind it, and
    `beside_ms` a step of another engine just before."""

    step_ms: float = 0.0
    running: int = 0
    prefilling: int = 0
    prompt_tokens: int = 0
    scheduled_tokens: int = 0
    drafts: int = 0
    output_tokens: int = 0
    context: float = 0.0
    draft_ms: float | None = None
    beside_ms: float | None = None

    def as_list(self) -> list[float | int | None]:
        """The order the protocol states (see worker.py)."""
        draft = None if self.draft_ms is None else round(self.draft_ms, 3)
        return [round(self.step_ms, 3), self.running, self.prefilling, self.prompt_tokens, self.scheduled_tokens,
                self.drafts, self.output_tokens, round(self.context, 1), draft, self.beside_ms]


@dataclass
class RequestTally:
    """What one request's decode steps gave."""

    prompt_tokens: int = 0
    ids: list[int] = field(default_factory=list)
    steps: int = 0
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    added_s: float = 0.0
    first_token_s: float | None = None
    finish_s: float | None = None
    finish_reason: str | None = None

    def note(self, drafts: int, accepted: int) -> None:
        self.steps += 1
        while len(self.drafted) < drafts:
            self.drafted.append(0)
            self.accepted.append(0)
        for position in range(drafts):
            self.drafted[position] += 1
        for position in range(min(accepted, drafts)):
            self.accepted[position] += 1

    def note_from_outside(self, fresh: int, k: int) -> None:
        """Without a view of the scheduler: tokens that came at once, and k drafts taken as asked for."""
        self.note(max(k, fresh - 1), fresh - 1)

    def as_dict(self) -> dict[str, Any]:
        """As the protocol states it (worker.py)."""
        return {"prompt_tokens": self.prompt_tokens, "ids": self.ids, "steps": self.steps, "drafted": self.drafted,
                "accepted": self.accepted, "added_s": self.added_s, "first_token_s": self.first_token_s,
                "finish_s": self.finish_s, "finish_reason": self.finish_reason}


def _reach(root: Any, path: str) -> Any:
    """The attribute at the end of a dotted path, or None where this release has another shape."""
    for name in path.split("."):
        root = getattr(root, name, None)
        if root is None:
            return None
    return root


class EngineHooks:
    """Wraps the scheduler and the drafter of an in-process vLLM. `use_hooks=False` leaves only public counters."""

    def __init__(self, llm: Any, use_hooks: bool = True) -> None:
        self.llm = llm
        self.engine = llm.llm_engine
        self.rows: list[StepRow] = []
        self.tallies: dict[str, RequestTally] = {}
        self.beside_ms: float | None = None
        """What another engine's step took just before the next one here."""
        self._pending: StepRow | None = None
        self._draft_ms: float | None = None
        self._cuda_events: list[tuple[StepRow | None, Any, Any]] = []
        core = _reach(self.engine, "engine_core.engine_core")
        self.scheduler = _reach(core, "scheduler") if core is not None else None
        runner = _reach(self.engine, "model_executor.driver_worker.worker.model_runner")
        self.runner = runner if runner is not None else _reach(self.engine, "model_executor.driver_worker.model_runner")
        self.lookup = self._find_lookup() if use_hooks else None
        self.sees_steps = bool(use_hooks) and self._wrap_scheduler()
        self.times_drafter = bool(use_hooks) and self._wrap_drafter()

    # --- finding and wrapping --------------------------------------------------------------------------------------
    def _find_lookup(self) -> list[int] | None:
        """The list `requests in the step -> k`; None unless it has exactly the shape this code was checked with."""
        lookup = getattr(self.scheduler, "dynamic_sd_lookup", None)
        seats = _reach(self.engine, "vllm_config.scheduler_config.max_num_seqs")
        if isinstance(lookup, list) and len(lookup) == (seats or 0) + 1 and all(type(k) is int for k in lookup):
            return lookup
        return None

    def _wrap_scheduler(self) -> bool:
        original = getattr(self.scheduler, "update_from_output", None)
        if original is None or not hasattr(self.scheduler, "requests"):
            return False

        def update_from_output(scheduler_output: Any, model_runner_output: Any, *rest: Any, **named: Any) -> Any:
            seen = self._before_update(scheduler_output, model_runner_output)
            result = original(scheduler_output, model_runner_output, *rest, **named)
            self._after_update(seen, model_runner_output)
            return result

        self.scheduler.update_from_output = update_from_output  # type: ignore[union-attr]
        return True

    def _before_update(self, scheduled: Any, output: Any) -> StepRow:
        # Before, because the engine trims the sampled lists in place when a request stops.
        row = StepRow()
        requests = self.scheduler.requests  # type: ignore[union-attr]
        drafts_of = scheduled.scheduled_spec_decode_tokens
        context = 0
        for request_id, tokens in scheduled.num_scheduled_tokens.items():
            request = requests.get(request_id)
            if request is None:
                continue
            row.running += 1
            row.scheduled_tokens += tokens
            context += request.num_tokens
            drafts = len(drafts_of.get(request_id) or ())
            index = output.req_id_to_index.get(request_id)
            sampled = len(output.sampled_token_ids[index]) if index is not None and output.sampled_token_ids else 0
            # A resumed request recomputes its output too: more tokens than one plus its drafts is a prefill.
            if request.num_output_tokens == 0 or tokens > 1 + drafts:
                row.prefilling += 1
                row.prompt_tokens += tokens
                continue
            row.drafts += drafts
            tally = self.tally_of(request_id)
            if tally is not None and sampled:
                tally.note(drafts, sampled - 1)
        row.context = context / row.running if row.running else 0.0
        return row

    def tally_of(self, request_id: str) -> RequestTally | None:
        """The engine may lengthen a request's name by a random suffix of its own: `b3p1` becomes `b3p1-9f0c2a77`."""
        tally = self.tallies.get(request_id)
        return tally if tally is not None else self.tallies.get(request_id.rsplit("-", 1)[0])

    def _after_update(self, row: StepRow, output: Any) -> None:
        row.output_tokens = sum(len(ids) for ids in output.sampled_token_ids or ())
        row.draft_ms = self._draft_ms
        self._pending = row

    def _wrap_drafter(self) -> bool:
        owner, name = self.runner, "propose_draft_token_ids"
        if getattr(owner, "drafter", None) is None or not hasattr(owner, name):
            owner, name = getattr(self.runner, "speculator", None), "propose"
        original = getattr(owner, name, None)
        if original is None:
            return False
        on_gpu = str(getattr(self.runner, "device", "cpu")).startswith("cuda")

        def timed(*args: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            result = original(*args, **named)
            self._draft_ms = (time.perf_counter() - begin) * 1e3
            return result

        def timed_by_events(*args: Any, **named: Any) -> Any:
            import torch

            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            result = original(*args, **named)
            last.record()
            self._cuda_events.append((None, first, last))
            return result

        setattr(owner, name, timed_by_events if on_gpu else timed)
        return True

    # --- k ---------------------------------------------------------------------------------------------------------
    def set_k(self, k: int) -> None:
        """Run k drafts a step from the next step on. RuntimeError where this engine's k cannot be changed."""
        if self.lookup is None:
            raise RuntimeError(f"k={k} asked for, but this engine start has a fixed k")
        for index in range(1, len(self.lookup)):
            self.lookup[index] = k

    # --- steps -----------------------------------------------------------------------------------------------------
    def start_block(self) -> None:
        self.rows, self.tallies, self._cuda_events, self.beside_ms = [], {}, [], None

    def step(self) -> list[Any]:
        """One call of the engine's step; its wall time goes to the row of the batch whose output it brought."""
        self._draft_ms, self._pending = None, None
        carried = self.rows.pop() if self.rows and self.rows[-1].running == 0 else None
        begin = time.perf_counter()
        outputs = self.engine.step()
        elapsed = (time.perf_counter() - begin) * 1e3 + (carried.step_ms if carried else 0.0)
        row = self._pending
        if row is None and not self.sees_steps and outputs:
            # Public view only: tokens that came out; what was scheduled stays unknown (0).
            row = StepRow(running=len(outputs), output_tokens=sum(len(o.outputs[0].token_ids) for o in outputs))
        row = row or StepRow()
        row.step_ms = elapsed
        row.beside_ms = carried.beside_ms if carried and carried.beside_ms is not None else self.beside_ms
        if self._cuda_events and self._cuda_events[-1][0] is None:
            self._cuda_events[-1] = (row, *self._cuda_events[-1][1:])
        self.rows.append(row)
        return list(outputs)

    def end_block(self) -> None:
        """Read what the device timed, now that waiting for it disturbs nothing."""
        if self._cuda_events:
            import torch

            torch.cuda.synchronize()
            for row, first, last in self._cuda_events:
                if row is not None:
                    row.draft_ms = first.elapsed_time(last)
        self.rows = [row for row in self.rows if row.running]

    # --- state between blocks --------------------------------------------------------------------------------------
    def forget_text(self, prefix_cache: bool = True) -> None:
        """Drop what earlier blocks left behind, so that a repeated prompt is as new as its first time.

        Without it the prefix cache would spare its prefill, and a suffix tree would hold its very answer.
        """
        if prefix_cache:
            self.llm.reset_prefix_cache()
        cache = _reach(self.runner, "drafter.suffix_cache")
        if cache is not None:
            for request_id in list(cache.active_requests):
                cache.stop_request(request_id)
            for request_id in list(cache.cached_requests):
                cache.evict_cached_response(request_id)

    def counters(self) -> dict[str, Any]:
        """vLLM's own speculation and token counters, summed over engines; per position as a list."""
        total: dict[str, Any] = {}
        for metric in self.llm.get_metrics():
            name = metric.name.removeprefix("vllm:")
            if hasattr(metric, "values") and name.startswith("spec_decode"):
                old = total.get(name, [0] * len(metric.values))
                total[name] = [a + b for a, b in zip(old, metric.values, strict=True)]
            elif hasattr(metric, "value") and name in COUNTERS:
                total[name] = total.get(name, 0) + metric.value
        return total


COUNTERS = frozenset({
    "spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens",
    "generation_tokens", "prompt_tokens", "num_preemptions",
})
