"""Runs inside the engine child: one timed block of prompts at one load and k."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from probes.trial.engine_hooks import EngineHooks, RequestTally


def run_block(hooks: EngineHooks, command: dict[str, Any], beat: Callable[[int, int], None],
              interrupted: Callable[[], bool],
              turn: Callable[[float, int], float | None] | None = None) -> dict[str, Any]:
    """Keep `running` of the given prompts in flight until all are answered; worker.py states both shapes.

    `beat(steps, tokens)` is called after every step. When `interrupted()` turns true, or `deadline_s` has passed, the
    requests in flight are dropped and what was measured comes back with `complete: false`. `turn(own_s, tokens)` is
    called before every step and may wait: all times below are the block's own, without such waits. It returns what a
    step of another engine took meanwhile, in milliseconds, or None.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    if command.get("k") is not None:
        hooks.set_k(int(command["k"]))
    sampling = {name: command[name] for name in ("temperature", "top_p", "top_k") if command.get(name) is not None}
    params = SamplingParams(max_tokens=int(command["max_tokens"]), ignore_eos=bool(command.get("ignore_eos", False)),
                            detokenize=False, output_kind=RequestOutputKind.DELTA, **sampling)
    hooks.forget_text(prefix_cache=not command.get("keep_prefix_cache", False))
    hooks.start_block()
    before = hooks.counters()
    waiting = [(f"b{command.get('id', 0)}p{place}", ids) for place, ids in enumerate(command["prompts"])][::-1]
    names = [name for name, _ in reversed(waiting)]
    tallies = hooks.tallies
    open_names: set[str] = set()
    complete, steps, tokens = True, 0, 0
    waited_s = 0.0
    begin = time.perf_counter()
    deadline = begin + float(command["deadline_s"]) if command.get("deadline_s") else None

    def own_s() -> float:
        return time.perf_counter() - begin - waited_s

    while waiting or open_names:
        if interrupted() or (deadline is not None and time.perf_counter() > deadline):
            hooks.engine.abort_request(sorted(open_names))
            complete = False
            break
        while waiting and len(open_names) < int(command["running"]):
            name, ids = waiting.pop()
            tallies[name] = RequestTally(prompt_tokens=len(ids), added_s=own_s())
            hooks.engine.add_request(name, {"prompt_token_ids": ids}, params.clone())
            open_names.add(name)
        if turn is not None:
            asked = time.perf_counter()
            hooks.beside_ms = turn(own_s(), tokens)
            waited_s += time.perf_counter() - asked
            if interrupted():
                continue
        outputs = hooks.step()
        now = own_s()
        steps += 1
        for output in outputs:
            tally, fresh = tallies[output.request_id], list(output.outputs[0].token_ids)
            if not hooks.sees_steps and tally.ids and fresh:
                tally.note_from_outside(len(fresh), int(command.get("k") or 0))
            tokens += len(fresh)
            tally.ids += fresh
            tally.first_token_s = now if tally.first_token_s is None and fresh else tally.first_token_s
            if output.finished:
                tally.finish_s, tally.finish_reason = now, output.outputs[0].finish_reason
                open_names.discard(output.request_id)
        beat(steps, tokens)
    wall = own_s()
    if not complete:
        # Aborted requests leave at the next step; none of them may reach into the next block.
        while hooks.engine.has_unfinished_requests():
            hooks.engine.step()
    hooks.end_block()
    after = hooks.counters()
    return {
        "complete": complete,
        "wall_s": wall,
        "output_tokens": tokens,
        "steps": [row.as_list() for row in hooks.rows],
        "requests": [{**tallies[name].as_dict(), "place": place}
                     for place, name in enumerate(names) if name in tallies],
        "counters": {name: _difference(value, before.get(name)) for name, value in after.items()},
    }


def _difference(after: Any, before: Any) -> Any:
    if isinstance(after, list):
        old = before or [0] * len(after)
        return [a - b for a, b in zip(after, old, strict=True)]
    return after - (before or 0)
