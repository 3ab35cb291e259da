"""The engine child: `python -m probes.trial.worker --read FD --write FD [--parent PID]`, in the language of child.py.

It runs vLLM in its own process.

Parent to child
  {"cmd":"start","engine_args":{...LLM(...) arguments...},"repair":false,"hooks":true}
  {"cmd":"tokenize","id":1,"prompts":[{"text":"..."} | {"messages":[{"role":..,"content":..}]}]}
  {"cmd":"run_block","id":2,"prompts":[[token ids],...],"running":4,"k":3|null,"max_tokens":48,"ignore_eos":true,
     "temperature":0.0,"top_p":1.0,"top_k":-1,"deadline_s":null,"keep_prefix_cache":false,"turns":false}
     k needs `k_control` = schedule_lookup (see ready); null leaves it as it is. 0 drafts nothing. The prefix cache and
     a suffix tree are emptied before a block, so that a prompt may be repeated. `interrupt` ends it early. With `turns`
     the block asks before each of its steps, and goes on when told; no clock of its own counts the wait.
  {"cmd":"go","ms":98.5|null}            the answer to a `turn`; ms: what a step of another engine took meanwhile
  {"cmd":"counters","id":3}

Child to parent
  {"event":"imported","vllm_version":..}                                 vLLM is loaded, the engine is starting
  {"event":"ready","vllm_version","device","runner","k_control","k_max","max_num_seqs","max_model_len",
     "kv_cache_tokens","model_memory_bytes","hooks":{"steps":true,"drafter":true},"repairs":[..],"threads":..}
  {"event":"beat","id","steps","tokens"}                                 at most every second while a block runs
  {"event":"turn","id","own_s","tokens","row":[..]|null}                 what the block gave so far, its last step
  tokenize: data = {"ids":[[...],...],"notes":[...]}
  counters: data = {"spec_decode_num_drafts":..,"spec_decode_num_accepted_tokens_per_pos":[..],"generation_tokens":..}
  run_block: data = {"complete":true,"wall_s":..,"output_tokens":..,"counters":{differences over the block},
     "steps":[[step_ms,running,prefilling,prompt_tokens,scheduled_tokens,drafts,output_tokens,context,draft_ms|null,
       beside_ms|null],..],
       running: requests in the step; prefilling: of which carried prompt tokens (0 = decode only); scheduled_tokens:
       tokens the target's pass carried; drafts: of which drafted; output_tokens: after a stop's trimming;
       beside_ms: the `ms` of the turn before the step;
     "requests":[{"place","prompt_tokens","ids":[..],"steps","drafted":[..],"accepted":[..],"added_s","first_token_s",
       "finish_s","finish_reason"},..]}   drafted/accepted count decode steps by position; seconds since its start

Only the standard library is imported before vLLM.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from probes.trial.child import Pipe, run_child


def import_engine() -> None:
    """Import vLLM: half of what a start on a CPU takes."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM  # noqa: F401 - its modules are what takes long


def start_engine(command: dict[str, Any], pipe: Pipe) -> Any:
    """The engine of the `start` command, hooked; announces itself by `ready`."""
    import vllm

    pipe.send("imported", vllm_version=vllm.__version__)
    repairs: list[str] = []
    if command.get("repair"):
        from probes.trial.repairs import apply_repairs

        repairs = apply_repairs()
    from probes.trial.engine_hooks import EngineHooks

    llm = vllm.LLM(disable_log_stats=False, **command["engine_args"])
    hooks = EngineHooks(llm, use_hooks=command.get("hooks", True))
    pipe.send("ready", repairs=repairs, **describe(hooks))
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


def tokenize(hooks: Any, command: dict[str, Any], pipe: Pipe) -> dict[str, Any]:
    """Token ids of texts as they are, and of chat messages through the target's own template."""
    tokenizer, ids, notes = hooks.llm.get_tokenizer(), [], set()
    for prompt in command["prompts"]:
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


def timed_block(hooks: Any, command: dict[str, Any], pipe: Pipe) -> dict[str, Any]:
    """One block, with a beat at its first step and then at most every second."""
    from probes.trial.block import run_block

    last_beat = 0.0

    def beat(steps: int, tokens: int) -> None:
        nonlocal last_beat
        if time.monotonic() - last_beat >= 1.0:
            last_beat = time.monotonic()
            pipe.send("beat", id=command.get("id"), steps=steps, tokens=tokens)

    def turn(own_s: float, tokens: int) -> float | None:
        last = hooks.rows[-1].as_list() if hooks.rows else None
        answer = pipe.ask("turn", id=command.get("id"), own_s=own_s, tokens=tokens, row=last)
        return answer.get("ms") if answer is not None else None

    return run_block(hooks, command, beat, pipe.interrupt.is_set, turn if command.get("turns") else None)


def counters(hooks: Any, command: dict[str, Any], pipe: Pipe) -> dict[str, Any]:
    """The engine's own counters since it started."""
    found: dict[str, Any] = hooks.counters()
    return found


COMMANDS: dict[str, Callable[[Any, dict[str, Any], Pipe], Any]] = {
    "tokenize": tokenize, "run_block": timed_block, "counters": counters}


if __name__ == "__main__":
    run_child(start_engine, COMMANDS, import_engine)
