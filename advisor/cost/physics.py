"""The step time of many setups at once: bytes and operations over the hardware's rates, plus the host's time.

A constant may be an array of shape (n, 1) or (n, rows): then every result has n rows, one for each value (slopes); or
of shape (rows,), a value of its own for each row.
Columns come from `advisor.cases.table`, constants from `physics.json` (fitted; `make fit` writes it). Times are
milliseconds. One step of the target serves `tokens` tokens of `running` requests; a speculating step adds the drafter's
passes and the host's work, and, where a lookup found nothing, verifies one token instead of k + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Columns = Mapping[str, Any]
Constants = Mapping[str, Any]


@dataclass(frozen=True)
class StepTimes:
    """One decode step with and without speculation, and what a request's prefill takes of the engine. Arrays, ms."""

    baseline: Any
    verify: Any
    draft: Any
    overhead: Any
    prefill: Any
    draft_prefill: Any
    drafted: Any
    """Mean drafted tokens of a step for each request."""
    host: Any
    checking: Any
    """What verifying takes beside the target's pass; part of `verify`."""

    @property
    def speculating(self) -> Any:
        return self.verify + self.draft + self.overhead


def pass_ms(
    c: Columns, p: Constants, tokens: Any, running: Any, context: Any, routed_tokens: Any, idle: Any = 0.0
) -> Any:
    """GPU time of one pass of the target over `tokens` tokens.

    idle: further tokens, of no request, that a captured graph is made for: they are multiplied and reduced in vain.
    """
    import numpy as np

    tp = c["tp"]
    touched = 1.0 - (1.0 - np.minimum(c["expert_share"], 1.0)) ** np.maximum(1.0, routed_tokens)
    touched = np.where(c["routed"] > 0, touched, 0.0)
    weight_bytes = (c["read_always"] + c["routed"] * touched) * c["bits"] / 8.0
    narrow = np.where(c["weight_only"] > 0, p["weight_only_bandwidth"], 1.0)
    read = weight_bytes / tp / (c["bandwidth"] * 1e6 * p["bandwidth_efficiency"] * narrow)
    peak = np.where(c["compute_bits"] <= 4, c["tflops4"], np.where(c["compute_bits"] <= 8, c["tflops8"],
                                                                    c["tflops16"]))
    # Narrower formats come less close to their peak, and a card without the units computes in sixteen bits.
    peak = c["tflops16"] * (peak / c["tflops16"]) ** p["narrow_gain"]
    efficiency = p["compute_efficiency"] * np.where(c["weight_only"] > 0, p["weight_only_compute"], 1.0)
    efficiency = efficiency * np.where(c["consumer"] > 0, p["consumer_compute"], 1.0)
    rate = peak * 1e9 * efficiency
    # Products of experts that see few tokens each are fed from memory: the card's bandwidth bounds their rate too.
    fed = c["bandwidth"] * 1e6 * p["moe_intensity"]
    rate = np.where(c["routed"] > 0, 1.0 / (1.0 / rate + 1.0 / fed), rate)
    compute = (tokens + idle) * 2.0 * c["active"] / tp / rate
    q = p["overlap"]
    matrices = (read**q + compute**q) ** (1.0 / q)
    kv = _kv_ms(c, p, running, context)
    # Recurrent layers read a request's state once and write it after every token, so that rejected ones can be undone.
    kv = kv + (running + tokens) * c["state"] / tp / (c["bandwidth"] * 1e6 * p["kv_efficiency"])
    attention = tokens * context * 4.0 * c["hidden"] * c["layers"] / tp / (c["tflops16"] * 1e9 * p["attention_compute"])
    attention = np.where(c["hybrid"] > 0, 0.3 * attention, attention)
    return matrices + kv + attention + _communication(c, p, tokens + idle)


def _kv_ms(c: Columns, p: Constants, readers: Any, context: Any) -> Any:
    """Reading the KV of so many requests once."""
    import numpy as np

    shards = np.minimum(c["tp"], np.maximum(1.0, c["kv_heads"]))
    window = np.where(c["window"] > 0, np.minimum(context, c["window"]), 0.0)
    kv = readers * (context * c["kv_bytes"] + window * c["window_kv_bytes"]) / shards
    return kv / (c["bandwidth"] * 1e6 * p["kv_efficiency"])


