"""No process and no scratch folder outlives the client, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]

LEADER = """
import os, subprocess, sys, time
from probes.trial.child import die_with_parent
from probes.trial.group_watch import watch_group
watch_group(int(sys.argv[3]), int(sys.argv[4]), sys.argv[2])
die_with_parent(int(sys.argv[1]))
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), grandchild.pid, flush=True)
time.sleep(600)
"""

CLIENT = """
import os, subprocess, sys, time
reads, ours = os.pipe()
theirs, writes = os.pipe()
leader = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2], str(reads), str(writes)],
                          start_new_session=True, pass_fds=(reads, writes))
os.close(reads)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("victim", ["client", "leader"])
def test_whoever_is_killed_the_grandchildren_go_too(tmp_path: Path, victim: str) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    client = subprocess.Popen([sys.executable, "-c", CLIENT, LEADER, str(scratch)], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert client.stdout is not None
    try:
        leader, grandchild = map(int, client.stdout.readline().split())
        below = psutil.Process(client.pid).children(recursive=True)
        assert {leader, grandchild} < {process.pid for process in below}, "and the watcher"
        os.kill(client.pid if victim == "client" else leader, signal.SIGKILL)
        gone = [process for process in below if process.pid != leader]
        assert psutil.wait_procs(gone, timeout=30)[1] == []
        assert scratch.exists() == (victim == "leader"), "the folder is the client's while it lives"
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
