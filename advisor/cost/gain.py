"""From step times to speed-up: engine time of a request at a load, without over with speculation.

What a load is depends on how it is stated: requests at once, of which those run that memory has room for, or an arrival
rate, at which each side runs as many as its own latency keeps there. Columns, constants and their shapes are those of
`advisor.cost.physics`.
"""

from __future__ import annotations

from typing import Any

from advisor.cost.physics import Columns, Constants, StepTimes, fresh_tokens, pass_ms, step_times

_ENGINE_GIB = 2.0
"""What an engine takes of each device beside weights and KV: logits of 256 requests, activations, graphs, the runtime
(`advisor/cost/memory_constants.json`: 1.5 to 3 on cards of 24 to 80 GB)."""


def speedup(c: Columns, p: Constants, acceptance: Any, matched: Any) -> Any:
    """Speed-up of every row at its load: engine time of a request without over with speculation.

    acceptance: mean tokens per step over all steps, bonus included. qps rows are latencies at an arrival rate: each
    side's load follows from its own latency (Little's law).
    """
    import numpy as np

    rated = c["qps"] > 0
    if not bool(np.any(rated)):
        return _gain_at_load(c, p, acceptance, matched)
    if bool(np.all(rated)):
        loads = (_load_at_rate(c, p, 1.0, matched, False), _load_at_rate(c, p, acceptance, matched, True))
        each = (step_times(c, p, loads[0], matched), step_times(c, p, loads[1], matched))
        return _gain(c, p, each, loads, acceptance)
    parts = []
    for rows in (rated, ~rated):
        few, own = _part(c, p, rows)
        parts.append(speedup(few, own, _of_rows(acceptance, rows), _of_rows(matched, rows)))
    found = np.empty((*parts[0].shape[:-1], len(rated)))
    found[..., rated], found[..., ~rated] = parts
    return found


def _gain_at_load(c: Columns, p: Constants, acceptance: Any, matched: Any) -> Any:
    """Speed-up of every row at so many requests at once; where fewer of them fit beside a drafter, the rest waits."""
    import numpy as np

    own = np.maximum(1.0, np.minimum(c["running"], most_running(c, speculating=True)))
    times = step_times(c, p, own, matched)
    found = _gain(c, p, (times, times), (own, own), acceptance)
    plain = np.maximum(1.0, np.minimum(c["running"], most_running(c)))
    rows = (own < plain) & (c["k"] > 0)
    if bool(np.any(rows)):
        few, constants = _part(c, p, rows)
        loads = plain[rows], own[rows]
        each = [step_times(few, constants, load, _of_rows(matched, rows)) for load in loads]
        waits = np.where(few["metric_tpot"] > 0, 1.0, loads[1] / loads[0])
        found[..., rows] = waits * _gain(few, constants, (each[0], each[1]), loads, _of_rows(acceptance, rows))
    return found


def _part(c: Columns, p: Constants, rows: Any) -> tuple[Columns, Constants]:
    """Some of the rows, with the constants that are theirs."""
    return ({name: column[rows] for name, column in c.items()},
            {name: _of_rows(value, rows) for name, value in p.items()})


def _of_rows(value: Any, rows: Any) -> Any:
    """Of an array that has a value for each row, those of some; what is the same for all rows stays."""
    import numpy as np

    return value[..., rows] if np.ndim(value) and np.shape(value)[-1] == len(rows) else value


def _gain(c: Columns, p: Constants, times: tuple[StepTimes, StepTimes], loads: tuple[Any, Any], acceptance: Any) -> Any:
    """Engine time of a request without over with speculation, each at its own load."""
    import numpy as np

    before = request_ms(c, p, times[0], loads[0], 1.0, False)
    after = request_ms(c, p, times[1], loads[1], acceptance, True)
    return np.where(c["k"] > 0, before / after, 1.0)


