"""Ctrl-C keeps what was measured, --resume goes on, and a parent killed hard leaves nothing, on the real engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from probes.trial.runner import run_trial
from profiles.errors import InputError
from profiles.evidence import ArmStatus, TrialEvidence
from tests.engine.trial_setup import NGRAM, ROOT, Watch, deployment, plan_of, workers

pytestmark = pytest.mark.engine

DRIVER = """
import signal, sys
from pathlib import Path
# A shell that starts this in the background has it ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {root!r})
from probes.trial.runner import run_trial
from tests.engine.trial_setup import NGRAM, Watch, deployment, plan_of

class Tell(Watch):
    def update(self, stage, done_s, left_s):
        print(stage, flush=True)

evidence = run_trial(plan_of(deployment(Path({target!r}), [NGRAM])), choose=lambda trial: None, stop=lambda pairs: None,
                     progress=Tell(), checkpoint=Path({checkpoint!r}))
Path({result!r}).write_text(evidence.model_dump_json())
"""


class Driver:
    """A trial in a process of its own, whose stages can be waited for."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.checkpoint, self.result = folder / "c.json", folder / "evidence.json"
        script = DRIVER.format(root=str(ROOT), target=str(target), checkpoint=str(self.checkpoint),
                               result=str(self.result))
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "TMPDIR": str(self.temporary)})

    def wait_for(self, stage: str) -> None:
        for line in self.process.stdout:
            if stage in line:
                return
        pytest.fail(f"the trial ended before {stage!r}")

    def end(self) -> None:
        self.process.kill()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture
def driver(cpu_pair, tmp_path):
    driver = Driver(tmp_path, cpu_pair.draft)
    yield driver
    driver.end()


def wait_gone(pids, patience_s=20.0):
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        left = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
        if not left:
            return []
        time.sleep(0.1)
    return left


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on_without_repeating_it(driver, cpu_pair):
    driver.wait_for("ngram max=3 min=1: k 3 load 2")
    children = [worker.pid for worker in workers(driver.process.pid)]
    assert children
    driver.process.send_signal(signal.SIGINT)
    assert driver.process.wait(60) == 0
    assert wait_gone(children) == []
    before = TrialEvidence.model_validate_json(driver.result.read_text())
    assert before.stopped == "interrupted"
    assert [arm.status for arm in before.arms] == [ArmStatus.DONE, ArmStatus.INTERRUPTED]
    assert before.arms[1].requests

    stated = deployment(cpu_pair.draft, [NGRAM])
    watch = Watch()
    after = run_trial(plan_of(stated), choose=lambda trial: None, stop=lambda pairs: None, progress=watch,
                      checkpoint=driver.checkpoint, resume=True)
    assert [arm.status for arm in after.arms] == [ArmStatus.DONE, ArmStatus.DONE]
    assert after.stopped == "complete"
    # The baseline and the finished block were not run again, and nothing counts twice.
    assert not any(stage.startswith("none:") or stage.endswith(": outputs") for stage in watch.stages)
    assert len(after.arms[0].blocks) == len(before.arms[0].blocks)
    owed = plan_of(stated).arms[0].blocks
    assert [(b.k, b.running) for b in after.arms[1].blocks] == [(b.k, b.running) for b in owed]
    assert not driver.checkpoint.exists()


def test_another_plans_checkpoint_is_refused_before_any_engine_starts(cpu_pair, tmp_path):
    checkpoint = tmp_path / "c.json"
    stated = deployment(cpu_pair.draft, [NGRAM])
    from probes.trial.session import Session

    Session(plan_of(stated), Watch(), checkpoint, False).save()
    other = deployment(cpu_pair.draft, [NGRAM], max_tokens=16)
    watch = Watch()
    with pytest.raises(InputError, match="another trial"):
        run_trial(plan_of(other), choose=lambda trial: None, stop=lambda pairs: None, progress=watch,
                  checkpoint=checkpoint, resume=True)
    assert watch.stages == []


def test_a_parent_killed_hard_leaves_no_process_and_no_temporary_file(driver):
    driver.wait_for("no speculation: outputs")
    children = [worker.pid for worker in workers(driver.process.pid)]
    assert children
    driver.process.kill()
    driver.process.wait()
    assert wait_gone(children) == []
    assert os.listdir(driver.temporary) == []
