"""The engine child: `python -m probes.trial.worker --read FD --write FD [--parent PID]`.

It runs vLLM in its own process and speaks JSON lines over two pipes; its stdout and stderr belong to vLLM. One command
at a time; every line the child writes has an `event`.

Parent to child
  {"cmd":"start","engine_args":{...LLM(...) arguments...},"repair":false,"hooks":true}         first, once
  {"cmd":"tokenize","id":1,"prompts":[{"text":"..."} | {"messages":[{"role":..,"content":..}]}]}
  {"cmd":"run_block","id":2,"prompts":[[token ids],...],"running":4,"k":3|null,"max_tokens":48,"ignore_eos":true,
     "temperature":0.0,"top_p":1.0,"top_k":-1,"deadline_s":null,"keep_prefix_cache":false}
     k needs `k_control` = schedule_lookup (see ready); null leaves it as it is. 0 drafts nothing. The prefix cache and
     a suffix tree are emptied before a block, so that a prompt may be repeated.
  {"cmd":"counters","id":3}
  {"cmd":"interrupt"}                 the block in progress ends early and returns what it has
  {"cmd":"stop"}                      or closing the pipe: the child and all it started end

Child to parent
  {"event":"imported","vllm_version":..}                                 vLLM is loaded, the engine is starting
  {"event":"ready","vllm_version","device","runner","k_control","k_max","max_num_seqs","max_model_len",
     "kv_cache_tokens","model_memory_bytes","hooks":{"steps":true,"drafter":true},"repairs":[..],"threads":..,"start_s"}
  {"event":"failed","error":"ValueError: ..."}                           the engine would not start; the child ends
  {"event":"beat","id","steps","tokens"}                                 at most every second while a block runs
  {"event":"result","id","data":{...}}  or  {"event":"error","id","error":"XError: ..."}
  tokenize: data = {"ids":[[...],...],"notes":[...]}
  counters: data = {"spec_decode_num_drafts":..,"spec_decode_num_accepted_tokens_per_pos":[..],"generation_tokens":..}
  run_block: data = {"complete":true,"wall_s":..,"output_tokens":..,"counters":{differences over the block},
     "steps":[[step_ms,running,prefilling,prompt_tokens,scheduled_tokens,drafts,output_tokens,context,draft_ms|null],..],
       running: requests in the step; prefilling: of which carried prompt tokens (0 = decode only); scheduled_tokens:
       tokens the target's pass carried; drafts: of which drafted; output_tokens: after a stop's trimming;
     "requests":[{"place","prompt_tokens","ids":[..],"steps","drafted":[..],"accepted":[..],"added_s","first_token_s",
       "finish_s","finish_reason"},..]}   drafted/accepted count decode steps by position; seconds since its start

Only the standard library is imported before vLLM.
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
import time
from typing import Any

from probes.trial.group_watch import SCRATCH_VARIABLE, watch_group

PR_SET_PDEATHSIG = 1


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
    """Both ends of the conversation. A thread reads, so that `interrupt` is seen while a block runs."""

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


def start_engine(command: dict[str, Any], pipe: Pipe) -> Any:
    """The engine of the `start` command, hooked; announces itself by `ready`."""
    begin = time.perf_counter()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import vllm

    pipe.send("imported", vllm_version=vllm.__version__)
    repairs: list[str] = []
    if command.get("repair"):
        from probes.trial.repairs import apply_repairs

        repairs = apply_repairs()
    from probes.trial.engine_hooks import EngineHooks

    llm = vllm.LLM(disable_log_stats=False, **command["engine_args"])
    hooks = EngineHooks(llm, use_hooks=command.get("hooks", True))
    pipe.send("ready", start_s=time.perf_counter() - begin, repairs=repairs, **describe(hooks))
    return hooks


def describe(hooks: Any) -> dict[str, Any]:
    """What the parent wants to know of the running engine; None where this release does not tell."""
    import torch
    import vllm
    from vllm.platforms import current_platform

    config = hooks.engine.vllm_config
    speculative, cache = config.speculative_config, config.cache_config
    blocks = getattr(cache, "num_gpu_blocks", None)
    cpu = current_platform.is_cpu()
    models = [getattr(hooks.runner, "model", None), getattr(getattr(hooks.runner, "drafter", None), "model", None)]
    weights = {p.data_ptr(): p.numel() * p.element_size()
               for m in models if isinstance(m, torch.nn.Module) for p in m.parameters()}
    return {
        "vllm_version": vllm.__version__,
        "device": "cpu" if cpu else current_platform.get_device_name(),
        "runner": "cpu" if cpu else ("v2" if getattr(hooks.scheduler, "use_v2_model_runner", False) else "v1"),
        "k_control": "schedule_lookup" if hooks.lookup is not None else "fixed",
        "k_max": getattr(speculative, "num_speculative_tokens", 0) or 0,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_model_len": config.model_config.max_model_len,
        "kv_cache_tokens": blocks * cache.block_size if blocks else None,
        # The CPU engine repacks its weights out of the parameters' sight.
        "model_memory_bytes": None if cpu else sum(weights.values()) or None,
        "hooks": {"steps": hooks.sees_steps, "drafter": hooks.times_drafter},
        "threads": torch.get_num_threads(),
    }


def tokenize(hooks: Any, prompts: list[dict[str, Any]]) -> dict[str, Any]:
    """Token ids of texts as they are, and of chat messages through the target's own template."""
    tokenizer, ids, notes = hooks.llm.get_tokenizer(), [], set()
    for prompt in prompts:
        if prompt.get("messages") is not None:
            if getattr(tokenizer, "chat_template", None):
                found = tokenizer.apply_chat_template(prompt["messages"], add_generation_prompt=True, tokenize=True)
                ids.append(list(found["input_ids"] if hasattr(found, "keys") else found))
                continue
            notes.add("the target has no chat template: messages were joined as plain text")
            text = "\n\n".join(str(message["content"]) for message in prompt["messages"])
        else:
            text = prompt["text"]
        ids.append(list(tokenizer.encode(text)))
    return {"ids": ids, "notes": sorted(notes)}


