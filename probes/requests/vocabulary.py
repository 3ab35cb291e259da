"""The names that logs use for the same thing. A format states only where it differs from these."""

from __future__ import annotations

from probes.requests.shapes import Head, Place, Places


def _places(text: str) -> tuple[Place, ...]:
    """`name` or `name:unit`, separated by blanks; `~` stands for a blank inside a name."""
    found = []
    for word in text.split():
        name, _, unit = word.partition(":")
        found.append(Place(name.replace("~", " "), unit or None))  # type: ignore[arg-type]
    return tuple(found)


VOCABULARY: Places = {
    "arrival": _places(
        "arrival_s:s arrival_ms:ms arrival_time_s:s arrival_time_ns:ns arrival_time_ms:ms arrival_time arrival_ts "
        "arrival_timestamp arrived_at arrival "
        "request_start_time request_start_ns:ns start_time_ns:ns start_time_ms:ms start_time startTime start_ts "
        "started_at start submit_time sent_at send_time request_time requested_at queued_at timestamp_ms:ms "
        "timestamp_ns:ns timestamp ts time datetime date created_at created time_iso8601 @timestamp "
        "request_created_at start_timestamp submitted_at tstamp"
    ),
    "end": _places(
        "end_time_ns:ns end_time_ms:ms request_end_time request_end_ns:ns end_time endTime end_ts ended_at "
        "finished_at finish_time completed_at completion_time end"
    ),
    "queued": _places("queued_ts queued_time"),
    "scheduled": _places("scheduled_ts scheduled_time first_scheduled_time"),
    "first": _places("first_token_ts first_token_time completionStartTime completion_start_time"),
    "last": _places("last_token_ts last_token_time"),
    "latency": _places(
        "latency_s latency_seconds latency_ms:ms e2e_latency_s e2e_latency_ms:ms e2e_latency e2e_s e2e_ms:ms "
        "e2el_ms:ms e2el total_time_s total_time_ms:ms total_latency_s total_latency_ms:ms duration_s duration_ms:ms "
        "response_time_s response_time_ms:ms request_latency_s request_latency_ms:ms elapsed_s elapsed_ms:ms "
        "elapsed_time Elapsed~time request_duration_ms:ms end_to_end_latency_s end_to_end_latency_ms:ms "
        "e2e_latency_seconds latency duration"
    ),
    "ttft": _places(
        "ttft_s ttft_seconds time_to_first_token_seconds "
        "ttft_ms:ms time_to_first_token_s time_to_first_token_ms:ms time_to_first_token ttft "
        "first_token_latency_s first_token_latency_ms:ms first_chunk_time"
    ),
    "tpot": _places(
        "tpot_s tpot_ms:ms tpot_s_per_token time_per_output_token_ms:ms itl_s itl_ms:ms inter_token_latency_ms:ms "
        "inter_token_latency_s tpot"
    ),
    "prompt": _places(
        "prompt_tokens input_tokens context_tokens ContextTokens num_prefill_tokens num_prompt_tokens "
        "num_input_tokens input_length prompt_length prompt_len input_len in_len input_toks prompt_toks p_tokens "
        "Request~tokens request_tokens in_tokens isl prefill_tokens prompt_token_count input_token_count "
        "number_input_tokens tokens_prompt n_prompt_tokens n_input_tokens prompt_tokens_count "
        "input_usage prompt_eval_count input.inputTokenCount usageMetadata.promptTokenCount "
        "usage.prompt_tokens usage.input_tokens"
    ),
    "output": _places(
        "completion_tokens output_tokens generated_tokens GeneratedTokens num_decode_tokens num_generation_tokens "
        "num_completion_tokens num_output_tokens output_length completion_length response_length generation_length "
        "output_len completion_len gen_len output_toks completion_toks d_tokens Response~tokens response_tokens "
        "out_tokens osl decode_tokens completion_token_count output_token_count number_output_tokens "
        "tokens_completion n_completion_tokens n_output_tokens completion_tokens_count output_tokens_count "
        "output_usage eval_count output.outputTokenCount usageMetadata.candidatesTokenCount "
        "usage.completion_tokens usage.output_tokens"
    ),
    "cached": _places(
        "cached_tokens num_cached_tokens usage.prompt_tokens_details.cached_tokens cache_read_input_tokens"
    ),
    "running": _places("running_req_count running_requests num_running_requests"),
    "model": _places("model model_name model_id model_hf served_model gen_ai.request.model"),
    "id": _places("request_id requestId req_id trace_id custom_id"),
    "status": _places("status_code http_status status"),
    "temperature": _places("temperature sampling_params.temperature"),
}


def has_field(head: Head, field: str) -> bool:
    """Whether a file has a column for it under one of these names."""
    return any(head.has(place.path) for place in VOCABULARY[field])


def has_counts(head: Head) -> bool:
    """Whether it counts the tokens of prompts and of outputs."""
    return has_field(head, "prompt") and has_field(head, "output")
