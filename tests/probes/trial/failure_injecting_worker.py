"""NOT an engine: a child of the trial's kind that fails on purpose. Never a source of measurements.

The first engine argument `fail` says how: refuse | refuse_silently | crash | out_of_memory | hang | hang_at_start |
leave_child | wait_for_interrupt | take_turns | none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from probes.trial.child import Pipe, run_child


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def start(command: dict[str, Any], pipe: Pipe) -> str:
    fail: str = command["engine_args"]["fail"]
    if fail == "refuse":
        raise ValueError("this configuration is refused on purpose")
    if fail == "refuse_silently":
        _say("Traceback (most recent call last):\nOSError: /some/where/model is no model\n")
        os._exit(1)
    if fail == "hang_at_start":
        time.sleep(600)
    if fail == "leave_child":
        _say(f"child {subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid}\n")
    pipe.send("ready", start_s=0.0, k_control="fixed", max_model_len=100, repairs=[])
    return fail


def answer(fail: str, command: dict[str, Any], pipe: Pipe) -> dict[str, Any]:
    if fail == "crash":
        _say("RuntimeError: the step failed on purpose\n")
        os._exit(7)
    if fail == "out_of_memory":
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
    if fail == "hang":
        time.sleep(600)
    if fail == "wait_for_interrupt":
        pipe.send("beat", id=command["id"], steps=1, tokens=1)
        return {"interrupted": pipe.interrupt.wait(60)}
    if fail == "take_turns":
        told = []
        for step in range(3):
            answer = pipe.ask("turn", id=command["id"], own_s=0.1 * step, tokens=step, row=None)
            told.append(answer.get("ms") if answer is not None else "interrupted")
        return {"told": told, "turns": command.get("turns", False)}
    return {"asked": command["cmd"]}


if __name__ == "__main__":
    run_child(start, {"counters": answer, "run_block": answer})