def serve(hooks: Any, pipe: Pipe) -> None:
    """Answer commands until `stop`."""
    from probes.trial.block import run_block

    last_beat = 0.0

    def beat(steps: int, tokens: int) -> None:
        nonlocal last_beat
        if time.monotonic() - last_beat >= 1.0:
            last_beat = time.monotonic()
            pipe.send("beat", id=command.get("id"), steps=steps, tokens=tokens)

    while (command := pipe.commands.get())["cmd"] != "stop":
        pipe.interrupt.clear()
        try:
            if command["cmd"] == "run_block":
                data = run_block(hooks, command, beat, pipe.interrupt.is_set)
            elif command["cmd"] == "tokenize":
                data = tokenize(hooks, command["prompts"])
            elif command["cmd"] == "counters":
                data = hooks.counters()
            else:
                raise ValueError(f"unknown command {command['cmd']!r}")
        except Exception as error:
            pipe.send("error", id=command.get("id"), error=last_line(error))
        else:
            pipe.send("result", id=command.get("id"), data=data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--read", type=int, required=True)
    parser.add_argument("--write", type=int, required=True)
    parser.add_argument("--parent", type=int, default=0)
    options = parser.parse_args()
    watch_group(options.read, options.write, os.environ.get(SCRATCH_VARIABLE))
    die_with_parent(options.parent)
    pipe = Pipe(options.read, options.write)
    try:
        hooks = start_engine(pipe.commands.get(), pipe)
    except BaseException as error:
        import traceback

        traceback.print_exc()
        pipe.send("failed", error=last_line(error))
        os._exit(1)
    serve(hooks, pipe)
    # vLLM's own teardown may wait on threads and devices: everything worth keeping has been sent.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
