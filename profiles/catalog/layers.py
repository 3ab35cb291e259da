"""What each layer of a transformer is, read from the many ways a config.json says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from profiles.errors import InputError

Mixer = Literal["full", "sliding", "mla", "gdn", "kda", "mamba", "mamba2", "conv", "linear", "none"]
FeedForward = Literal["dense", "moe", "none"]
MAX_LAYERS = 4096


@dataclass(frozen=True)
class Layer:
    """One layer: how tokens mix, what follows, and whether it keeps a KV cache of its own."""

    mixer: Mixer
    feed_forward: FeedForward
    own_kv: bool = True


class Fields:
    """Typed access to a config mapping; every refusal names file, key, value and what was expected."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def integer(self, *names: str, default: int | None = None, most: int = 10**9, least: int = 0) -> int:
        """The first of `names` that is set; InputError where it is not in range, or needed and missing."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
                raise InputError(
                    f"{self.where}: {name} is {str(value)[:60]!r}: expected a whole number; the file is no "
                    "usable model config, fetch it again"
                )
            if not least <= value <= most:
                raise InputError(
                    f"{self.where}: {name} is {value}: expected {least} to {most}; the file is no usable "
                    "model config, fetch it again"
                )
            return int(value)
        if default is None:
            raise InputError(
                f"{self.where}: none of {', '.join(names)} is there: expected a transformer's config.json; "
                "check that the folder or id names a language model"
            )
        return default

    def optional(self, *names: str, most: int = 10**9) -> int | None:
        """Like `integer`, None where nothing is set."""
        if all(self.values.get(name) is None for name in names):
            return None
        return self.integer(*names, most=most)

    def strings(self, name: str) -> tuple[str, ...] | None:
        """A list of strings; None where it is absent or something else."""
        value = self.values.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value):
            return tuple(value)
        return None

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers from 0 up; None where it is absent or something else."""
        value = self.values.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str) and all(_is_natural(item) for item in value):
            return tuple(value)
        return None

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self.values.get(name)
        return value if isinstance(value, Mapping) else {}

    @property
    def model_type(self) -> str:
        value = self.values.get("model_type")
        return value if isinstance(value, str) else ""


def _is_natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_BY_NAME: dict[str, Mixer] = {
    "full_attention": "full",
    "attention": "full",
    "hybrid": "full",
    "softmax": "full",
    "sliding_attention": "sliding",
    "local_attention": "sliding",
    "sliding": "sliding",
    "local": "sliding",
    "global": "full",
    "full": "full",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba2",
    "recurrent": "linear",
    "conv": "conv",
    "moe": "none",
    "mlp": "none",
    "-": "none",
    "E": "none",
    "M": "mamba2",
    "*": "full",
    "deepseek_sparse_attention": "full",
}


def _linear_kind(fields: Fields) -> Mixer:
    if fields.values.get("linear_num_value_heads") is not None or fields.model_type.startswith(
        ("qwen3_next", "qwen3_5")
    ):
        return "gdn"
    return "kda" if fields.mapping("linear_attn_config") else "linear"


def _mixers(fields: Fields, count: int) -> list[Mixer]:
    """The mixer of each layer, by the first description that the config has."""
    values = fields.values
    names = fields.strings("layer_types") or fields.strings("layers_block_type")
    pattern = values.get("hybrid_override_pattern")
    if names is None and isinstance(pattern, str):
        names = tuple(pattern)
    if names is not None and len(names) >= count:
        state = "mamba2" if values.get("mamba_num_heads") or values.get("mamba_n_heads") else "mamba"
        kinds = [_BY_NAME.get(name, "full") for name in names[:count]]
        return [
            state if kind == "mamba" else _linear_kind(fields) if kind == "linear" else kind  # type: ignore[misc]
            for kind in kinds
        ]
    linear = fields.mapping("linear_attn_config")
    if linear:
        full = set(Fields(linear, fields.where).integers("full_attn_layers") or ())
        return ["full" if number in full else "kda" for number in range(1, count + 1)]
    every = fields.optional("full_attention_interval")
    if every:
        return ["full" if (number + 1) % every == 0 else _linear_kind(fields) for number in range(count)]
    kinds_by_number = fields.integers("attn_type_list")
    if kinds_by_number is not None and len(kinds_by_number) >= count:
        return ["full" if kind == 1 else "linear" for kind in kinds_by_number[:count]]
    period = fields.optional("attn_layer_period")
    if period:
        offset = fields.integer("attn_layer_offset", default=0)
        return ["full" if number % period == offset % period else "mamba" for number in range(count)]
    if fields.model_type in ("mamba", "falcon_mamba", "mamba2"):
        return ["mamba2" if fields.model_type == "mamba2" else "mamba"] * count
    return _windows(fields, count)


