"""What is known of each step-time constant before any speed-up is looked at: its usual value and how sure that is.

The spread is a standard deviation in logarithms. A constant that the measurements say nothing about keeps its value.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prior:
    """One constant: usual value, log standard deviation, unit, meaning and where the value is from."""

    value: float
    log_sd: float
    unit: str
    about: str
    source: str


_STEP_MODEL = "SpecDecode-Bench step model, H100 SXM, vLLM 0.10.1 (arxiv.org/abs/2601.11580)"
_ASSUMED = "assumed; the measurements decide"

PRIORS: dict[str, Prior] = {
    "bandwidth_efficiency": Prior(0.85, 0.08, "share", "weights read over the data sheet's bandwidth", _STEP_MODEL),
    "weight_only_bandwidth": Prior(0.8, 0.15, "share", "the same of four-bit weight-only kernels", _ASSUMED),
    "compute_efficiency": Prior(0.68, 0.12, "share", "matrix products over the dense 16-bit peak", _STEP_MODEL),
    "consumer_compute": Prior(1.0, 0.25, "times", "the same on GeForce and workstation cards", _ASSUMED),
    "weight_only_compute": Prior(0.5, 0.35, "share", "weight-only kernels' products over 16-bit ones", _ASSUMED),
    "narrow_gain": Prior(0.7, 0.3, "exponent", "how much of a narrower format's higher peak is reached", _ASSUMED),
    "moe_intensity": Prior(45.0, 0.4, "FLOP a byte", "experts' products for each byte of bandwidth", _ASSUMED),
    "overlap": Prior(1.6, 0.3, "exponent", "1: reading and computing add up; large: the longer hides the other",
                     _STEP_MODEL),
    "kv_efficiency": Prior(0.8, 0.15, "share", "KV read over the data sheet's bandwidth", _STEP_MODEL),
    "attention_compute": Prior(0.3, 0.4, "share", "attention products over the dense peak", _ASSUMED),
    "allreduce_nvlink_ms": Prior(0.006, 0.4, "ms", "one all-reduce over NVLink, by the log of devices", _ASSUMED),
    "allreduce_pcie_ms": Prior(0.02, 0.4, "ms", "one all-reduce over PCIe, by the log of devices", _ASSUMED),
    "step_host_vllm_ms": Prior(0.6, 0.4, "ms", "a step's wait for the host, scheduling overlapped", _ASSUMED),
    "step_host_old_ms": Prior(2.0, 0.3, "ms", "what it was more before scheduling was overlapped", _STEP_MODEL),
    "step_host_sglang_ms": Prior(0.6, 0.5, "ms", "the same in SGLang", _ASSUMED),
    "step_host_old_sglang_ms": Prior(0.5, 0.6, "ms", "what it was more in early releases", _ASSUMED),
    "layer_ms": Prior(0.012, 0.4, "ms", "kernels of a layer that neither read nor compute much", _ASSUMED),
    "moe_layer": Prior(2.0, 0.4, "times", "the same of a layer of experts", _ASSUMED),
    "eager_layer_ms": Prior(0.35, 0.4, "ms", "launching a layer without a captured graph",
                            "vllm-project/vllm issue 35387: 64 layers, 17.5 to 46 ms"),
    "request_host_ms": Prior(0.006, 0.6, "ms", "host time of each running request", _ASSUMED),
    "routing_temper": Prior(0.85, 0.12, "exponent", "drafted tokens of a request agree on experts", _ASSUMED),
    "verify_layer_ms": Prior(0.003, 0.5, "ms", "a layer's attention over several tokens of a request", _ASSUMED),
    "verify_token_ms": Prior(0.002, 0.7, "ms", "sampling and checking of a token", _ASSUMED),
    "piecewise_layer_ms": Prior(0.08, 0.7, "ms", "a layer where verify steps are captured in pieces, on cards before "
                                "Hopper", _ASSUMED),
    "ragged_layer_ms": Prior(0.03, 0.6, "ms", "a layer of a lookup's step captured in pieces, on later cards", "full "
                             "over piecewise graphs: 0.014 to 0.025 ms a layer of 1.5 B, 0.03 to 0.05 of 4 B on H200, "
                             "0.13 of 30 B-A3B on H100 (vllm-project/vllm pull requests 20059, 51167, 25444)"),
    "hybrid_older_layer_ms": Prior(0.445, 0.5, "ms", "a layer of a hybrid whose verify step is not captured, on cards "
                                   "before Hopper", "vllm-project/vllm issue 35387: 64 layers, 17.5 to 46 ms"),
    "hybrid_layer_ms": Prior(0.03, 0.7, "ms", "the same on later cards", _ASSUMED),
    "unsplit_tiles": Prior(13.0, 0.6, "tiles", "requests times KV heads that keep a card busy where verifying does not "
                           "split the KV", "verify attention 4.3 times as fast once split, at 4 KV heads (avesed/"
                           "vllm-ampere-optimized pull request 7); 39 times (vllm-project/vllm pull request 51995); "
                           "why: 51320"),
    "unpacked_kv": Prior(0.3, 0.7, "times", "more KV traffic where the query heads of a group read it one by one",
                         _ASSUMED),
    "suffix_drafted": Prior(4.0, 0.4, "tokens", "mean length of a suffix tree's draft where it has one", _ASSUMED),
    "draft_shards": Prior(4.0, 0.5, "devices", "beyond which sharding a draft model gains nothing", _ASSUMED),
    "draft_model_layer_ms": Prior(0.05, 0.4, "ms", "a layer of a draft model", "47 % of a Qwen3-8B step with a 0.6 B "
                                  "draft of 28 layers, k = 3 (arxiv.org/abs/2601.11580)"),
    "draft_model_pass_ms": Prior(0.3, 0.5, "ms", "a pass of a draft model", _ASSUMED),
    "head_layer_ms": Prior(0.05, 0.5, "ms", "a layer of a head", _ASSUMED),
    "head_pass_ms": Prior(0.25, 0.5, "ms", "a pass of a head", "EAGLE draft 2.135 ms at k = 3, of which 1.4 read "
                          "(SpecDecode-Bench simulator)"),
    "sglang_draft": Prior(0.5, 0.4, "times", "SGLang's passes of a drafter, captured as one graph", _ASSUMED),
    "draft_token_ms": Prior(0.0008, 0.6, "ms", "each token of a drafter's pass", "SpecDecode-Bench simulator"),
    "tree_request_ms": Prior(0.03, 0.6, "ms", "growing a request's suffix tree by a step and drafting from it, on the "
                             "CPU", _ASSUMED),
    "tree_token_ms": Prior(0.0015, 0.6, "ms", "putting a token of a prompt into a suffix tree of depth 24", _ASSUMED),
    "lookup_request_ms": Prior(0.0015, 0.8, "ms", "matching one request's text of 500 tokens",
                               "n-gram draft is 0.59 % of verify (SpecDecode-Bench simulator)"),
    "round_vllm_ms": Prior(0.3, 0.6, "ms", "a speculating step's host work", _ASSUMED),
    "round_async_ms": Prior(0.8, 0.6, "ms", "more of it where a plain step's is hidden", "1.7 ms a round "
                            "(aisimulate 0.13, vLLM 0.32)"),
    "round_v0_ms": Prior(4.0, 0.6, "ms", "the same in the first engine", _ASSUMED),
    "sync_ms": Prior(0.8, 0.6, "ms", "a lookup's step waits for the host where others do not", _ASSUMED),
    "round_sglang_ms": Prior(0.5, 0.6, "ms", "a speculating step's host work in SGLang", _ASSUMED),
    "round_request_ms": Prior(0.005, 0.5, "ms", "a speculating step's host work for each request", _ASSUMED),
    "round_request_sglang_ms": Prior(0.01, 0.6, "ms", "the same in SGLang", _ASSUMED),
    "round_request_v0_ms": Prior(0.1, 0.7, "ms", "the same in vLLM's first engine", _ASSUMED),
    "round_request_old_sglang_ms": Prior(0.05, 1.0, "ms", "the same in SGLang's early releases, more", _ASSUMED),
    "sync_request_ms": Prior(0.03, 0.5, "ms", "host work on a request that a lookup's step waits for", _ASSUMED),
    "block_pass_ms": Prior(0.9, 0.5, "ms", "a pass of a drafter that proposes all tokens at once", _ASSUMED),
    "beyond_graph_layer_ms": Prior(0.05, 0.6, "ms", "a layer of a verify step larger than any captured graph",
                                   _ASSUMED),
    "prefill_tokens": Prior(2048.0, 0.3, "tokens", "prompt tokens of several requests that one pass takes", "vLLM's "
                            "max_num_batched_tokens where memory is below 70 GiB"),
    "prefill_share": Prior(0.8, 0.3, "times", "a prompt's pass beside other work over its pass alone", _ASSUMED),
    "match_rate": Prior(1.3, 0.2, "rate", "steps with a draft, at k = 3: 1 - exp(-rate x (tokens per step - 1))",
                        "match rates .2, .2, .4, .8 at 1.16, 1.40, 1.33, 2.03 tokens (SpecDecode-Bench traces); 0.113 "
                        "of drafted tokens accepted at k = 5 (arxiv.org/abs/2608.24004)"),
}
