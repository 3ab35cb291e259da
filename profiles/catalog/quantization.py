"""How many bits a stored weight takes, read from a checkpoint's `quantization_config`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

DTYPE_BITS = {
    "float32": 32.0,
    "fp32": 32.0,
    "float": 32.0,
    "bfloat16": 16.0,
    "bf16": 16.0,
    "float16": 16.0,
    "fp16": 16.0,
    "half": 16.0,
    "float8_e4m3fn": 8.0,
    "float8_e5m2": 8.0,
    "float64": 64.0,
}
"""Bits of one element by torch dtype name."""


@dataclass(frozen=True)
class Quantization:
    """A weight format: its name, bits of one weight with its scales and zero points, and which weights have it."""

    name: str
    bits: float
    scope: Literal["linear", "experts"] = "linear"
    """linear: every matrix but embedding table and output head. experts: routed experts only."""
    note: str = ""
    expert_bits: float | None = None
    """Bits of a routed expert's weight where that is another than the other matrices'."""


def dtype_bits(dtype: str) -> float:
    """Bits of one element; 16 for a name nobody knows, as the engine would load it in its default type."""
    return DTYPE_BITS.get(dtype.removeprefix("torch."), 16.0)


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else default


def _grouped(config: Mapping[str, Any], bits: float) -> float:
    """A 16-bit scale and a zero point of `bits` for each group (awq, gptq)."""
    group = config.get("group_size", config.get("q_group_size", 128))
    size = _number(group, 0.0)
    return bits if size <= 0 else bits + (16.0 + bits) / size


def _compressed_tensors(config: Mapping[str, Any]) -> Quantization:
    groups = config.get("config_groups")
    entries = list(groups.values()) if isinstance(groups, Mapping) else []
    weights = [
        entry["weights"]
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("weights"), Mapping)
    ]
    if not weights:
        return Quantization("compressed-tensors", 8.0, note="bits of the weights are not stated: taken as 8")
    first = weights[0]
    bits = _number(first.get("num_bits"), 8.0)
    group = _number(first.get("group_size"), 0.0)
    # Float-4 in groups of 16 carries an 8-bit scale a group (NVFP4), of 32 too (MXFP4); integers carry a 16-bit one.
    scale = 8.0 if first.get("type") == "float" else 16.0
    targets = {str(target) for entry in entries if isinstance(entry, Mapping) for target in entry.get("targets") or ()}
    scope: Literal["linear", "experts"] = (
        "experts" if targets and all("expert" in target for target in targets) else "linear"
    )
    return Quantization("compressed-tensors", bits + (scale / group if group > 0 else 0.0), scope)


def _by_algorithm(name: str, algorithm: str) -> Quantization | None:
    known = {
        "NVFP4": Quantization("nvfp4", 4.5),
        "W4A16_NVFP4": Quantization("nvfp4", 4.5),
        "FP8": Quantization("fp8", 8.0),
        "FP8_PB_WO": Quantization("fp8", 8.0),
        "MXFP8": Quantization("mxfp8", 8.25),
        "W4A8_AWQ": Quantization("awq", 4.16),
        "W4A16_AWQ": Quantization("awq", 4.16),
        "INT8_SQ": Quantization("int8", 8.0),
    }
    return known.get(algorithm.upper())


def _mixed_precision(name: str, layers: object) -> Quantization | None:
    """ModelOpt's list of formats by layer: that of the routed experts, which are most of the weights, where it names
    them."""
    if not isinstance(layers, Mapping):
        return None
    for layer, entry in layers.items():
        if "experts" in str(layer) and "shared" not in str(layer) and isinstance(entry, Mapping):
            found = _by_algorithm(name, str(entry.get("quant_algo")))
            return None if found is None else Quantization(found.name, found.bits, "experts")
    return None


def read_quantization(config: object) -> Quantization | None:
    """The weight format of a `quantization_config` (or ModelOpt's `hf_quant_config.json`); None where there is none.

    An unknown method with a stated number of bits is taken at that; one without gives 8 bits and a note.
    """
    if not isinstance(config, Mapping) or not config:
        return None
    inner = config.get("quantization")
    if isinstance(inner, Mapping) and "quant_algo" in inner:
        config = inner
    name = str(config.get("quant_method") or config.get("quant_algo") or "unknown").lower()
    algorithm = config.get("quant_algo")
    if isinstance(algorithm, str):
        found = _by_algorithm(name, algorithm)
        if found is not None:
            return found
        mixed = _mixed_precision(name, config.get("quantized_layers"))
        if mixed is not None:
            return mixed
    if name == "compressed-tensors":
        return _compressed_tensors(config)
    if name in ("fp8", "fbgemm_fp8", "ptpc_fp8"):
        # DeepSeek-V4's config says fp8, and that its routed experts are MXFP4: 96 % of its weights (vllm-project/vllm
        # pull requests 42970, 53709).
        return Quantization(name, 8.0, expert_bits=4.25 if config.get("expert_dtype") == "fp4" else None)
    if name == "mxfp4":
        return Quantization(name, 4.25, "experts")
    if name == "bitsandbytes":
        if config.get("load_in_4bit") or config.get("_load_in_4bit"):
            # One 32-bit constant for 64 weights; with double quantization 8 bits for 64 and 32 for 64 x 256.
            return Quantization(name, 4.127 if config.get("bnb_4bit_use_double_quant") else 4.5)
        return Quantization(name, 8.0)
    for key in ("bits", "w_bit", "weight_bits", "num_bits"):
        if key in config:
            return Quantization(name, _grouped(config, _number(config[key], 8.0)))
    if name in ("awq", "gptq", "auto-round", "awq_marlin", "gptq_marlin"):
        return Quantization(name, _grouped(config, 4.0), note="bits are not stated: taken as 4")
    return Quantization(name, 8.0, note=f"quantization method {name} is unknown here: taken as 8 bits a weight")


def quantization_of_name(model_name: str) -> tuple[str, Quantization] | None:
    """A quantized checkpoint's base name and format, from the usual endings (`-FP8`, `-AWQ`, `-GPTQ-Int4`, `-NVFP4`).

    A guess by convention: bits as those formats usually store them.
    """
    # `(FP8)`, `(AWQ 4bit)`, ` Q4`: how tables and posts write what checkpoints have in their name.
    model_name = re.sub(r"[\s-]*\(([^)]*)\)\s*$", r"-\1", model_name.strip())
    model_name = re.sub(r"[\s_]+", "-", model_name).rstrip("-")
    endings = {
        "-autoround-int4": Quantization("auto-round", 4.16),
        "-qat-w4a16": Quantization("compressed-tensors", 4.125),
        "-w4a16": Quantization("compressed-tensors", 4.125),
        "-w8a8": Quantization("compressed-tensors", 8.0),
        "-awq-4bit": Quantization("awq", 4.16),
        "-mxfp4": Quantization("mxfp4", 4.25),
        "-mxfp8": Quantization("mxfp8", 8.25),
        "-fp8-dynamic": Quantization("compressed-tensors", 8.0),
        "-fp8": Quantization("fp8", 8.0),
        "-quantized.w8a8": Quantization("compressed-tensors", 8.0),
        "-quantized.w4a16": Quantization("compressed-tensors", 4.125),
        "-gptq-int4": Quantization("gptq", 4.16),
        "-gptq-int8": Quantization("gptq", 8.19),
        "-gptq": Quantization("gptq", 4.16),
        "-awq-int4": Quantization("awq", 4.16),
        "-awq": Quantization("awq", 4.16),
        "-nvfp4": Quantization("nvfp4", 4.5),
        "-fp4": Quantization("nvfp4", 4.5),
        "-bnb-4bit": Quantization("bitsandbytes", 4.5),
        "-int4": Quantization("int4", 4.16),
        "-int8": Quantization("int8", 8.19),
        "-4bit": Quantization("int4", 4.5),
        "-8bit": Quantization("int8", 8.5),
    }
    lowered = model_name.lower()
    for ending, quantization in endings.items():
        if lowered.endswith(ending):
            return model_name[: -len(ending)], quantization
    return None