def most_running(c: Columns, speculating: bool = False) -> Any:
    """Requests whose KV fits beside the weights at 0.9 of the memory: the rest of a higher load waits.

    Those that run are at all stages of their answers: half of it, in the mean. A drafter has weights and KV of its own,
    and recurrent layers keep a state for every drafted token.
    """
    import numpy as np

    room = (0.9 * c["memory"] - _ENGINE_GIB) * 2.0**30 * c["tp"] - c["params"] * c["bits"] / 8.0
    context = c["prompt"] + 0.5 * c["output"]
    window = np.where(c["window"] > 0, np.minimum(context, c["window"]), 0.0)
    each = context * c["kv_bytes"] + window * c["window_kv_bytes"] + c["state"]
    fits = (room > 0) & (each > 0)
    if speculating:
        # A head uses the target's output layer, which is among what it reads.
        shared = np.where(c["drafter_model"] > 0, 0.0, c["vocabulary"] * c["hidden"])
        drafter = np.where(c["draft_read"] > shared, c["draft_read"] - shared, c["draft_read"])
        # Where it seems to leave next to nothing, it was made to fit as the weights were.
        room = np.maximum(room - drafter * c["draft_bits"] / 8.0, 0.5 * room)
        each = each + context * c["draft_kv"] + c["k"] * c["state"]
    # Weights that do not fit by this count were made to fit somehow: the load is then left as stated.
    return np.where(fits, np.maximum(1.0, room / np.maximum(each, 1.0)), np.inf)


def request_ms(c: Columns, p: Constants, times: StepTimes, running: Any, acceptance: Any, speculating: bool) -> Any:
    """Latency of a request in a batch of `running` alike: its steps, and the prefills it waits for.

    Engines of before chunked prefill, and SGLang, run prompts in passes of their own. vLLM since its first rewrite
    puts pieces of prompts into decode steps, up to a budget of tokens: such a step computes all the time, so a plain
    token rides along for nearly nothing and a drafted one costs its full operations, and room that prompts lose.
    """
    import numpy as np

    step = times.speculating if speculating else times.baseline
    extra = times.draft + times.overhead + times.checking if speculating else 0.0
    own_prefill = times.draft_prefill if speculating else 0.0
    others = np.where(c["metric_tpot"] > 0, np.maximum(0.0, running - 1.0), running)
    steps = c["output"] / acceptance
    apart = others * (times.prefill + own_prefill) + steps * step
    mixes = (c["sglang"] <= 0) & (c["era"] >= 0.2) & (c["prompt"] > 0)
    if not bool(np.any(mixes)):
        return apart
    each = running * (1.0 + (times.drafted if speculating else 0.0))
    budget = token_budget(c)
    prompts = np.maximum(1.0, others * fresh_tokens(c))
    decoding = np.minimum(1.0, steps / np.maximum(1.0, prompts / budget))
    room = np.maximum(0.25 * budget, budget - each * decoding)
    mixed = np.maximum(np.minimum(1.0, others), prompts / room)
    piece = prompts / np.maximum(1e-9, mixed)
    context = c["prompt"] + 0.5 * c["output"]
    alone = {**c, "state": 0.0 * c["state"]}
    tokens = piece + each * decoding
    # Drafting and the round are paid for in every step in which any request decodes, not in one request's share.
    busy = np.minimum(1.0, running * decoding)
    joint = pass_ms(alone, p, tokens, running * decoding, context, tokens) + times.host + extra * busy
    left = np.maximum(0.0, steps - mixed)
    together = mixed * joint + others * own_prefill + left * step
    return np.where(mixes, together, apart)


def token_budget(c: Columns) -> Any:
    """Tokens of a step that vLLM schedules: as stated, else by the card (70 GiB and Hopper or later get more)."""
    import numpy as np

    usual = np.where((c["memory"] >= 70.0) & (c["older"] <= 0), 8192.0, 2048.0)
    return np.where(c["budget"] > 0, c["budget"], usual)


def _load_at_rate(c: Columns, p: Constants, acceptance: Any, matched: Any, speculating: bool) -> Any:
    """Running requests at the arrival rate: N = rate x latency(N), where a step's time is nearly a line in N.

    Capped at 256, the most that a server runs at once by default, where the rate is more than it can serve.
    """
    import numpy as np

    most = 256.0
    low, high = np.full_like(c["qps"], 2.0), np.full_like(c["qps"], 32.0)
    running = high
    for _ in range(2):
        ends = []
        for load in (low, high):
            times = step_times(c, p, load, matched)
            ends.append(request_ms(c, p, times, load, acceptance, speculating))
        slope = np.maximum(0.0, (ends[1] - ends[0]) / (high - low))
        fixed = np.maximum(1e-6, ends[0] - slope * low)
        rate = c["qps"] / 1000.0
        spare = 1.0 - rate * slope
        running = np.where(spare > 1e-3, rate * fixed / np.maximum(spare, 1e-3), most)
        running = np.clip(running, 1.0, most)
        low, high = np.maximum(1.0, running * 0.7), running * 1.4 + 1.0
    return running
