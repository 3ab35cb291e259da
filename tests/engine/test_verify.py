"""`verify` against a real server that runs an emitted config: real counters held against a real record."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from advisor.advice import advise
from advisor.cli.gathering import gather
from advisor.emit.vllm_config import emit
from advisor.record import Record
from profiles.deployment import Deployment
from tests.cli.shell import run

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

K = 3
PROMPTS = (
    "Count: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3,",
    "a b c d e f g a b c d e f g a b c d e f g a b c d e f g a b",
)


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
    url: str
    model: str
    record: Record

    def complete(self, prompt: str) -> None:
        httpx.post(f"{self.url}/v1/completions", timeout=120, trust_env=False, json={
            "model": self.model, "prompt": prompt, "max_tokens": 40, "temperature": 0,
            "ignore_eos": True}).raise_for_status()

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Two requests at a time, until the body ends."""
        stop = threading.Event()

        def send(prompt: str) -> None:
            while not stop.is_set():
                self.complete(prompt)

        with ThreadPoolExecutor(len(PROMPTS)) as pool:
            senders = [pool.submit(send, prompt) for prompt in PROMPTS]
            try:
                yield
            finally:
                stop.set()
        for sender in senders:
            sender.result()


@pytest.fixture
def served(cpu_pair: Any, tmp_path: Path) -> Iterator[Served]:
    model = str(cpu_pair.draft)
    record = record_with_speculation_on(model)
    config, log = tmp_path / "vllm.yaml", tmp_path / "server.log"
    config.write_text(record.emitted.vllm_yaml)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = {**os.environ, **record.emitted.env, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--config", str(config), "--host",
             "127.0.0.1", "--port", str(port)],
            stdout=stream, stderr=stream, env=environment, start_new_session=True)
    found = Served(f"http://127.0.0.1:{port}", model, record)
    try:
        _wait_until_ready(server, found.url, log)
        yield found
    finally:
        _stop(server)


def _wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 480
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    pytest.fail("the server did not get ready; its last lines:\n" + log.read_text(errors="replace")[-2000:])


def _stop(server: subprocess.Popen[bytes]) -> None:
    """The server with its engine process."""
    if server.poll() is not None:
        return
    children = psutil.Process(server.pid).children(recursive=True)
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)
    _, alive = psutil.wait_procs(children, timeout=20)
    for process in alive:
        process.kill()


def verified(capsys: pytest.CaptureFixture[str], record: Record, path: Path, url: str,
             window: str) -> tuple[int, dict[str, Any]]:
    path.write_text(record.model_dump_json())
    code, out, _ = run(capsys, "verify", path, url, "--window", window, "--format", "json", "-q")
    return code, json.loads(out)


def test_a_real_server_is_held_against_the_record_its_config_came_from(served: Served, tmp_path: Path,
                                                                       capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    idle_code, idle = verified(capsys, served.record, path, served.url, "1s")
    verdicts = {one["code"]: one["verdict"] for one in idle["promises"]}
    assert (verdicts["engine"], verdicts["model"], verdicts["speculation"]) == ("held",) * 3
    assert (verdicts["k"], verdicts["acceptance"]) == ("noted", "undecided"), "nothing was drafted yet"
    assert (idle_code, idle["verdict"]) == (3, "undecided")

    with served.traffic():
        busy_code, busy = verified(capsys, served.record, path, served.url, "10s")
        other = served.record.decision.model_copy(update={"k": 2})
        other_code, shorter = verified(capsys, served.record.model_copy(update={"decision": other}), path, served.url,
                                       "1s")
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