def target_ms(c: Columns, p: Constants, tokens: Any, readers: Any, context: Any, routed_tokens: Any) -> Any:
    """One step of the target alone over `tokens` tokens, host included; `context` KV tokens of `readers` are read."""
    return pass_ms(c, p, tokens, readers, context, routed_tokens) + _host_ms(c, p, readers)


def _communication(c: Columns, p: Constants, tokens: Any, layers: Any = None) -> Any:
    import numpy as np

    tp = c["tp"]
    count = 2.0 * (c["layers"] if layers is None else layers)
    latency = np.where(c["nvlink"] > 0, p["allreduce_nvlink_ms"], p["allreduce_pcie_ms"]) * np.log2(np.maximum(2.0, tp))
    size = tokens * c["hidden"] * 2.0 * 2.0 * (tp - 1.0) / tp / (c["link"] * 1e6 * 0.7)
    return np.where(tp > 1, count * (latency + size), 0.0)


def _host_ms(c: Columns, p: Constants, running: Any) -> Any:
    import numpy as np

    # Before scheduling was overlapped with the GPU's work every step waited for the host, speculating or not.
    old = 1.0 - c["era"]
    base = np.where(
        c["sglang"] > 0,
        p["step_host_sglang_ms"] + old * p["step_host_old_sglang_ms"],
        p["step_host_vllm_ms"] + old * p["step_host_old_ms"],
    )
    base = base + c["layers"] * p["layer_ms"] * np.where(c["routed"] > 0, p["moe_layer"], 1.0)
    base = base + np.where(c["eager"] > 0, c["layers"] * p["eager_layer_ms"], 0.0)
    return base + running * p["request_host_ms"]


def drafted_tokens(c: Columns, p: Constants, matched: Any) -> Any:
    """Mean drafted tokens of a step: k, less where lookups find nothing, or match less than k (suffix trees)."""
    import numpy as np

    k = c["k"]
    tree = np.minimum(k, p["suffix_drafted"])
    return np.where(c["suffix"] > 0, tree, k) * np.where(c["always_drafts"] > 0, 1.0, matched)


def step_times(c: Columns, p: Constants, running: Any, matched: Any) -> StepTimes:
    """Steps of every row at `running` requests.

    matched: share of steps with a draft, for lookups; ignored for drafters that always draft.
    """
    import numpy as np

    context = c["prompt"] + 0.5 * c["output"]
    gamma = p["routing_temper"]
    host = _host_ms(c, p, running)
    base = pass_ms(c, p, running, running, context, running) + host
    drafted = drafted_tokens(c, p, matched)
    tokens = running * (1.0 + drafted)
    # vLLM's first engine verified every drafted token as a request of its own, which read the KV again.
    first = (1.0 - c["sglang"]) * np.maximum(0.0, 1.0 - c["era"] / 0.2)
    readers = running * (1.0 + first * drafted)
    idle = _idle_tokens(c, running, drafted)
    verify = pass_ms(c, p, tokens, readers, context, running * (1.0 + drafted) ** gamma, idle) + host
    # Verification takes other kernels than plain decoding: longer attention queries, sampling of every position.
    checking = c["layers"] * p["verify_layer_ms"] + tokens * p["verify_token_ms"]
    verify = verify + checking
    drafting = np.where(c["always_drafts"] > 0, 1.0, np.minimum(1.0, running * matched))
    verify = verify + drafting * _lost_graphs_ms(c, p, running, tokens) + ragged_ms(c, p, running, matched)
    verify = verify + drafting * _unsplit_ms(c, p, running, context)
    return StepTimes(
        baseline=base,
        verify=verify,
        draft=_draft_ms(c, p, running, context),
        overhead=_overhead_ms(c, p, running, tokens),
        prefill=_prefill_ms(c, p, host, running),
        draft_prefill=_draft_prefill_ms(c, p),
        drafted=drafted,
        host=host,
        checking=checking,
    )


_GRAPH_SIZES: tuple[tuple[float, tuple[int, ...]], ...] = (
    (0.25, (*range(1, 9), *range(9, 33, 2), 64, 96, 128, 160)),
    (0.75, (*range(1, 9), *range(10, 33, 2), *range(40, 161, 16))),
    (1.0, (*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8))),
)
"""Requests that SGLang captures verify steps of, by the era up to which it does: 0.4.4; the releases before 0.5; since
then (`get_batch_sizes_to_capture` in its cuda_graph_runner.py, later in server_args.py). They are fewer than those of
plain steps, which have every eighth size, as graphs of many tokens take memory."""


