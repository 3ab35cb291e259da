"""The fitted step-time constants, and what of them a single deployment's step is priced by too."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files

from advisor.situation import Situation
from profiles.methods import Method


@lru_cache(maxsize=1)
def fitted_constants() -> dict[str, float]:
    """advisor/cost/physics.json by name; `make fit` writes it, with unit, usual value and source of each."""
    text = files("advisor.cost").joinpath("physics.json").read_text(encoding="utf-8")
    return {name: float(entry["value"]) for name, entry in json.loads(text)["constants"].items()}


def lost_graphs_ms(situation: Situation, described: Method) -> float:
    """What a verify step pays where plain decoding runs as one captured graph and verifying does not.

    Cards without the newer attention kernels capture verify steps in pieces, and hybrid models launch their recurrent
    layers one by one (`advisor.cost.physics` prices published setups alike). 0 on the CPU engine, on unknown hardware
    and where nothing is captured anyway.
    """
    gpu, target = situation.gpu, situation.target
    if gpu is None or situation.runner == "cpu" or situation.deployment.engine.enforce_eager:
        return 0.0
    if described.drafter == "none":
        return 0.0
    constants = fitted_constants()
    rates = gpu.dense_tflops
    base = rates.get("bf16") or rates.get("fp16") or 0.0
    older = base > 0 and (rates.get("fp8") or base) <= base
    layer = constants["piecewise_layer_ms"] if older else 0.0
    if any(group.kind == "linear" for group in target.attention):
        layer += constants["hybrid_older_layer_ms" if older else "hybrid_layer_ms"]
    return target.num_layers * layer
