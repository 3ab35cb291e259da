"""Make a deeper or a shallower Llama out of one that exists, by rearranging its layers.

Both functions work on a plain state dict and a plain config dictionary, as the files of a Hugging
Face folder hold them: no model class is built, so the cost is that of copying the tensors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Weights = dict[str, "torch.Tensor"]
Config = dict[str, Any]

_LAYER = re.compile(r"^model\.layers\.(\d+)\.(.+)$")

# The only two matrices of a Llama layer that write into the residual stream. Scaling them scales
# the whole effect of the layer and leaves its cost as it is.
_WRITERS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")


def deepen(weights: Weights, config: Config, repeat: int, eps: float) -> tuple[Weights, Config]:
    """Repeat every layer `repeat` times; the copies write `eps` of what the original writes.

    The result costs `repeat` times as much a token and says nearly what the original says: with
    `eps` 0 exactly that, and less and less so as `eps` grows. It stands for the large target of a
    pair whose draft is the original.
    """
    if repeat < 1:
        raise ValueError(f"repeat must be 1 or more, got {repeat}")
    by_layer, rest = _split(weights, config)
    deepened: Weights = dict(rest)
    for index, layer in enumerate(by_layer):
        for copy in range(repeat):
            for name, tensor in layer.items():
                scaled = tensor * eps if copy > 0 and name in _WRITERS else tensor.clone()
                deepened[f"model.layers.{index * repeat + copy}.{name}"] = scaled
    return deepened, _with_layers(config, len(by_layer) * repeat)


def keep_layers(weights: Weights, config: Config, layers: Sequence[int]) -> tuple[Weights, Config]:
    """Keep only the layers named, in the order given, with the embeddings and the final norm."""
    by_layer, rest = _split(weights, config)
    unknown = [layer for layer in layers if not 0 <= layer < len(by_layer)]
    if unknown or not layers:
        raise ValueError(f"layers must be among 0 to {len(by_layer) - 1}, got {list(layers)}")
    kept: Weights = dict(rest)
    for new, old in enumerate(layers):
        for name, tensor in by_layer[old].items():
            kept[f"model.layers.{new}.{name}"] = tensor.clone()
    return kept, _with_layers(config, len(layers))


def _split(weights: Weights, config: Config) -> tuple[list[Weights], Weights]:
    """The weights of each layer under their names inside the layer, and everything else."""
    by_layer: list[Weights] = [{} for _ in range(int(config["num_hidden_layers"]))]
    rest: Weights = {}
    for name, tensor in weights.items():
        found = _LAYER.match(name)
        if found:
            by_layer[int(found.group(1))][found.group(2)] = tensor
        else:
            rest[name] = tensor
    return by_layer, rest


def _with_layers(config: Config, count: int) -> Config:
    changed = {**config, "num_hidden_layers": count}
    # One entry a layer: a list of the old length would be refused by the config class.
    if "layer_types" in changed:
        changed["layer_types"] = ["full_attention"] * count
    return changed
