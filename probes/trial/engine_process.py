"""The parent's end of an engine child: starts it, talks to it, notices when it refuses, crashes or hangs, reaps it.

Nothing outlives the parent: the child leads a process group of its own that is killed on close, at exit and on any
exception; should the parent itself be killed, the kernel (Linux) and the closed pipe (everywhere) end the child, and
its watcher the rest of the group. The child's output goes to a file without a name; what the engine leaves in its
temporary folder (rendezvous files, compiler caches) lies in one of its own that is removed with it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from probes.trial.engine_errors import EngineFailure, classify
from probes.trial.group_watch import SCRATCH_VARIABLE
from profiles.evidence import ArmStatus

_KEPT_VARIABLES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "PYTHONPATH", "CC", "CXX", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
})
_KEPT_PREFIXES = ("LC_", "XDG_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "VLLM_",
                  "TORCH", "PYTORCH_", "TRITON_", "NCCL_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "NUMBA_",
                  "SSL_CERT_")
_LOG_TAIL_BYTES = 256 * 1024
_CLOSE_GRACE_S = 3.0

Turn = Callable[[dict[str, Any]], "float | None"]
"""Called with a block's `turn` event, while it waits: what a step of another engine took meanwhile, or None."""

_live: set[EngineProcess] = set()


@atexit.register
def close_all() -> None:
    """Reap every child still alive; also called on the way out of a failed trial."""
    for process in list(_live):
        process.kill()


def child_environment(extra: Mapping[str, str], parent: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the engine child gets to see: a stated list of variables, then the deployment's own on top."""
    source = os.environ if parent is None else parent
    kept = {name: value for name, value in source.items()
            if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)}
    root = str(Path(__file__).resolve().parents[2])
    kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
    # `python -m` would look in the working folder first: a checkout of vLLM, or a folder named like one of ours.
    kept.update({"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"})
    kept.update(extra)
    return kept