def _idle_tokens(c: Columns, running: Any, drafted: Any) -> Any:
    """Tokens that a captured verify step computes for requests that are not there: it runs at the next captured size.

    Of SGLang. vLLM's sizes are 8 or 16 tokens apart, plain and verifying, which is hardly felt in either.
    """
    import numpy as np

    size = running
    for last, sizes in reversed(_GRAPH_SIZES):
        steps = np.array(sizes, dtype=float)
        at = np.minimum(np.searchsorted(steps, running), len(steps) - 1)
        size = np.where(c["era"] <= last, np.maximum(running, steps[at]), size)
    return c["sglang"] * (1.0 - c["eager"]) * (size - running) * (1.0 + drafted)


def _lost_graphs_ms(c: Columns, p: Constants, running: Any, tokens: Any) -> Any:
    """What a verify step pays where plain decoding runs as one captured graph and verifying does not.

    vLLM from 0.11 on: cards without the newer attention kernels capture verify steps in pieces, and hybrid models
    launch their recurrent layers one by one. Steps of more tokens than were captured (512 by default, requests times
    k + 1) run without a graph although the same requests' plain step has one.
    """
    import numpy as np

    older = np.where(c["older"] > 0, p["piecewise_layer_ms"], 0.0)
    # What a hybrid's step takes without a graph was timed whole: nothing of it comes on top.
    hybrid = np.where(c["older"] > 0, p["hybrid_older_layer_ms"], p["hybrid_layer_ms"])
    pieces = np.where(c["hybrid"] > 0, hybrid, older)
    beyond = tokens / c["graph_tokens"] - 1.0
    beyond = np.where(running <= c["graph_tokens"], np.clip(beyond / 0.1, 0.0, 1.0), 0.0) * p["beyond_graph_layer_ms"]
    return _captured(c) * c["layers"] * (pieces + beyond)


def _unsplit_ms(c: Columns, p: Constants, running: Any, context: Any) -> Any:
    """What reading the KV takes longer for several query tokens of a request than for one: vLLM since its rewrite, on
    cards without Hopper's attention kernel or the datacentre Blackwells'.

    Their kernel splits a request's KV over the card, and packs the query heads that share it, for one query token only.
    With more it works in tiles of a request and a KV head: few requests leave most of the card idle, and the heads of a
    group each read the KV for themselves. A sliding window is too short for that to matter, and where prompts ride
    along in a step, plain tokens pay for it too.
    """
    import numpy as np

    kept = (1.0 - c["sglang"]) * (c["era"] >= 0.2) * np.maximum(c["older"], c["consumer"])
    tiles = running * np.maximum(1.0, c["kv_heads"] / c["tp"])
    full = {**c, "window_kv_bytes": 0.0}
    return kept * _kv_ms(full, p, running, context) * (p["unpacked_kv"] + p["unsplit_tiles"] / tiles)


def ragged_ms(c: Columns, p: Constants, running: Any, matched: Any) -> Any:
    """What lookups pay in steps in which not every request verifies k + 1 tokens: whole graphs are captured for those
    alone, so that all others run in pieces. A suffix tree's drafts are hardly ever as long as k.

    Older cards pay that for every verify step (`piecewise_layer_ms`).
    """
    import numpy as np

    whole = np.where(c["suffix"] > 0, 0.0, np.clip(matched, 0.0, 1.0) ** np.maximum(1.0, running))
    lookup = np.where((c["lookup"] > 0) & (c["older"] <= 0), p["ragged_layer_ms"], 0.0)
    return _captured(c) * c["layers"] * lookup * (1.0 - whole)


def _captured(c: Columns) -> Any:
    """1 where plain decoding runs as one captured graph and verifying has to fit one as well."""
    import numpy as np

    return (1.0 - c["sglang"]) * np.clip((c["era"] - 0.37) / 0.02, 0.0, 1.0) * (1.0 - c["eager"])


