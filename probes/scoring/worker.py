"""The scoring child: `python -m probes.scoring.worker --read FD --write FD [--parent PID]`.

It speaks the language of probes/trial/child.py, with these commands:
  {"cmd":"start","engine_args":{"backend":"vllm"|"transformers","model":..,...}}
  {"cmd":"choices","id":1,"requests":[[[prompt and output ids],prompt_tokens],...]}
  {"cmd":"chances","id":2,"requests":[...],"choices":[[ids of one draft, request by request],...],
     "temperature":..,"top_p":..,"top_k":..}
  {"cmd":"generate","id":3,"prompts":[[ids],...],"lengths":[..],"temperature":..,"top_p":..,"top_k":..,"seed":0}
Answers
  choices: data = [[first choice at each step offset],...]
  chances: data = {"own":[[..],...],"chances":[[[..],...],...]}          own choices; by draft, then request
  generate: data = [[ids],...]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from probes.scoring.backends import BACKENDS, Backend
from probes.scoring.sampling import SampledAs
from probes.trial.child import Pipe, run_child


def _start(command: dict[str, Any], pipe: Pipe) -> Backend:
    arguments = dict(command["engine_args"])
    model = BACKENDS[arguments.pop("backend")](arguments)
    pipe.send("ready")
    return model


def _sampled(command: dict[str, Any]) -> SampledAs:
    return SampledAs(float(command["temperature"]), float(command["top_p"]), int(command["top_k"]))


def _choices(model: Backend, command: dict[str, Any], pipe: Pipe) -> Any:
    return [model.choices(ids, prompt) for ids, prompt in command["requests"]]


def _chances(model: Backend, command: dict[str, Any], pipe: Pipe) -> Any:
    own, chances = [], [list[list[float]]() for _ in command["choices"]]
    for place, (ids, prompt) in enumerate(command["requests"]):
        first, shares = model.chances(ids, prompt, [draft[place] for draft in command["choices"]], _sampled(command))
        own.append(first)
        for kept, share in zip(chances, shares, strict=True):
            kept.append(share)
    return {"own": own, "chances": chances}


def _generate(model: Backend, command: dict[str, Any], pipe: Pipe) -> Any:
    return model.generate(command["prompts"], command["lengths"], _sampled(command), int(command["seed"]))


COMMANDS: dict[str, Callable[[Backend, dict[str, Any], Pipe], Any]] = {
    "choices": _choices, "chances": _chances, "generate": _generate}


if __name__ == "__main__":
    run_child(_start, COMMANDS)
