"""Start-up logs are read as they stand, and the memory plan is compared with them. The logs here are synthetic."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.memory_logs import compare, fit, main, summary
from benchmarks.startup_log import logged_starts

PREFIX = "\x1b[1;36m(EngineCore pid=7)\x1b[0;0m INFO 01-01 00:00:00 "


def log(
    *,
    version: str = "0.24.0",
    model: str = "Qwen/Qwen3-8B",
    arguments: str = "{'model': 'Qwen/Qwen3-8B'}",
    speculative: str = "None",
    available: str | None = "50.00",
    tokens: str = "364,080",
    concurrency: str = "8.89",
    runner: str = "gpu_model_runner.py:1",
) -> str:
    lines = [
        "INFO 01-01 00:00:00 [api_utils.py:1] non-default args: " + arguments,
        "INFO 01-01 00:00:00 [scheduler.py:1] Chunked prefill is enabled with max_num_batched_tokens=8192.",
        PREFIX + f"[core.py:1] Initializing a V1 LLM engine (v{version}) with config: model='{model}', "
        f"speculative_config={speculative}, tokenizer='{model}', dtype=torch.bfloat16, max_seq_len=40960, "
        "tensor_parallel_size=1, enforce_eager=False, kv_cache_dtype=auto, enable_prefix_caching=True, "
        "compilation_config={'cudagraph_capture_sizes': [1, 2, 4, 512], 'max_cudagraph_capture_size': 512}",
        PREFIX + f"[{runner}] Model loading took 15.27 GiB memory and 4.0 seconds",
    ]
    if available is not None:
        lines += [
            PREFIX + f"[gpu_worker.py:1] Available KV cache memory: {available} GiB",
            PREFIX + f"[kv_cache_utils.py:1] GPU KV cache size: {tokens} tokens",
            PREFIX + f"[kv_cache_utils.py:2] Maximum concurrency for 40,960 tokens per request: {concurrency}x",
        ]
    return "\n".join(lines) + "\n"


def test_a_start_is_read_through_colours_and_worker_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "synthetic_h100.log"
    path.write_text(log(speculative="SpeculativeConfig(method='eagle3', model='some/head', num_spec_tokens=2)"))
    (start,) = logged_starts(path)
    assert (start.version, start.model, start.method, start.draft, start.k) == (
        "0.24.0", "Qwen/Qwen3-8B", "eagle3", "some/head", 2)  # fmt: skip
    assert (start.available_gib, start.kv_tokens, start.max_concurrency, start.weights_gib) == (
        50.0, 364080, 8.89, 15.27)  # fmt: skip
    assert (start.batched_tokens, start.max_model_len, start.captured_tokens, start.runner) == (8192, 40960, 512, "v1")


def test_several_starts_in_one_file_keep_their_own_arguments(tmp_path: Path) -> None:
    path = tmp_path / "runs.log.gz"
    second = log(arguments="{'model': 'x', 'max_num_seqs': 32, 'gpu_memory_utilization': 0.8}", available="10.00")
    with gzip.open(path, "wt") as stream:
        stream.write(log() + "script output\n" + second)
    first, other = logged_starts(path)
    assert (first.available_gib, other.available_gib) == (50.0, 10.0)
    assert (first.max_num_seqs, other.max_num_seqs) == (None, 32)
    assert other.utilization == 0.8


def test_tokens_and_concurrency_agree_with_the_log_where_it_names_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "synthetic_h100.log"
    # 50 GiB in blocks of 36 layers x 4096 bytes x 16 tokens: 22,755 blocks.
    path.write_text(log(tokens="364,080", concurrency="8.89"))
    (start,) = logged_starts(path)
    one = compare(start, None, {})
    assert one.tokens == 364080
    assert one.concurrency == pytest.approx(8.89, abs=0.005)
    assert one.gpu == "H100 SXM5 80GB"
    assert one.available_gib is not None
    assert 40 < one.available_gib < 60


def test_hidden_states_that_are_written_out_take_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.log"
    arguments = "{'draft_model_config': {'hf_config': {'eagle_aux_hidden_state_layer_ids': [2, 18, 33, 36]}}}"
    spec = "SpeculativeConfig(method='extract_hidden_states', model=None, num_spec_tokens=1)"
    path.write_text(log(version="0.20.0", arguments=arguments, speculative=spec))
    (start,) = logged_starts(path)
    assert start.hidden_state_layers == 4
    assert compare(start, None, {}).tokens == 50 * 2**30 // ((36 * 4096 + 4 * 4096 * 2) * 16) * 16


def test_a_model_that_nobody_knows_is_listed_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.log"
    path.write_text(log(model="/models/target"))
    (start,) = logged_starts(path)
    assert compare(start, None, {}).missing == "no shape of /models/target"
    assert compare(start, None, {"/models/target": "Qwen/Qwen3-8B"}).tokens == 364080


def test_a_start_that_failed_before_its_kv_line_counts_in_no_error(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.log"
    path.write_text(log(available=None))
    (start,) = logged_starts(path)
    found = summary([compare(start, "H100", {})])
    assert found["starts"] == 1
    assert found["tokens"] == {"n": 0, "median": None, "largest": None}


def test_the_command_prints_table_summary_and_factors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "synthetic_h100.log").write_text(log())
    (tmp_path / "notes.md").write_text("no log\n")
    assert main([str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["summary"]["tokens"] == {"n": 1, "median": 0.0, "largest": 0.0}
    assert main([str(tmp_path), "--fit"]) == 0
    assert "tokens: n 1, median 0.00 %" in capsys.readouterr().out


def test_a_folder_without_logs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no start-up lines" in capsys.readouterr().err


def test_the_fit_of_nothing_is_empty() -> None:
    assert fit([]) == {}


def test_the_smallest_of_the_workers_decides(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.log"
    second = PREFIX + "[gpu_worker.py:1] Available KV cache memory: 49.50 GiB\n"
    path.write_text(log() + second + PREFIX + "[kv_cache_utils.py:1] GPU KV cache size: 360,000 tokens\n")
    (start,) = logged_starts(path)
    assert (start.available_gib, start.kv_tokens) == (49.5, 360000)


def test_the_older_engines_lines_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.log"
    path.write_text(
        "INFO [llm_engine.py:1] Initializing a V0 LLM engine (v0.8.5) with config: model='Qwen/Qwen3-8B', "
        "speculative_config=None, max_seq_len=4096, tensor_parallel_size=1, enforce_eager=True, kv_cache_dtype=auto, \n"
        "INFO [worker.py:1] the current vLLM instance can use total_gpu_memory (79.10GiB) x gpu_memory_utilization "
        "(0.90) = 71.19GiB\nmodel weights take 15.27GiB; non_torch_memory takes 0.15GiB; PyTorch activation peak "
        "memory takes 1.40GiB; the rest of the memory reserved for KV Cache is 54.37GiB.\n"
        "INFO [executor_base.py:1] # cuda blocks: 24745, # CPU blocks: 1820\n"
        "INFO [executor_base.py:2] Maximum concurrency for 4096 tokens per request: 96.66x\n"
    )
    (start,) = logged_starts(path)
    assert (start.weights_gib, start.available_gib, start.kv_tokens) == (15.27, 54.37, 24745 * 16)
    assert start.total_gib == 79.10
    one = compare(start, None, {})
    assert abs(one.error("tokens") or 0.0) < 1e-3
    assert abs(one.error("concurrency") or 0.0) < 1e-3
