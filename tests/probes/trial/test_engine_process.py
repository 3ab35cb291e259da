"""How the parent notices failing children, and that nothing outlives them. The children here fail on purpose."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from probes.trial.engine_errors import EngineFailure
from probes.trial.engine_process import EngineProcess, child_environment, close_all
from profiles.evidence import ArmStatus

HERE = Path(__file__).parent


@pytest.fixture
def child(monkeypatch):
    """Start a child that fails in the given way; every one is reaped."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))

    def start(fail, **settings):
        return EngineProcess({"fail": fail}, module="failure_injecting_worker", **settings)

    yield start
    close_all()


def gone(pid, patience_s=10.0):
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_a_refusal_carries_the_childs_own_sentence(child):
    with pytest.raises(EngineFailure, match="refused on purpose") as caught:
        child("refuse").start()
    assert caught.value.status is ArmStatus.REFUSED


def test_a_child_that_dies_without_a_word_is_told_by_its_log_without_folders(child):
    with pytest.raises(EngineFailure) as caught:
        child("refuse_silently").start()
    assert str(caught.value) == "OSError: model is no model"


def test_a_crash_during_a_command_is_told_by_the_last_error_line(child):
    process = child("crash")
    process.start()
    with pytest.raises(EngineFailure, match="failed on purpose") as caught:
        process.call("run_block")
    assert caught.value.status is ArmStatus.CRASHED
    assert not process.alive


def test_out_of_memory_during_a_command_has_its_own_status(child):
    process = child("out_of_memory")
    process.start()
    with pytest.raises(EngineFailure) as caught:
        process.call("run_block")
    assert caught.value.status is ArmStatus.OUT_OF_MEMORY


def test_a_block_by_turns_asks_before_each_step_and_gets_the_answer(child):
    process = child("take_turns")
    process.start()
    heard = []

    def turn(event):
        heard.append(event["tokens"])
        return 100.0 + event["tokens"] if event["tokens"] else None

    assert process.call("run_block", turn=turn) == {"told": [None, 101.0, 102.0], "turns": True}
    assert heard == [0, 1, 2]


def test_a_block_goes_a_step_when_told_and_ends_early_when_it_is_interrupted_or_closed(child):
    process = child("take_turns")
    process.start()
    assert process.begin_block()["event"] == "turn"
    assert process.go()["tokens"] == 1
    assert process.interrupt()["told"] == [None, "interrupted", "interrupted"]
    # The next command is not disturbed by what the last one left.
    assert process.begin_block()["tokens"] == 0
    assert [process.go()["event"] for _ in range(3)] == ["turn", "turn", "result"]
    process.begin_block()
    pid = process.pid
    process.close()
    assert gone(pid)


def test_a_process_spawned_ahead_starts_the_engine_it_is_then_told(child):
    process = child("refuse")
    process.spawn()
    pid = process.pid
    process.engine_args = {"fail": "none"}
    process.start()
    assert process.pid == pid
    assert process.call("counters") == {"asked": "counters"}
    waiting = child("none")
    waiting.spawn()
    waiting.close()
    assert gone(waiting.pid)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="engines need 3.11 anyway")
def test_folders_in_the_working_folder_are_not_taken_for_ours(child, tmp_path, monkeypatch):
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "__init__.py").write_text("raise RuntimeError('a folder of the user')")
    monkeypatch.chdir(tmp_path)
    process = child("none")
    process.start()
    assert process.call("counters") == {"asked": "counters"}


def test_silence_is_a_hang_and_the_child_is_ended(child):
    process = child("hang", silence_s=0.5)
    process.start()
    pid = process.pid
    with pytest.raises(EngineFailure, match="no step") as caught:
        process.call("run_block")
    assert caught.value.status is ArmStatus.HUNG
    assert gone(pid)


def test_an_engine_that_never_gets_ready_is_a_hang(child):
    with pytest.raises(EngineFailure, match="not ready") as caught:
        child("hang_at_start", start_timeout_s=0.5).start()
    assert caught.value.status is ArmStatus.HUNG


def test_a_child_killed_from_outside_is_a_crash_that_names_the_signal(child):
    process = child("none")
    process.start()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(EngineFailure, match="SIGKILL") as caught:
        process.call("counters")
    assert caught.value.status is ArmStatus.CRASHED


def test_a_healthy_child_answers_and_its_life_is_counted(child):
    with child("none") as process:
        process.start()
        assert process.call("counters") == {"asked": "counters"}
        assert process.alive
    assert not process.alive
    lived = process.lived_s
    assert 0 < lived == process.lived_s


def test_an_unknown_command_is_an_error_in_words_and_the_child_goes_on(child):
    process = child("none")
    process.start()
    with pytest.raises(EngineFailure, match="unknown command 'dance'"):
        process.call("dance")
    assert process.call("counters") == {"asked": "counters"}


def test_an_interrupt_reaches_a_command_that_is_still_running(child):
    def ctrl_c(steps, tokens):
        raise KeyboardInterrupt

    process = child("wait_for_interrupt")
    process.start()
    with pytest.raises(KeyboardInterrupt):
        process.call("run_block", beat=ctrl_c)
    assert process.interrupt() == {"interrupted": True}


def test_closing_takes_the_childs_own_children_along(child):
    process = child("leave_child")
    process.start()
    process.call("counters")
    grandchild = int(process.log_tail().split()[1])
    assert psutil.pid_exists(grandchild)
    process.close()
    assert gone(grandchild)


def test_a_parent_killed_hard_leaves_no_child(monkeypatch, tmp_path):
    # The real worker, waiting for its first command: it must end with its parent, without any engine.
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\n"
        "from probes.trial import engine_process\n"
        "import subprocess, os, sys\n"
        "r, w = os.pipe(); r2, w2 = os.pipe()\n"
        "p = subprocess.Popen([sys.executable, '-m', 'probes.trial.worker', '--read', str(r), '--write', str(w2),\n"
        "                      '--parent', str(os.getpid())], pass_fds=(r, w2), start_new_session=True)\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)\n")
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[2])}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env)
    try:
        pid = int(parent.stdout.readline())
        time.sleep(0.5)
        assert psutil.pid_exists(pid)
        parent.kill()
        parent.wait()
        assert gone(pid)
    finally:
        parent.kill()
        parent.stdout.close()
        parent.wait()


def test_the_engines_temporary_folder_goes_with_it(child, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    process = child("none")
    process.start()
    folder, = tmp_path.iterdir()
    (folder / "left-by-the-engine").write_text("x")
    process.close()
    assert list(tmp_path.iterdir()) == []


def test_the_child_sees_the_engines_variables_and_no_others():
    seen = child_environment({"VLLM_CPU_KVCACHE_SPACE": "1"}, {
        "PATH": "/bin", "HF_HOME": "/h", "AWS_SECRET_ACCESS_KEY": "x", "CUDA_VISIBLE_DEVICES": "0", "EDITOR": "vi"})
    assert {"PATH", "HF_HOME", "CUDA_VISIBLE_DEVICES", "VLLM_CPU_KVCACHE_SPACE", "PYTHONPATH"} <= set(seen)
    assert not {"AWS_SECRET_ACCESS_KEY", "EDITOR"} & set(seen)
    assert seen["VLLM_NO_USAGE_STATS"] == "1"
