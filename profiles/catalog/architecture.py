"""From a config.json to a model's shape: parameters, attention and KV per token, experts, by stated arithmetic.

Counted: embedding table, output head, attention and state-space matrices, feed-forward blocks, experts and routers.
Not counted: norms, most biases and positional tables (under 0.1 % of a language model), vision towers.
Where safetensors headers were read, their totals replace the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from profiles.catalog.layers import Fields, Mixer
from profiles.catalog.mixers import Dimensions
from profiles.catalog.mtp import COUNTS, MtpFamily, mtp_family
from profiles.catalog.quantization import Quantization, dtype_bits, read_quantization
from profiles.catalog.shapes import AttentionGroup, AttentionKind, ModelShape, MoEShape, TokenizerFingerprint
from profiles.errors import InputError
from profiles.mistakes import given
from profiles.schema import Source

_LEARNED_POSITIONS = ("opt", "gpt2", "gpt_bigcode")
MAX_MTP = 64


@dataclass(frozen=True)
class Count:
    """Parameters by part. `experts` are all routed experts; `experts_read` those one token touches."""

    embedding: int
    head: int
    attention: int
    dense: int
    experts: int
    experts_read: int
    shared: int
    mtp: int
    """All MTP layers, apart from the rest."""

    @property
    def total(self) -> int:
        """Without MTP layers."""
        return self.embedding + self.head + self.attention + self.dense + self.experts + self.shared

    def active(self, tied: bool) -> int:
        """What one token multiplies with: a tied table is read as the output head."""
        head = self.embedding if tied else self.head
        return head + self.attention + self.dense + self.experts_read + self.shared


class _Shape(Dimensions):
    """The arithmetic of one config, on top of its dimensions."""

    # --- feed-forward
    def expert_params(self) -> int:
        latent = self.fields.optional("moe_latent_size")
        return self.matrices * (latent or self.hidden) * self.expert_width

    def shared_params(self) -> int:
        """Shared experts of one layer."""
        fields = self.fields
        width = fields.optional("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
        count = fields.integer("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0)
        if width is None and self.model_type.startswith("llama4"):
            width, count = self.expert_width, 1
        return self.matrices * self.hidden * (width if width is not None else count * self.expert_width)

    def count(self) -> Count:
        """Parameters of the whole model."""
        moe_layers = sum(layer.feed_forward == "moe" for layer in self.layers)
        dense_layers = sum(layer.feed_forward == "dense" for layer in self.layers)
        table = self.vocab * self.hidden
        mixers = Counter(layer.mixer for layer in self.layers)
        attention = sum(self.mixer(mixer)[0] * number for mixer, number in mixers.items())
        if self.model_type in _LEARNED_POSITIONS:
            attention += self.fields.integer("max_position_embeddings", "n_positions", default=0) * self.hidden
        router = moe_layers * self.experts * self.hidden
        mtp, family = self.mtp_layers(), self.mtp_family()
        # An MTP layer: one decoder layer of the last kind and a projection of two hidden states to one.
        last = self.layers[-1]
        layer = (
            self.mixer("mla" if last.mixer == "mla" else "full")[0]
            + (
                self.experts * self.expert_params() + self.shared_params()
                if moe_layers and not (family is not None and family.dense)
                else self.matrices * self.hidden * self.dense_width
            )
            + 2 * self.hidden * self.hidden
        )
        return Count(
            embedding=table,
            head=0 if self.tied else table,
            attention=attention,
            dense=dense_layers * self.matrices * self.hidden * self.dense_width + router,
            experts=moe_layers * self.experts * self.expert_params(),
            experts_read=moe_layers * self.experts_per_token * self.expert_params(),
            shared=moe_layers * self.shared_params(),
            mtp=mtp * layer,
        )

    def mtp_family(self) -> MtpFamily | None:
        classes = self.outer.strings("architectures") or ()
        return mtp_family((self.outer.model_type, self.model_type), classes)

    def mtp_layers(self) -> int:
        """As the config states them; as vLLM takes them where it says nothing or vLLM does not listen."""
        family = self.mtp_family()
        held = Fields(self.outer.mapping(family.states_in), self.fields.where) if family and family.states_in else None
        stated = (held or self.fields).optional(*COUNTS, most=MAX_MTP)
        return (family.layers(stated) if family is not None else stated) or 0

    # --- groups
    def attention_groups(self) -> tuple[AttentionGroup, ...]:
        """Layers by kind; layers that share another's KV cache, and those without a mixer, are left out."""
        numbers: Counter[Mixer] = Counter(
            layer.mixer for layer in self.layers if layer.mixer != "none" and layer.own_kv
        )
        ratios = self.fields.integers("compress_ratios")
        if ratios:
            return self._compressed(ratios[: len(self.layers)])
        window = self.fields.optional("sliding_window", "attention_chunk_size")
        groups = []
        for mixer, number in numbers.items():
            if mixer in ("full", "sliding"):
                full = mixer == "full"
                groups.append(
                    AttentionGroup(
                        kind=cast(AttentionKind, mixer),
                        layers=number,
                        kv_heads=self.fields.integer("num_global_key_value_heads", default=self.kv_heads)
                        if full
                        else self.kv_heads,
                        head_dim=self.fields.integer("global_head_dim", default=self.head_dim)
                        if full
                        else self.head_dim,
                        window=None if full else window,
                    )
                )
            elif mixer == "mla":
                row = self.fields.integer("kv_lora_rank") + self.fields.integer("qk_rope_head_dim", default=0)
                index = self.fields.integer("index_head_dim", default=0)
                groups.append(AttentionGroup(kind="mla", layers=number, kv_heads=1, head_dim=row, index_dim=index))
            else:
                groups.append(
                    AttentionGroup(
                        kind="linear",
                        layers=number,
                        state_bytes=self.mixer(mixer)[1],
                        state_bytes_per_draft_token=self.draft_state_bytes(mixer),
                    )
                )
        return tuple(groups)

    def _compressed(self, ratios: Sequence[int]) -> tuple[AttentionGroup, ...]:
        """DeepSeek V4: one shared row a token, stored once in `ratio` tokens; ratio 0 or 1 keeps a window."""
        window = self.fields.optional("sliding_window")
        return tuple(
            AttentionGroup(kind="mla", layers=number, kv_heads=1, head_dim=max(1, self.head_dim // ratio))
            if ratio > 1
            else AttentionGroup(kind="sliding", layers=number, kv_heads=1, head_dim=self.head_dim, window=window)
            for ratio, number in sorted(Counter(ratios).items())
        )


def mean_bits(count: Count, dtype: str, quantization: Quantization | None) -> float:
    """Mean bits of a stored parameter: embedding table and output head keep the checkpoint's own type."""
    plain = dtype_bits(dtype)
    if quantization is None or count.total == 0:
        return plain
    quantized = count.experts if quantization.scope == "experts" else count.total - count.embedding - count.head
    other = 0.0 if quantization.expert_bits is None else count.experts * (quantization.expert_bits - quantization.bits)
    return (quantized * quantization.bits + other + (count.total - quantized) * plain) / count.total


def count_parameters(config: Mapping[str, Any], where: str) -> Count:
    """Parameters by part, from a config alone. Raises InputError like `shape_of`."""
    return _Shape(config, where).count()


def shape_of(
    config: Mapping[str, Any],
    *,
    model_id: str,
    where: str,
    revision: str | None = None,
    config_hash: str | None = None,
    tokenizer: TokenizerFingerprint | None = None,
    origin: str = "",
    source: Source = Source.RECORDED,
) -> ModelShape:
    """The shape a config.json describes.

    Args:
        config: the parsed file.
        model_id: what to call the model.
        where: the file, for error sentences.

    Raises:
        InputError: a needed key is missing or of the wrong kind; the sentence names it.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"{where}: is {given(config)}: expected a mapping; fetch config.json again")
    shape = _Shape(config, where)
    count = shape.count()
    outer = Fields(config, where)
    dtype = shape.fields.values.get("dtype", shape.fields.values.get("torch_dtype"))
    dtype = dtype.removeprefix("torch.") if isinstance(dtype, str) else "bfloat16"
    stored = config.get("quantization_config") or shape.fields.values.get("quantization_config")
    if isinstance(stored, Mapping) and "expert_dtype" in shape.fields.values:
        stored = {"expert_dtype": shape.fields.values["expert_dtype"], **stored}
    quantization = read_quantization(stored)
    moe_layers = sum(layer.feed_forward == "moe" for layer in shape.layers)
    moe = (
        MoEShape(
            num_experts=shape.experts,
            experts_per_token=shape.experts_per_token or 1,
            expert_params=shape.expert_params(),
            moe_layers=moe_layers,
            shared_params=shape.shared_params(),
        )
        if moe_layers
        else None
    )
    return ModelShape(
        id=model_id,
        revision=revision,
        config_hash=config_hash,
        architectures=outer.strings("architectures") or (),
        model_type=outer.model_type or shape.model_type,
        params=count.total,
        active_params=count.active(shape.tied),
        embedding_params=count.embedding,
        num_layers=len(shape.layers),
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocab,
        attention=shape.attention_groups(),
        moe=moe,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=shape.fields.optional(
            "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"
        ),
        dtype=dtype,
        quantization=quantization.name if quantization else None,
        bits_per_weight=round(mean_bits(count, dtype, quantization), 4),
        mtp_layers=shape.mtp_layers(),
        mtp_params=count.mtp,
        draft_vocab_size=shape.fields.optional("draft_vocab_size"),
        tokenizer=tokenizer,
        source=source,
        origin=origin,
    )