class EngineProcess:
    """One engine start. Use as a context manager, or call `close`."""

    def __init__(self, engine_args: Mapping[str, Any], *, env: Mapping[str, str] | None = None, repair: bool = False,
                 hooks: bool = True, start_timeout_s: float = 900.0, silence_s: float = 120.0,
                 module: str = "probes.trial.worker") -> None:
        """`silence_s`: seconds without a line, while a command runs, after which the engine counts as hung."""
        self.engine_args = dict(engine_args)
        self.env = dict(env or {})
        self.repair = repair
        self.hooks = hooks
        self.start_timeout_s = start_timeout_s
        self.silence_s = silence_s
        self.module = module
        self.info: dict[str, Any] = {}
        """The `ready` event of the child."""
        self.start_s = 0.0
        """What the start took."""
        self.accounted = False
        """Its seconds are already part of an arm's `engine_s`."""
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None
        self._scratch: str | None = None
        self._buffer = b""
        self._serial = 0
        self._began = 0.0
        self._ended: float | None = None
        self._to = self._from = -1

    # --- life --------------------------------------------------------------------------------------------------------
    def spawn(self) -> None:
        """Start the child, which imports its engine and then waits to be told which one to start."""
        child_reads, self._to = os.pipe()
        self._from, child_writes = os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        env = child_environment(self.env)
        if SCRATCH_VARIABLE not in env:
            self._scratch = tempfile.mkdtemp(prefix="specadvise-engine-")
            env.update({"TMPDIR": self._scratch, SCRATCH_VARIABLE: self._scratch})
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, "--read", str(child_reads), "--write", str(child_writes),
                 "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, pass_fds=(child_reads, child_writes),
                env=env, start_new_session=True)
        finally:
            os.close(child_reads)
            os.close(child_writes)
            if self._process is None:
                self._close_files()
        _live.add(self)

    def start(self, waiting: Callable[[float], None] | None = None) -> dict[str, Any]:
        """Start the engine, in the child spawned before or a new one, and wait until it is ready: the `ready` event.

        `waiting(seconds)` is called about once a second meanwhile. Raises EngineFailure.
        """
        self._began = time.monotonic()
        if self._process is None:
            self.spawn()
        try:
            self._send({"cmd": "start", "engine_args": self.engine_args, "repair": self.repair, "hooks": self.hooks})
            self.info = self._await({"ready"}, self.start_timeout_s, None, waiting)
            self.start_s = self.lived_s
        except BaseException:
            self.kill()
            raise
        return self.info

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._ended is None and self._process.poll() is None

    @property
    def lived_s(self) -> float:
        """Seconds from the engine's start to its end, or to now."""
        return (self._ended or time.monotonic()) - self._began if self._began else 0.0

    def close(self) -> None:
        """Ask the child to end, give it a moment, then kill whatever of its group is left."""
        if self._process is None or self._ended is not None:
            return
        with contextlib.suppress(OSError, EngineFailure):
            self._send({"cmd": "stop"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End the whole process group now and wait for the child."""
        if self._process is None or self._ended is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._ended = time.monotonic()
        _live.discard(self)
        self._close_files()

    def _close_files(self) -> None:
        for descriptor in (self._to, self._from):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._to = self._from = -1
        self._log.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- talk --------------------------------------------------------------------------------------------------------
    def call(self, cmd: str, *, beat: Callable[[int, int], None] | None = None, turn: Turn | None = None,
             **fields: Any) -> Any:
        """One command, its data. While a block runs: `beat(steps, tokens)`, and `turn` before each of its steps.

        Raises EngineFailure.
        """
        self._serial += 1
        self._send({"cmd": cmd, "id": self._serial, **fields, **({"turns": True} if turn is not None else {})})
        return self._await({"result"}, None, beat, turn=turn)["data"]

    def begin_block(self, **fields: Any) -> dict[str, Any]:
        """Begin a block that makes its steps when told (`go`); its first `turn`. Raises EngineFailure."""
        self._serial += 1
        self._send({"cmd": "run_block", "id": self._serial, **fields, "turns": True})
        return self._await({"turn", "result"}, None, None)

    def go(self) -> dict[str, Any]:
        """One step of the block begun: its next `turn`, or its `result`. Raises EngineFailure."""
        self._send({"cmd": "go"})
        return self._await({"turn", "result"}, None, None)

    def interrupt(self, patience_s: float = 15.0) -> Any | None:
        """End the block in progress early; its data so far, or None where the child does not answer in time."""
        try:
            self._send({"cmd": "interrupt"})
            return self._await({"result"}, patience_s, None)["data"]
        except EngineFailure:
            return None

    def _send(self, command: dict[str, Any]) -> None:
        data = (json.dumps(command) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._to, data):]
        except (BrokenPipeError, OSError):
            raise self._died(None) from None

    def _await(self, wanted: set[str], limit_s: float | None, beat: Callable[[int, int], None] | None,
               waiting: Callable[[float], None] | None = None, turn: Turn | None = None) -> dict[str, Any]:
        """The next event of a wanted kind. With `limit_s` the whole wait is bounded, without it each silence is."""
        begin = heard = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._from, selectors.EVENT_READ)
            while True:
                event = self._next_event()
                if event is None:
                    now = time.monotonic()
                    if limit_s is not None and now - begin > limit_s:
                        raise self._hung(f"the engine was not ready after {limit_s:.0f} s")
                    if limit_s is None and now - heard > self.silence_s:
                        raise self._hung(f"the engine made no step for {self.silence_s:.0f} s")
                    if selector.select(timeout=0.5):
                        chunk = os.read(self._from, 1 << 16)
                        if not chunk:
                            raise self._died(None)
                        self._buffer += chunk
                    elif waiting is not None:
                        waiting(now - begin)
                    continue
                heard = time.monotonic()
                kind = event["event"]
                if kind in wanted:
                    return event
                if kind == "failed":
                    raise self._died(str(event["error"]))
                if kind == "error":
                    raise classify(str(event["error"]), self.log_tail(), None, ready=True)
                if kind == "beat" and beat is not None:
                    beat(int(event["steps"]), int(event["tokens"]))
                if kind == "turn" and turn is not None:
                    self._send({"cmd": "go", "ms": turn(event)})
                    heard = time.monotonic()

    def _next_event(self) -> dict[str, Any] | None:
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return None
        self._buffer = rest
        event: dict[str, Any] = json.loads(line)
        return event

    # --- ends --------------------------------------------------------------------------------------------------------
    def log_tail(self) -> str:
        """The end of what the child printed."""
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - _LOG_TAIL_BYTES)
        return os.pread(self._log.fileno(), _LOG_TAIL_BYTES, start).decode("utf-8", "replace")

    def _died(self, said: str | None) -> EngineFailure:
        assert self._process is not None  # noqa: S101 - only called after start
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_GRACE_S)
        failure = classify(said, self.log_tail(), self._process.returncode, ready=bool(self.info))
        self.kill()
        return failure

    def _hung(self, what: str) -> EngineFailure:
        self.kill()
        return EngineFailure(ArmStatus.HUNG, f"{what}; it was ended")
