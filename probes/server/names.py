"""What each engine calls the things a probe reads. Adding an engine, or an older name, is one entry here.

Names are written without the engine's prefix and without `_total`: the reader takes both off. Several names for one
thing stand newest first, and the first one present is read. Sources: vLLM 0.32 `v1/metrics/loggers.py` and
`v1/spec_decode/metrics.py`; the metrics pages of vLLM 0.6.3 and 0.8.2 (V0 names, gpu_* gauges); SGLang's
production-metrics page.
"""

from __future__ import annotations

from dataclasses import dataclass

Names = tuple[str, ...]


@dataclass(frozen=True)
class EngineNames:
    """One engine's metric names, newest first; empty where the engine does not export it."""

    engine: str
    prefixes: Names
    """In front of every metric. Ray Serve rewrites the colon and adds its own prefix; collectors rewrite the colon."""
    running: Names
    waiting: Names
    swapped: Names = ()
    """Requests moved to host memory (V0): they wait."""
    kv_usage: Names = ()
    prompt_total: Names = ()
    generation_total: Names = ()
    finished: Names = ()
    """Finished requests, all reasons."""
    preemptions: Names = ()
    prefix_queries: Names = ()
    prefix_hits: Names = ()
    prefix_hit_rate: Names = ()
    """A gauge, where there are no counters."""
    prompt_histogram: Names = ()
    output_histogram: Names = ()
    ttft: Names = ()
    tpot: Names = ()
    """Per request: decode time over output tokens but the first."""
    token_gap: Names = ()
    """Per chunk of the stream: several tokens when speculation is on."""
    e2e: Names = ()
    step_tokens: Names = ()
    """Tokens of an engine step: its observations are the steps."""
    drafts: Names = ()
    draft_tokens: Names = ()
    accepted_tokens: Names = ()
    accepted_per_position: Names = ()
    emitted_tokens: Names = ()
    """V0: accepted tokens plus one for each verification."""
    acceptance_length: Names = ()
    """A gauge, where there are no counters."""
    tensor_rank_labels: Names = ()
    """Labels by which ranks of ONE engine repeat the same number; only the lowest rank is read."""

    @property
    def counts(self) -> frozenset[str]:
        """Counters, which are numbers on every sound page; gauges may be none while nothing was asked."""
        return frozenset((*self.prompt_total, *self.generation_total, *self.drafts, *self.draft_tokens,
                          *self.accepted_tokens, *self.accepted_per_position, *self.emitted_tokens))


ENGINES: tuple[EngineNames, ...] = (
    EngineNames(
        engine="vllm",
        prefixes=("vllm:", "ray_vllm:", "ray_vllm_", "vllm_"),
        running=("num_requests_running",),
        waiting=("num_requests_waiting",),
        swapped=("num_requests_swapped",),
        kv_usage=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
        prompt_total=("prompt_tokens",),
        generation_total=("generation_tokens",),
        finished=("request_success",),
        preemptions=("num_preemptions",),
        prefix_queries=("prefix_cache_queries", "gpu_prefix_cache_queries"),
        prefix_hits=("prefix_cache_hits", "gpu_prefix_cache_hits"),
        prefix_hit_rate=("gpu_prefix_cache_hit_rate",),
        prompt_histogram=("request_prompt_tokens",),
        output_histogram=("request_generation_tokens",),
        ttft=("time_to_first_token_seconds",),
        tpot=("request_time_per_output_token_seconds",),
        token_gap=("inter_token_latency_seconds", "time_per_output_token_seconds"),
        e2e=("e2e_request_latency_seconds",),
        step_tokens=("iteration_tokens_total",),
        drafts=("spec_decode_num_drafts",),
        draft_tokens=("spec_decode_num_draft_tokens",),
        accepted_tokens=("spec_decode_num_accepted_tokens",),
        accepted_per_position=("spec_decode_num_accepted_tokens_per_pos",),
        emitted_tokens=("spec_decode_num_emitted_tokens",),
    ),
    EngineNames(
        engine="sglang",
        prefixes=("sglang:", "sglang_"),
        running=("num_running_reqs",),
        waiting=("num_queue_reqs",),
        kv_usage=("token_usage", "full_token_usage"),
        prompt_total=("prompt_tokens",),
        generation_total=("generation_tokens",),
        finished=("num_requests",),
        preemptions=("num_retracted_requests",),
        prefix_hit_rate=("cache_hit_rate",),
        prompt_histogram=("prompt_tokens_histogram",),
        output_histogram=("generation_tokens_histogram",),
        ttft=("time_to_first_token_seconds",),
        token_gap=("inter_token_latency_seconds", "time_per_output_token_seconds"),
        e2e=("e2e_request_latency_seconds",),
        acceptance_length=("spec_accept_length",),
        tensor_rank_labels=("tp_rank", "pp_rank", "moe_ep_rank"),
    ),
)
