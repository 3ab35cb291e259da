"""A real vLLM server on loopback, ended with every process it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from probes.trial.two_servers import free_port

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 480
SERVE = ("-m", "tests.engine.vllm_serve", "serve")
"""The `vllm serve` of this engine, by its own command line."""
API_SERVER = ("-m", "vllm.entrypoints.openai.api_server")
"""The same server without that command line, which is how the CPU build is started."""


@dataclass
class Server:
    """A server that answers; `usages` holds what it said of each answer's tokens."""

    url: str
    model: str
    process: subprocess.Popen[bytes]
    usages: list[dict[str, Any]] = field(default_factory=list)

    def complete(self, prompt: str, max_tokens: int = 40) -> None:
        """One greedy answer of exactly `max_tokens` tokens."""
        answer = httpx.post(f"{self.url}/v1/completions", timeout=120, trust_env=False, json={
            "model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True})
        assert answer.status_code == 200, answer.text
        self.usages.append(answer.json()["usage"])

    @contextmanager
    def traffic(self, prompts: Sequence[str]) -> Iterator[None]:
        """As many requests at once as there are prompts, until the body ends."""
        stop = threading.Event()

        def send(prompt: str) -> None:
            while not stop.is_set():
                self.complete(prompt)

        with ThreadPoolExecutor(len(prompts)) as pool:
            senders = [pool.submit(send, prompt) for prompt in prompts]
            try:
                yield
            finally:
                stop.set()
        for sender in senders:
            sender.result()

    def stop(self) -> None:
        """Ask it to end, and see that its engine, a process of its own, ended too."""
        if self.process.poll() is not None:
            return
        started = psutil.Process(self.process.pid).children(recursive=True)
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        _, alive = psutil.wait_procs(started, timeout=20)
        for process in alive:
            process.kill()
        assert not alive, "the server left processes of its own behind"


@contextmanager
def serving(command: Sequence[str], config: Path, model: str, env: Mapping[str, str]) -> Iterator[Server]:
    """The server that `command` (SERVE or API_SERVER) makes of a config file; its log lies beside the file."""
    port = free_port()
    log = config.with_suffix(".log")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **env}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)],
            stdout=output, stderr=output, env=environment, cwd=config.parent, start_new_session=True)
    server = Server(f"http://127.0.0.1:{port}", model, process)
    try:
        _wait_until_ready(server, log)
        yield server
    finally:
        server.stop()


def _wait_until_ready(server: Server, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{server.url}/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    pytest.fail("the server did not get ready; its last lines:\n" + log.read_text(errors="replace")[-2000:])