def _windows(fields: Fields, count: int) -> list[Mixer]:
    """Plain attention: which layers slide, where the config gives a window (or a chunk) but no list of layers."""
    window = fields.optional("sliding_window", "attention_chunk_size")
    if not window or fields.values.get("use_sliding_window") is False:
        return ["full"] * count
    every = fields.optional("sliding_window_pattern", "_sliding_window_pattern")
    if every is None and fields.model_type.startswith(("gemma2", "gpt_oss")):
        every = 2
    if every is None and fields.model_type.startswith("gemma3"):
        every = 6
    if every is None and fields.model_type.startswith("llama4"):
        every = 4
    if every:
        return ["full" if (number + 1) % every == 0 else "sliding" for number in range(count)]
    if fields.model_type.startswith("qwen2") and fields.values.get("use_sliding_window"):
        # Qwen2 keeps full attention below max_window_layers.
        below = fields.integer("max_window_layers", default=count)
        return ["full" if number < below else "sliding" for number in range(count)]
    limit = fields.optional("max_position_embeddings")
    return ["full" if limit is not None and window >= limit else "sliding"] * count


def _experts(fields: Fields, count: int) -> list[bool]:
    """Which layers route to experts."""
    if not experts(fields):
        return [False] * count
    first_dense = fields.integer("first_k_dense_replace", "moe_layer_start_index", default=0)
    frequency = fields.values.get("moe_layer_freq")
    if isinstance(frequency, Sequence) and not isinstance(frequency, str) and len(frequency) >= count:
        return [bool(flag) for flag in frequency[:count]]
    every = frequency if isinstance(frequency, int) and frequency > 0 else 1
    step = (
        fields.integer("decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period", default=1, least=0)
        or 1
    )
    offset = fields.optional("expert_layer_offset")
    dense = set(fields.integers("mlp_only_layers") or ())
    listed = fields.integers("moe_layers")
    enumerated = fields.values.get("moe_layers_enum")
    if isinstance(enumerated, str) and enumerated:
        listed = tuple(int(part) for part in enumerated.split(",") if part.strip().isdigit())
    if listed:
        return [number in listed for number in range(count)]
    if offset is not None:
        return [number % step == offset for number in range(count)]
    return [
        number >= first_dense and number % every == 0 and (number + 1) % step == 0 and number not in dense
        for number in range(count)
    ]


def experts(fields: Fields) -> int:
    """Routed experts a layer; 0 for a dense model."""
    return fields.integer("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", default=0)


def _blocks(fields: Fields) -> Sequence[str]:
    """Names of the layers where mixers and feed-forward blocks are layers of their own (Nemotron-H); else empty."""
    pattern = fields.values.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern
    names = fields.strings("layers_block_type") or ()
    return names if {"moe", "mlp"} & set(names) else ()


def read_layers(fields: Fields) -> list[Layer]:
    """Every layer in order, MTP layers apart.

    Raises:
        InputError: the number of layers is missing or no number.
    """
    count = fields.integer("num_hidden_layers", "n_layer", "num_layers", "n_layers", least=1, most=MAX_LAYERS)
    mixers = _mixers(fields, count)
    if fields.values.get("kv_lora_rank"):
        mixers = ["mla" if mixer == "full" else mixer for mixer in mixers]
    sparse = _experts(fields, count)
    blocks = _blocks(fields)
    shared_from = count - fields.integer("num_kv_shared_layers", default=0)
    layers = []
    for number, mixer in enumerate(mixers):
        feed: FeedForward = "moe" if sparse[number] else "dense"
        if blocks:
            name = blocks[number] if number < len(blocks) else "-"
            feed = "moe" if name in ("E", "moe") else "dense" if name in ("-", "mlp") else "none"
        layers.append(Layer(mixer, feed, own_kv=number < shared_from))
    return layers
