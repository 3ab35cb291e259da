"""The public demonstration's three parts, answered offline from its example file with one command each."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cli.shell import specadvise

CONTEXT = "--task summarization --output-len 128 --max-model-len 36864 --max-num-seqs 1 --prompt-len"


@cache
def record(flags: str) -> dict[str, Any]:
    with TemporaryDirectory() as out:
        done = specadvise("advise", "examples/demonstration.yaml", *flags.split(), "--offline", "--quiet", "--out", out)
        assert done.returncode in (0, 3), done.stderr
        found: dict[str, Any] = json.loads((Path(out) / "record.json").read_text(encoding="utf-8"))
    return found


def best_gain(flags: str, running: int | None = None) -> float:
    """The best k's speed-up, end to end, at the load decided for or a stated one."""
    found = record(flags)
    load = found["decision"]["running"] if running is None else running
    return max(c["speedup"]["value"] for c in found["candidates"]
               if c["running"] == load and c["candidate"]["method"] != "none")


def test_structured_output_gains_clearly_and_is_turned_on() -> None:
    decision = record("--task json")["decision"]
    assert decision["enable"] is True
    assert decision["speedup_low"] < 1.6 < decision["speedup_high"], "1.6x is what was reported there"


def test_creative_text_gains_less() -> None:
    assert best_gain("--task creative") < best_gain("--task json")


def test_the_longer_the_prompt_the_smaller_the_gain_of_a_short_answer() -> None:
    gains = [best_gain(f"{CONTEXT} {tokens}") for tokens in (8000, 24000, 32000)]
    assert gains == sorted(gains, reverse=True)
    assert record(f"{CONTEXT} 32000")["decision"]["enable"] is not True


def test_the_gain_goes_as_concurrency_rises() -> None:
    flags = "--task mixed --concurrency 32 --gpu-memory-utilization 0.5"
    gains = [best_gain(flags, running) for running in (1, 8, 32, 64)]
    assert gains == sorted(gains, reverse=True)
    assert record(flags)["decision"]["crossover_load"] is not None


@pytest.mark.parametrize("share", ["0.45", "0.50"])
def test_both_services_fit_the_one_gpu_and_the_draft_costs_kv_room(share: str) -> None:
    memory = record(f"--task json --gpu-memory-utilization {share}")["memory"]
    assert memory["fits"] is True
    assert 0 < memory["kv_tokens_with"] < memory["kv_tokens_without"]
    assert 2 * memory["usable_gib"] <= memory["gpu_memory_gib"] + 0.1
