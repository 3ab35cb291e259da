"""The child's end of the conversation (engine_process.py has the other): how every engine child starts, answers, ends.

A child is started as `python -m MODULE --read FD --write FD [--parent PID]` and speaks JSON lines over the two pipes;
its stdout and stderr belong to the libraries it runs. The parent sends commands one at a time:
  {"cmd":"start",...}                 first, once: what the engine is made from
  {"cmd":NAME,"id":..,...}            a command of the module's own
  {"cmd":"go",...}                    the answer to an event that asks for one (`Pipe.ask`)
  {"cmd":"interrupt"}                 the command in progress is to end early and return what it has
  {"cmd":"stop"}                      or closing the pipe: the child and all it started end
The child answers with events:
  {"event":"failed","error":"ValueError: ..."}                           the engine would not start; the child ends
  {"event":"result","id","data"}  or  {"event":"error","id","error":"XError: ..."}
Each module's docstring says what its commands take and give, and which other events it sends (`ready` among them).

Only the standard library is imported here: a child imports its engine when it is told which.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from probes.trial.group_watch import SCRATCH_VARIABLE, watch_group

PR_SET_PDEATHSIG = 1
Engine = TypeVar("Engine")


def die_with_parent(parent: int) -> None:
    """Linux: the kernel ends this process when its parent dies, even by SIGKILL. Elsewhere the closed pipe does."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent and os.getppid() != parent:
            os._exit(1)


def last_line(error: BaseException) -> str:
    """`TypeOfError: message` of the innermost cause that says something, in one line."""
    seen = error
    while seen.__cause__ is not None:
        seen = seen.__cause__
    return " ".join(f"{type(seen).__name__}: {seen}".split())[:2000]


class Pipe:
    """Both ends of the conversation. A thread reads, so that `interrupt` is seen while a command runs."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._in = os.fdopen(read_fd, "r", encoding="utf-8")
        self._out = os.fdopen(write_fd, "w", encoding="utf-8")
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self.interrupt = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._in:
            command = json.loads(line)
            if command["cmd"] == "interrupt":
                self.interrupt.set()
            else:
                self.commands.put(command)
                if command["cmd"] == "stop":
                    return
        # The parent is gone. The watcher sees this process end, takes its group along and removes its files.
        os.kill(os.getpid(), signal.SIGKILL)

    def send(self, event: str, **fields: Any) -> None:
        self._out.write(json.dumps({"event": event, **fields}) + "\n")
        self._out.flush()

    def ask(self, event: str, **fields: Any) -> dict[str, Any] | None:
        """Send an event and wait for the parent's `go`; None once the command in progress is to end early."""
        self.send(event, **fields)
        while not self.interrupt.is_set():
            try:
                answer = self.commands.get(timeout=0.5)
            except queue.Empty:
                continue
            if answer["cmd"] == "go":
                return answer
            # `stop`: for the loop that waits for commands.
            self.commands.put(answer)
            self.interrupt.set()
        return None


def connect() -> Pipe:
    """The pipe that this process's arguments name; from now on the process and its group end when the parent does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--read", type=int, required=True)
    parser.add_argument("--write", type=int, required=True)
    parser.add_argument("--parent", type=int, default=0)
    options = parser.parse_args()
    watch_group(options.read, options.write, os.environ.get(SCRATCH_VARIABLE))
    die_with_parent(options.parent)
    return Pipe(options.read, options.write)


def run_child(start: Callable[[dict[str, Any], Pipe], Engine],
              commands: Mapping[str, Callable[[Engine, dict[str, Any], Pipe], Any]],
              prepare: Callable[[], None] = lambda: None) -> NoReturn:
    """A child's whole life: the engine of the `start` command, then an answer to each of `commands` until `stop`.

    `prepare()` is what takes long and is the same whichever engine is wanted: it does not wait for the command.
    `start(command, pipe)` returns the engine and sends `ready` itself, with what the parent wants to know of it.
    `commands[name](engine, command, pipe)` returns the data of one answer.
    """
    pipe = connect()
    try:
        prepare()
        command = pipe.commands.get()
        if command["cmd"] == "stop":
            os._exit(0)
        engine = start(command, pipe)
    except BaseException as error:
        traceback.print_exc()
        pipe.send("failed", error=last_line(error))
        os._exit(1)
    while (command := pipe.commands.get())["cmd"] != "stop":
        pipe.interrupt.clear()
        try:
            if command["cmd"] not in commands:
                raise ValueError(f"unknown command {command['cmd']!r}")
            data = commands[command["cmd"]](engine, command, pipe)
        except Exception as error:
            traceback.print_exc()
            pipe.send("error", id=command.get("id"), error=last_line(error))
        else:
            pipe.send("result", id=command.get("id"), data=data)
    # Libraries' own teardown may wait on threads and devices: everything worth keeping has been sent.
    sys.stdout.flush()
    os._exit(0)
