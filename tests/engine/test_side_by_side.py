"""Two real `vllm serve` on loopback, compared and ended; also when one is killed, or the one who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from probes.trial.engine_errors import EngineFailure
from probes.trial.prompts import load_prompts
from probes.trial.servers import side_by_side
from profiles.deployment import Candidate, Deployment
from profiles.evidence import ArmStatus, PairedBlock
from profiles.workload import Task
from tests.engine.trial_setup import Watch

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[2]
NGRAM = Candidate.model_validate(
    {"method": "ngram", "k": [3], "settings": {"prompt_lookup_max": 3, "prompt_lookup_min": 1}})


def deployment(model: str, **engine: Any) -> Deployment:
    return Deployment.model_validate({
        "target": model, "hardware": {"gpu": "cpu", "memory_gib": 2}, "workload": {"tasks": ["code"]},
        "engine": {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 768, "max_num_seqs": 4, **engine}})


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def after(pairs: int) -> Callable[[Sequence[PairedBlock]], str | None]:
    return lambda seen: "enough" if len(seen) >= pairs else None


def test_two_servers_are_compared_and_a_killed_one_keeps_what_was_measured(cpu_pair: Any) -> None:
    watch = Watch()
    alive: set[psutil.Process] = set()

    def kill_the_speculative_one(seen: Sequence[PairedBlock]) -> str | None:
        alive.update(descendants(os.getpid()))
        if len(seen) == 2:
            max(psutil.Process().children(), key=lambda child: child.create_time()).kill()
        return None

    evidence = side_by_side(
        deployment(str(cpu_pair.draft)), ROOT, NGRAM, 3, load_prompts(None, [Task.CODE])[:12], 2,
        kill_the_speculative_one, watch, gpu=None, max_tokens=16, budget_s=1200)

    assert len(alive) >= 4, "each server is at least a front and an engine process"
    assert evidence.stopped == "a server failed"
    assert evidence.comparison is not None
    assert len(evidence.comparison.pairs) == 2
    assert all(0 < pair.speculative_tokens <= 32 for pair in evidence.comparison.pairs)
    baseline, speculative = evidence.arms
    assert (baseline.status, speculative.status) == (ArmStatus.DONE, ArmStatus.CRASHED)
    assert "SIGKILL" in str(speculative.error)
    assert len(speculative.requests) == 4, "each request's own counts, as this release tells them"
    assert sum(r.drafted[0] for r in speculative.requests) > 0
    assert all(a <= d for r in speculative.requests for a, d in zip(r.accepted, r.drafted, strict=True))
    assert baseline.start_s is not None
    assert evidence.engine_s > baseline.start_s
    assert [s for s in watch.stages if s.startswith("starting")] == [
        "starting the baseline server", "starting the speculative server"]
    assert psutil.wait_procs(alive, timeout=30)[1] == [], "nothing is left running"


def test_a_refused_start_is_the_engines_own_error_in_one_line(cpu_pair: Any) -> None:
    before = set(descendants(os.getpid()))
    with pytest.raises(EngineFailure, match="the baseline server did not start") as caught:
        side_by_side(deployment(str(cpu_pair.draft), max_model_len=500_000), ROOT, NGRAM, 3,
                     load_prompts(None, [Task.CODE]), 2, after(1), Watch(), gpu=None, budget_s=1200)
    assert "max_model_len" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert set(descendants(os.getpid())) <= before


CLIENT = """
import sys
from pathlib import Path
from probes.trial.two_servers import shares_of, started_pair
from tests.engine.test_side_by_side import NGRAM, deployment

class Saying:
    def update(self, stage, done_s, left_s):
        print(stage, flush=True)
    def note(self, text):
        print(text, flush=True)

stated = deployment(sys.argv[1])
with started_pair(stated, Path("."), NGRAM, 3, shares_of(stated, Path("."), NGRAM, None), Saying()):
    print("both up", flush=True)
"""


def test_a_killed_client_leaves_no_server_behind(cpu_pair: Any) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(cpu_pair.draft)], stdout=subprocess.PIPE, text=True,
                              env=environment, cwd=ROOT)
    assert client.stdout is not None
    try:
        if not any(line.startswith("starting the speculative") for line in client.stdout):
            pytest.fail("the client ended before the second server was started")
        # The first server is up, the second on its way: both must go.
        deadline = time.monotonic() + 60
        while len(psutil.Process(client.pid).children()) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(psutil.Process(client.pid).children()) == 2
        started = descendants(client.pid)
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()
    assert psutil.wait_procs(started, timeout=60)[1] == [], "killed with SIGKILL, the client could not end them itself"