def _draft_ms(c: Columns, p: Constants, running: Any, context: Any) -> Any:
    import numpy as np

    tp = np.where(c["drafter_model"] > 0, np.minimum(c["tp"], p["draft_shards"]), c["tp"])
    passes = np.where(c["parallel"] > 0, 1.0, c["k"])
    tokens = running * np.where(c["parallel"] > 0, c["k"], 1.0)
    read = c["draft_read"] * c["draft_bits"] / 8.0 / tp / (c["bandwidth"] * 1e6 * p["bandwidth_efficiency"])
    compute = tokens * 2.0 * c["draft_read"] / tp / (c["tflops16"] * 1e9 * p["compute_efficiency"])
    kv = running * context * c["draft_kv"] / tp / (c["bandwidth"] * 1e6 * p["kv_efficiency"])
    layer = np.where(c["drafter_model"] > 0, p["draft_model_layer_ms"], p["head_layer_ms"])
    layer = layer + c["draft_eager"] * p["eager_layer_ms"]
    host = c["draft_layers"] * layer + np.where(
        c["drafter_model"] > 0,
        p["draft_model_pass_ms"],
        np.where(c["parallel"] > 0, p["block_pass_ms"], p["head_pass_ms"]),
    ) * np.where((c["sglang"] > 0) & (c["parallel"] <= 0), p["sglang_draft"], 1.0)
    comm = _communication(c, p, tokens, c["draft_layers"])
    q = p["overlap"]
    once = (read**q + compute**q) ** (1.0 / q) + kv + comm + host + tokens * p["draft_token_ms"]
    neural = np.where(c["draft_read"] > 0, passes * once, 0.0)
    # SGLang ran a head's pass over the tokens just accepted without a graph before 0.4.7 (its pull request 6606: what
    # that took was 11 % of a step of one request and 5 % of one of 32, for a head of DeepSeek-V3's size).
    ungraphed = c["sglang"] * (c["era"] < 0.45) * (1.0 - c["parallel"]) * (1.0 - c["drafter_model"])
    neural = neural + np.where(c["draft_read"] > 0, ungraphed, 0.0) * c["draft_layers"] * p["eager_layer_ms"]
    # An n-gram is looked for in the whole text at every step; a suffix tree is kept up to date, request by request.
    each = np.where(c["suffix"] > 0, p["tree_request_ms"], p["lookup_request_ms"] * context / 500.0)
    lookup = np.where(c["lookup"] > 0, running * each, 0.0)
    return neural + lookup


def _overhead_ms(c: Columns, p: Constants, running: Any, tokens: Any) -> Any:
    import numpy as np

    first = np.maximum(0.0, 1.0 - c["era"] / 0.2)
    # What every step waited for before scheduling was overlapped is no price of speculation; since then it is, and
    # lookups, which run on the CPU between steps, switch the overlap off altogether.
    vllm = c["era"] * np.where(c["lookup"] > 0, p["sync_ms"], p["round_async_ms"]) + first * p["round_v0_ms"]
    vllm = vllm + np.where(c["lookup"] > 0, 0.0, p["round_vllm_ms"])
    sglang = p["round_sglang_ms"]
    base = np.where(c["sglang"] > 0, sglang, vllm)
    each = np.where(
        c["sglang"] > 0,
        p["round_request_sglang_ms"] + (1.0 - c["era"]) * p["round_request_old_sglang_ms"],
        p["round_request_ms"] + first * p["round_request_v0_ms"],
    )
    # Without the overlap (the default from vLLM 0.14 on) a step also waits for the host's work on every request.
    overlapped = (1.0 - c["sglang"]) * np.clip((c["era"] - 0.51) / 0.02, 0.0, 1.0)
    each = each + np.where(c["lookup"] > 0, overlapped * p["sync_request_ms"], 0.0)
    return base + running * each


def fresh_tokens(c: Columns) -> Any:
    """Prompt tokens of a request that have to be computed: those found in the prefix cache taken off."""
    return c["prompt"] * (1.0 - c["cached"])


def _prefill_ms(c: Columns, p: Constants, host: Any, running: Any) -> Any:
    """Engine time of one request's prompt. Prompts of many requests share a pass, so they share the weights' read."""
    import numpy as np

    prompt = np.maximum(1.0, fresh_tokens(c))
    together = np.clip(np.minimum(running, p["prefill_tokens"] / prompt), 1.0, None)
    alone = {**c, "state": 0.0 * c["state"]}
    full = pass_ms(alone, p, prompt * together, 0.0 * running, 0.5 * prompt, prompt * together)
    return (c["prompt"] > 0) * (full * p["prefill_share"] + 0.5 * host) / together


def _draft_prefill_ms(c: Columns, p: Constants) -> Any:
    import numpy as np

    compute = fresh_tokens(c) * 2.0 * c["draft_read"] / c["tp"] / (c["tflops16"] * 1e9 * p["compute_efficiency"])
    tree = c["prompt"] * p["tree_token_ms"]
    return np.where(c["always_drafts"] > 0, compute, np.where(c["suffix"] > 0, tree, 0.0))
