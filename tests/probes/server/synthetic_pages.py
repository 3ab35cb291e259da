"""Synthetic /metrics pages in the shape each engine era prints them. All numbers are made up for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MODEL = "org/model"
BORN = 1.78e9
LENGTH_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
SECOND_EDGES = (0.001, 0.01, 0.1, 1.0, 10.0)


def line(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def gauge(name: str, value: float, **labels: str) -> list[str]:
    return [f"# HELP {name} Synthetic.", f"# TYPE {name} gauge", line(name, value, **labels)]


def counter(name: str, value: float, **labels: str) -> list[str]:
    """With the `_created` series beside it that the Python client prints."""
    stem = name.removesuffix("_total")
    return [f"# HELP {name} Synthetic.", f"# TYPE {name} counter", line(name, value, **labels),
            f"# TYPE {stem}_created gauge", line(f"{stem}_created", BORN, **labels)]


def histogram(name: str, values: Sequence[float], edges: Sequence[float], **labels: str) -> list[str]:
    rows = [f"# TYPE {name} histogram"]
    rows += [line(f"{name}_bucket", sum(v <= e for v in values), **{"le": str(float(e)), **labels}) for e in edges]
    rows += [line(f"{name}_bucket", len(values), **{"le": "+Inf", **labels})]
    rows += [line(f"{name}_count", len(values), **labels), line(f"{name}_sum", float(sum(values)), **labels)]
    return [*rows, f"# TYPE {name}_created gauge", line(f"{name}_created", BORN, **labels)]


def page(*parts: list[str], start: float | None = BORN) -> str:
    head = [] if start is None else gauge("process_start_time_seconds", start)
    return "\n".join([*head, *(row for part in parts for row in part)]) + "\n"


def v1_engine(*, running: float = 2, waiting: float = 0, kv: float = 0.25, prompts: Sequence[float] = (),
              outputs: Sequence[float] = (), ttft: Sequence[float] = (), tpot: Sequence[float] = (),
              gaps: Sequence[float] = (), queries: float = 0, hits: float = 0, preemptions: float = 0,
              speculation: Mapping[str, float | Sequence[float]] | None = None, model: str = MODEL,
              engine: str = "0", generation: float | None = None) -> list[str]:
    """One engine of vLLM 0.23 to 0.32."""
    labels = {"engine": engine, "model_name": model}
    rows: list[str] = []
    if speculation is not None:
        rows += counter("vllm:spec_decode_num_drafts_total", float(speculation["drafts"]), **labels)  # type: ignore[arg-type]
        rows += counter("vllm:spec_decode_num_draft_tokens_total", float(speculation["draft_tokens"]), **labels)  # type: ignore[arg-type]
        positions = list(speculation["positions"])  # type: ignore[arg-type]
        rows += counter("vllm:spec_decode_num_accepted_tokens_total", float(sum(positions)), **labels)
        for i, value in enumerate(positions):
            rows += counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", value, **labels, position=str(i))
    rows += gauge("vllm:num_requests_running", running, **labels)
    rows += gauge("vllm:num_requests_waiting", waiting, **labels)
    rows += gauge("vllm:num_requests_waiting_by_reason", waiting, **labels, reason="capacity")
    rows += gauge("vllm:kv_cache_usage_perc", kv, **labels)
    rows += counter("vllm:prefix_cache_queries_total", queries, **labels)
    rows += counter("vllm:prefix_cache_hits_total", hits, **labels)
    rows += counter("vllm:num_preemptions_total", preemptions, **labels)
    rows += counter("vllm:prompt_tokens_total", float(sum(prompts)), **labels)
    rows += counter("vllm:generation_tokens_total", float(sum(outputs)) if generation is None else generation, **labels)
    rows += counter("vllm:request_success_total", len(outputs), **labels, finished_reason="stop")
    rows += counter("vllm:request_success_total", 0, **labels, finished_reason="length")
    rows += histogram("vllm:request_prompt_tokens", prompts, LENGTH_EDGES, **labels)
    rows += histogram("vllm:request_generation_tokens", outputs, LENGTH_EDGES, **labels)
    rows += histogram("vllm:iteration_tokens_total", [1.0], (1, 8, 16), **labels)
    rows += histogram("vllm:time_to_first_token_seconds", ttft, SECOND_EDGES, **labels)
    rows += histogram("vllm:inter_token_latency_seconds", gaps, SECOND_EDGES, **labels)
    if tpot:
        rows += histogram("vllm:request_time_per_output_token_seconds", tpot, SECOND_EDGES, **labels)
    return rows


def v0_engine(*, running: float, swapped: float, prompts: Sequence[float], outputs: Sequence[float],
              accepted: float, emitted: float, draft_tokens: float) -> list[str]:
    """vLLM 0.6 to 0.8 with the V0 engine: no engine label, gpu_* gauges, draft acceptance as a gauge."""
    labels = {"model_name": MODEL}
    return [
        *gauge("vllm:num_requests_running", running, **labels),
        *gauge("vllm:num_requests_swapped", swapped, **labels),
        *gauge("vllm:num_requests_waiting", 1, **labels),
        *gauge("vllm:gpu_cache_usage_perc", 0.5, **labels),
        *gauge("vllm:cpu_cache_usage_perc", 0.0, **labels),
        *gauge("vllm:gpu_prefix_cache_hit_rate", -1, **labels),
        *counter("vllm:prompt_tokens_total", sum(prompts), **labels),
        *counter("vllm:generation_tokens_total", sum(outputs), **labels),
        *histogram("vllm:request_prompt_tokens", prompts, LENGTH_EDGES, **labels),
        *histogram("vllm:request_generation_tokens", outputs, LENGTH_EDGES, **labels),
        *histogram("vllm:time_to_first_token_seconds", [0.2], SECOND_EDGES, **labels),
        *histogram("vllm:time_per_output_token_seconds", [0.05, 0.05], SECOND_EDGES, **labels),
        *gauge("vllm:spec_decode_draft_acceptance_rate", accepted / draft_tokens, **labels),
        *gauge("vllm:spec_decode_efficiency", 0.5, **labels),
        *counter("vllm:spec_decode_num_accepted_tokens_total", accepted, **labels),
        *counter("vllm:spec_decode_num_draft_tokens_total", draft_tokens, **labels),
        *counter("vllm:spec_decode_num_emitted_tokens_total", emitted, **labels),
    ]


def sglang(*, ranks: int = 1, length: float | None = None) -> list[str]:
    """SGLang: tensor-parallel ranks repeat the same gauges; no histogram of lengths."""
    rows: list[str] = []
    for rank in range(ranks):
        labels = {"model_name": MODEL, "engine_type": "unified", "tp_rank": str(rank), "pp_rank": "0"}
        rows += [*gauge("sglang:num_running_reqs", 12, **labels), *gauge("sglang:num_queue_reqs", 3, **labels),
                 *gauge("sglang:token_usage", 0.4, **labels), *gauge("sglang:cache_hit_rate", 0.1, **labels)]
        if length is not None:
            rows += gauge("sglang:spec_accept_length", length, **labels)
    rows += counter("sglang:prompt_tokens_total", 4000, model_name=MODEL)
    rows += counter("sglang:generation_tokens_total", 2000, model_name=MODEL)
    rows += histogram("sglang:time_to_first_token_seconds", [0.05] * 10, SECOND_EDGES, model_name=MODEL)
    rows += histogram("sglang:e2e_request_latency_seconds", [2.0] * 10, SECOND_EDGES, model_name=MODEL)
    return rows
