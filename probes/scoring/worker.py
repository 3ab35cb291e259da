"""The scoring child: `python -m probes.scoring.worker --read FD --write FD [--parent PID]`.

It speaks the JSON lines of probes/trial/worker.py over two pipes, with these commands:
  {"cmd":"start","engine_args":{"backend":"vllm"|"transformers","model":..,...}}                          first, once
  {"cmd":"choices","id":1,"requests":[[[prompt and output ids],prompt_tokens],...]}
  {"cmd":"chances","id":2,"requests":[...],"choices":[[ids of one draft, request by request],...],
     "temperature":..,"top_p":..,"top_k":..}
  {"cmd":"generate","id":3,"prompts":[[ids],...],"lengths":[..],"temperature":..,"top_p":..,"top_k":..,"seed":0}
  {"cmd":"stop"}
Answers
  choices: data = [[first choice at each step offset],...]
  chances: data = {"own":[[..],...],"chances":[[[..],...],...]}          own choices; by draft, then request
  generate: data = [[ids],...]
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from probes.scoring.backends import BACKENDS, Backend
from probes.scoring.sampling import SampledAs
from probes.trial.group_watch import SCRATCH_VARIABLE, watch_group
from probes.trial.worker import Pipe, die_with_parent, last_line


def _sampled(command: dict[str, Any]) -> SampledAs:
    return SampledAs(float(command["temperature"]), float(command["top_p"]), int(command["top_k"]))


def _choices(model: Backend, command: dict[str, Any]) -> Any:
    return [model.choices(ids, prompt) for ids, prompt in command["requests"]]


def _chances(model: Backend, command: dict[str, Any]) -> Any:
    own, chances = [], [list[list[float]]() for _ in command["choices"]]
    for place, (ids, prompt) in enumerate(command["requests"]):
        first, shares = model.chances(ids, prompt, [draft[place] for draft in command["choices"]], _sampled(command))
        own.append(first)
        for kept, share in zip(chances, shares, strict=True):
            kept.append(share)
    return {"own": own, "chances": chances}


def _generate(model: Backend, command: dict[str, Any]) -> Any:
    return model.generate(command["prompts"], command["lengths"], _sampled(command), int(command["seed"]))


COMMANDS: dict[str, Callable[[Backend, dict[str, Any]], Any]] = {
    "choices": _choices, "chances": _chances, "generate": _generate}


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
        arguments = dict(pipe.commands.get()["engine_args"])
        model = BACKENDS[arguments.pop("backend")](arguments)
    except BaseException as error:
        traceback.print_exc()
        pipe.send("failed", error=last_line(error))
        os._exit(1)
    pipe.send("ready")
    while (command := pipe.commands.get())["cmd"] != "stop":
        try:
            data = COMMANDS[command["cmd"]](model, command)
        except Exception as error:
            traceback.print_exc()
            pipe.send("error", id=command.get("id"), error=last_line(error))
        else:
            pipe.send("result", id=command.get("id"), data=data)
    # Libraries' own teardown may wait on threads and devices: everything worth keeping has been sent.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
