"""What the checklist says of memory is what the advice's plan says, beyond the plan's own error."""

from __future__ import annotations

import re

import pytest

from advisor.checks.examples import subject_of
from advisor.checks.finding import Finding
from advisor.checks.rule import Example
from advisor.checks.run import check
from tests.advisor.cost.test_window import plan, small_card

PAIR = ("model: meta-llama/Llama-3.1-8B-Instruct\ngpu-memory-utilization: 0.9\n{}speculative-config:\n"
        "  method: draft_model\n  model: meta-llama/Llama-3.2-1B-Instruct\n  num_speculative_tokens: 3\n")
ALONE = "model: meta-llama/Llama-3.1-8B-Instruct\ngpu-memory-utilization: 0.9\n{}"


def found(config: str, gpu: str = "RTX 4090", gpus: int = 1, code: str = "SPD401", **env: str) -> list[Finding]:
    return [f for f in check(subject_of(Example(config, gpu=gpu, gpus=gpus, env=env))).findings if f.code == code]


def room(config: str = PAIR) -> int:
    """Longest request that fits, as the finding names it."""
    (said,) = found(config.format(""))
    match = re.search(r"room for about (\d+) tokens", said.message)
    assert match is not None
    return int(match[1])


def test_a_model_window_that_memory_does_not_hold_is_an_error_where_none_is_stated() -> None:
    (said,) = found(PAIR.format(""))
    assert (said.severity, said.where) == ("error", "model")
    assert "131072" in said.message
    assert "does not start" in said.message
    assert "max-model-len of at most" in said.remedy


def test_a_server_without_speculation_is_held_to_the_same() -> None:
    (said,) = found(ALONE.format(""))
    assert said.severity == "error"
    assert room(ALONE) > room(PAIR)


def test_what_the_plan_of_the_advice_holds_is_what_the_finding_names() -> None:
    stated = small_card(runner="v1", engine={"runner": "v1"})
    planned = plan(stated).max_model_len_with
    (said,) = found(PAIR.format(""), VLLM_USE_V2_MODEL_RUNNER="0")
    assert planned is not None
    assert f"about {planned} tokens" in said.message


@pytest.mark.parametrize("value", ["auto", "-1"])
def test_a_window_that_the_engine_fits_by_itself_is_no_fault(value: str) -> None:
    assert found(PAIR.format(f"max-model-len: {value}\n")) == []


def test_within_the_plans_error_it_is_a_warning_and_below_it_nothing() -> None:
    longest = room()
    assert found(PAIR.format(f"max-model-len: {longest}\n")) == []
    (near,) = found(PAIR.format(f"max-model-len: {round(1.05 * longest)}\n"))
    assert (near.severity, near.where) == ("warn", "max-model-len")
    assert "may not start" in near.message
    (far,) = found(PAIR.format(f"max-model-len: {round(1.3 * longest)}\n"))
    assert far.severity == "error"


@pytest.mark.parametrize("option", ["cpu-offload-gb: 8", "quantization: fp8", "decode-context-parallel-size: 2"])
def test_weights_or_cache_that_lie_elsewhere_are_not_judged(option: str) -> None:
    assert found(PAIR.format(f"{option}\n")) == []


def test_weights_that_do_not_load_at_all_are_said_before_any_window() -> None:
    (said,) = found("model: meta-llama/Llama-3.1-70B-Instruct\nmax-model-len: 8192\n", gpu="H100")
    assert said.severity == "error"
    assert "Weights of the target take" in said.message


def test_experts_are_spread_over_data_parallel_ranks_too() -> None:
    wide = "model: deepseek-ai/DeepSeek-V3\ndata-parallel-size: 8\nenable-expert-parallel: true\nmax-model-len: 8192\n"
    assert [f for f in found(wide, gpu="H200", gpus=8) if f.severity == "error"] == []


FEW = "max-model-len: 8192\nnum-gpu-blocks-override: 20\n"


def test_a_small_override_of_the_blocks_is_an_error_that_names_it() -> None:
    (said,) = found(ALONE.format(FEW), gpu="H100")
    assert (said.severity, said.where) == ("error", "num-gpu-blocks-override")
    assert "num-gpu-blocks-override 20 has room for about 304 tokens" in said.message
    assert "the server does not start" in said.message
    assert "a larger num-gpu-blocks-override, or none" in said.remedy


def test_before_the_start_looked_at_the_override_a_long_request_waits_for_ever() -> None:
    subject = subject_of(Example(ALONE.format(FEW), "0.20.0", "H100", 1))
    (said,) = [f for f in check(subject).findings if f.code == "SPD401"]
    assert said.severity == "error"
    assert "vLLM 0.20.0 starts all the same, and a longer request waits for ever" in said.message


def test_a_cache_larger_than_the_card_runs_out_of_memory_and_the_option_is_named() -> None:
    (said,) = found(ALONE.format("max-model-len: 4096\nkv-cache-memory-bytes: 60G\n"), gpu="L40S")
    assert (said.severity, said.where) == ("error", "kv-cache-memory-bytes")
    assert "asks for 60.0 GiB of KV cache" in said.message
    assert "out of memory while it starts" in said.message


def test_stated_sizes_that_fit_are_no_fault() -> None:
    assert found(PAIR.format("max-model-len: 4096\nkv-cache-memory-bytes: 4G\n"), gpu="L40S") == []
    assert found(PAIR.format("max-model-len: 4096\nnum-gpu-blocks-override: 2048\n"), gpu="L40S") == []


def test_a_smaller_draft_is_offered_only_where_one_could_help() -> None:
    large = "model: meta-llama/Llama-3.1-70B-Instruct\n{}speculative-config:\n  method: draft_model\n" \
            "  model: meta-llama/Llama-3.2-1B-Instruct\n  num_speculative_tokens: 3\n"
    (weights,) = found(large.format("max-model-len: 4096\n"), gpu="H100")
    assert "Weights of target and draft" in weights.message
    assert "draft" not in weights.remedy
    # The model's own window does not fit without a draft either.
    (window,) = found(PAIR.format(""))
    assert "draft" not in window.remedy
    longest = room()
    (between,) = found(PAIR.format(f"max-model-len: {round(1.3 * longest)}\n"))
    assert found(ALONE.format(f"max-model-len: {round(1.3 * longest)}\n")) == []
    assert "a smaller draft" in between.remedy


def test_heads_are_not_offered_smaller_ones() -> None:
    head = ("model: Qwen/Qwen3-8B\ngpu-memory-utilization: 0.9\nmax-model-len: {}\nspeculative-config:\n"
            "  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
    plain = "model: Qwen/Qwen3-8B\ngpu-memory-utilization: 0.9\nmax-model-len: {}\n"
    alone = next(length for length in range(40000, 4000, -500) if not found(plain.format(length)))
    (said,) = found(head.format(alone))
    assert "a smaller draft" not in said.remedy


def test_a_loss_of_kv_room_says_where_it_goes_and_whose_bytes_are_whose() -> None:
    (said,) = found(PAIR.format("max-model-len: 4096\n"), gpu="L40S", code="SPD402", VLLM_USE_V2_MODEL_RUNNER="0")
    assert ("The draft takes 2.3 GiB of weights and 32 KiB of KV a token (the target itself: 128 KiB)"
            in said.message)
