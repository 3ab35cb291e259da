"""From a config.json to a model's shape: parameters, attention and KV per token, experts, by stated arithmetic.

Counted: embedding table, output head, attention and state-space matrices, feed-forward blocks, experts and routers.
Not counted: norms, most biases and positional tables (under 0.1 % of a language model), vision towers.
Where safetensors headers were read, their totals replace the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from profiles.catalog.layers import Fields, Layer, Mixer, experts, read_layers
from profiles.catalog.quantization import Quantization, dtype_bits, read_quantization
from profiles.catalog.shapes import AttentionGroup, AttentionKind, ModelShape, MoEShape, TokenizerFingerprint
from profiles.errors import InputError
from profiles.schema import Source

_NESTED = ("text_config", "llm_config", "language_config", "language_model_config")
# Feed-forward blocks with two matrices instead of three (no gate).
_UNGATED = ("opt", "gpt2", "gpt_neox", "gptj", "gpt_neo", "falcon", "starcoder2", "phi-msft", "phi", "bloom", "mpt", "nemotron",
            "gpt_bigcode", "nemotron_h")
# Config classes of transformers whose embedding table doubles as output head unless the file says otherwise.
_TIED_BY_DEFAULT = ("gemma", "gpt2", "opt", "bloom", "falcon", "starcoder2", "smollm3", "cohere", "gpt_bigcode", "mpt")
_LEARNED_POSITIONS = ("opt", "gpt2", "gpt_bigcode")


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


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's part of a multimodal config, with what only the outer level says."""
    for name in _NESTED:
        nested = config.get(name)
        if isinstance(nested, Mapping) and nested:
            outer = {key: config[key] for key in ("tie_word_embeddings", "dtype", "torch_dtype", "quantization_config",
                                                  "vocab_size") if config.get(key) is not None}
            return {**outer, **{key: value for key, value in nested.items() if value is not None}}
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        return text_config(thinker)
    return dict(config)


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    return fields.integer("head_dim", "kv_channels", "attention_head_dim", default=hidden // max(heads, 1))


def _key_value_heads(fields: Fields, heads: int) -> int:
    if fields.values.get("multi_query") is True and fields.values.get("new_decoder_architecture") is not True:
        return 1
    nested = fields.mapping("attn_config").get("kv_n_heads")
    if isinstance(nested, int):
        return nested
    return fields.integer("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_query_groups", "multi_query_group_num",
                          default=heads) or heads


class _Shape:
    """The arithmetic of one config; split by kind of layer."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.fields = fields = Fields(text_config(config), where)
        self.hidden = fields.integer("hidden_size", "n_embd", "d_model", "dim", least=1)
        self.heads = fields.integer("num_attention_heads", "n_head", "n_heads", "num_heads", default=1, most=10**6) or 1
        self.kv_heads = _key_value_heads(fields, self.heads)
        self.head_dim = _head_dim(fields, self.hidden, self.heads)
        widths = fields.integers("intermediate_size")
        self.intermediate = widths[0] if widths else fields.integer(
            "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "inner_dim", default=4 * self.hidden)
        # Llama 4 keeps the dense layers' width apart from the experts'.
        self.dense_width = fields.integer("intermediate_size_mlp", default=self.intermediate)
        self.vocab = fields.integer("vocab_size", "padded_vocab_size", least=1)
        self.layers = read_layers(fields)
        self.model_type = fields.model_type
        tied = fields.values.get("tie_word_embeddings")
        self.tied = tied if isinstance(tied, bool) else self.model_type.startswith(_TIED_BY_DEFAULT)
        self.matrices = 2 if self.model_type in _UNGATED else 3
        self.experts = experts(fields)
        self.experts_per_token = fields.integer("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k",
                                                "top_k_experts", "num_selected_experts", "experts_per_token", default=0)
        widths = fields.integers("moe_intermediate_size")
        self.expert_width = widths[0] if widths else fields.integer("moe_intermediate_size", "moe_ffn_hidden_size",
                                                                    "expert_ffn_hidden_size", default=self.intermediate)

    # --- mixers
    def _attention(self, mixer: Mixer) -> int:
        """Parameters of one softmax-attention layer."""
        heads, kv_heads, head_dim = self.heads, self.kv_heads, self.head_dim
        if mixer == "full":
            head_dim = self.fields.integer("global_head_dim", default=head_dim)
            kv_heads = self.fields.integer("num_global_key_value_heads", default=kv_heads)
        # Qwen3-Next and Qwen3.5 gate the attention output: the query projection is twice as wide.
        query = 2 if self.fields.values.get("attn_output_gate") or self.model_type.startswith(("qwen3_next", "qwen3_5")) else 1
        return self.hidden * head_dim * (query * heads + 2 * kv_heads) + heads * head_dim * self.hidden

    def _mla(self) -> int:
        fields = self.fields
        rank, rope = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim", default=0)
        nope = fields.integer("qk_nope_head_dim", default=self.head_dim)
        value = fields.integer("v_head_dim", default=nope)
        query_rank = fields.optional("q_lora_rank")
        queries = self.heads * (nope + rope)
        query = self.hidden * query_rank + query_rank * queries if query_rank else self.hidden * queries
        index_heads = fields.integer("index_n_heads", default=0)
        index_dim = fields.integer("index_head_dim", default=0)
        indexer = (index_heads * index_dim * (query_rank or self.hidden) + self.hidden * (index_dim + index_heads)
                   if index_heads else 0)
        return (query + self.hidden * (rank + rope) + rank * self.heads * (nope + value) + self.heads * value * self.hidden
                + indexer)

    def _gdn(self) -> tuple[int, int]:
        """Gated delta net: parameters, state bytes (convolution in 16 bits, the recurrent state as the config says)."""
        fields = self.fields
        keys = fields.integer("linear_num_key_heads", default=0) * fields.integer("linear_key_head_dim", default=0)
        value_heads = fields.integer("linear_num_value_heads", default=0)
        values = value_heads * fields.integer("linear_value_head_dim", default=0)
        kernel = fields.integer("linear_conv_kernel_dim", default=4)
        channels = 2 * keys + values
        recurrent = values * fields.integer("linear_key_head_dim", default=0)
        return (self.hidden * (channels + values + 2 * value_heads) + channels * kernel + values * self.hidden,
                2 * channels * (kernel - 1) + self._state_bytes() * recurrent)

    def _kda(self) -> tuple[int, int]:
        """Kimi delta attention: four square projections, and two low-rank gates of one head's width."""
        linear = Fields(self.fields.mapping("linear_attn_config"), self.fields.where)
        heads, width = linear.integer("num_heads", default=self.heads), linear.integer("head_dim", default=self.head_dim)
        kernel = linear.integer("short_conv_kernel_size", default=4)
        inner = heads * width
        gates = 2 * (self.hidden * width + width * inner) + self.hidden * heads
        return (4 * self.hidden * inner + gates + 3 * inner * kernel,
                2 * 3 * inner * (kernel - 1) + self._state_bytes() * inner * width)

    def _mamba2(self) -> tuple[int, int]:
        fields = self.fields
        heads = fields.integer("mamba_num_heads", "mamba_n_heads", "num_heads", default=self.heads)
        inner = heads * fields.integer("mamba_head_dim", "mamba_d_head", "head_dim", default=64)
        state = fields.integer("ssm_state_size", "mamba_d_state", "state_size", default=128)
        groups = fields.integer("n_groups", "mamba_n_groups", default=1)
        kernel = fields.integer("conv_kernel", "mamba_d_conv", default=4)
        channels = inner + 2 * groups * state
        return (self.hidden * (inner + channels + heads) + channels * kernel + inner * self.hidden,
                2 * channels * (kernel - 1) + self._state_bytes() * inner * state)

    def _mamba(self) -> tuple[int, int]:
        fields = self.fields
        inner = fields.integer("mamba_expand", "expand", default=2) * self.hidden
        state = fields.integer("mamba_d_state", "state_size", "ssm_state_size", default=16)
        kernel = fields.integer("mamba_d_conv", "conv_kernel", default=4)
        rank = fields.values.get("mamba_dt_rank", fields.values.get("time_step_rank"))
        rank = rank if isinstance(rank, int) and not isinstance(rank, bool) else -(-self.hidden // 16)
        return (self.hidden * 2 * inner + inner * (kernel + rank + 2 * state + state) + rank * inner + inner * self.hidden,
                2 * inner * (kernel - 1) + self._state_bytes() * inner * state)

    def _state_bytes(self) -> int:
        wide = self.fields.values.get("mamba_ssm_dtype", self.fields.values.get("mamba_ssm_cache_dtype"))
        return 4 if wide == "float32" else 2

    def mixer(self, mixer: Mixer) -> tuple[int, int]:
        """Parameters and state bytes of one layer's mixer."""
        if mixer in ("full", "sliding"):
            return self._attention(mixer), 0
        if mixer == "mla":
            return self._mla(), 0
        if mixer == "gdn":
            return self._gdn()
        if mixer == "kda":
            return self._kda()
        if mixer == "mamba2":
            return self._mamba2()
        if mixer == "mamba":
            return self._mamba()
        if mixer == "conv":
            kernel = self.fields.integer("conv_L_cache", default=3)
            return self.hidden * self.hidden * 4 + self.hidden * kernel, 2 * self.hidden * kernel
        if mixer == "linear":
            inner = self.heads * self.head_dim
            return 5 * self.hidden * inner, self._state_bytes() * inner * self.head_dim
        return 0, 0

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
        mtp = self.mtp_layers()
        # An MTP layer: one decoder layer of the last kind and a projection of two hidden states to one.
        last = self.layers[-1]
        layer = self.mixer("mla" if last.mixer == "mla" else "full")[0] + (
            self.experts * self.expert_params() + self.shared_params() if moe_layers else
            self.matrices * self.hidden * self.dense_width) + 2 * self.hidden * self.hidden
        return Count(
            embedding=table, head=0 if self.tied else table, attention=attention,
            dense=dense_layers * self.matrices * self.hidden * self.dense_width + router,
            experts=moe_layers * self.experts * self.expert_params(),
            experts_read=moe_layers * self.experts_per_token * self.expert_params(),
            shared=moe_layers * self.shared_params(), mtp=mtp * layer)

    def mtp_layers(self) -> int:
        return self.fields.integer("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules",
                                   "num_mtp_layers", "n_predict", default=0, most=MAX_MTP)

    # --- groups
    def attention_groups(self) -> tuple[AttentionGroup, ...]:
        """Layers by kind; layers that share another's KV cache, and those without a mixer, are left out."""
        numbers: Counter[Mixer] = Counter(layer.mixer for layer in self.layers if layer.mixer != "none" and layer.own_kv)
        ratios = self.fields.integers("compress_ratios")
        if ratios:
            return self._compressed(ratios[: len(self.layers)])
        window = self.fields.optional("sliding_window", "attention_chunk_size")
        groups = []
        for mixer, number in numbers.items():
            if mixer in ("full", "sliding"):
                full = mixer == "full"
                groups.append(AttentionGroup(
                    kind=cast(AttentionKind, mixer), layers=number,
                    kv_heads=self.fields.integer("num_global_key_value_heads", default=self.kv_heads) if full
                    else self.kv_heads,
                    head_dim=self.fields.integer("global_head_dim", default=self.head_dim) if full else self.head_dim,
                    window=None if full else window))
            elif mixer == "mla":
                row = self.fields.integer("kv_lora_rank") + self.fields.integer("qk_rope_head_dim", default=0)
                groups.append(AttentionGroup(kind="mla", layers=number, kv_heads=1, head_dim=row))
            else:
                groups.append(AttentionGroup(kind="linear", layers=number, state_bytes=self.mixer(mixer)[1]))
        return tuple(groups)

    def _compressed(self, ratios: Sequence[int]) -> tuple[AttentionGroup, ...]:
        """DeepSeek V4: one shared row a token, stored once every `ratio` tokens; ratio 0 or 1 keeps a sliding window."""
        window = self.fields.optional("sliding_window")
        return tuple(
            AttentionGroup(kind="mla", layers=number, kv_heads=1, head_dim=max(1, self.head_dim // ratio)) if ratio > 1 else
            AttentionGroup(kind="sliding", layers=number, kv_heads=1, head_dim=self.head_dim, window=window)
            for ratio, number in sorted(Counter(ratios).items()))


MAX_MTP = 64


def mean_bits(count: Count, dtype: str, quantization: Quantization | None) -> float:
    """Mean bits of a stored parameter: embedding table and output head keep the checkpoint's own type."""
    plain = dtype_bits(dtype)
    if quantization is None or count.total == 0:
        return plain
    quantized = count.experts if quantization.scope == "experts" else count.total - count.embedding - count.head
    return (quantized * quantization.bits + (count.total - quantized) * plain) / count.total


def count_parameters(config: Mapping[str, Any], where: str) -> Count:
    """Parameters by part, from a config alone. Raises InputError like `shape_of`."""
    return _Shape(config, where).count()


def shape_of(config: Mapping[str, Any], *, model_id: str, where: str, revision: str | None = None,
             config_hash: str | None = None, tokenizer: TokenizerFingerprint | None = None, origin: str = "",
             source: Source = Source.RECORDED) -> ModelShape:
    """The shape a config.json describes.

    Args:
        config: the parsed file.
        model_id: what to call the model.
        where: the file, for error sentences.

    Raises:
        InputError: a needed key is missing or of the wrong kind; the sentence names it.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"{where}: holds a {type(config).__name__}: expected a mapping; fetch config.json again")
    shape = _Shape(config, where)
    count = shape.count()
    outer = Fields(config, where)
    dtype = shape.fields.values.get("dtype", shape.fields.values.get("torch_dtype"))
    dtype = dtype.removeprefix("torch.") if isinstance(dtype, str) else "bfloat16"
    quantization = read_quantization(config.get("quantization_config") or shape.fields.values.get("quantization_config"))
    moe_layers = sum(layer.feed_forward == "moe" for layer in shape.layers)
    moe = MoEShape(num_experts=shape.experts, experts_per_token=shape.experts_per_token or 1,
                   expert_params=shape.expert_params(), moe_layers=moe_layers,
                   shared_params=shape.shared_params()) if moe_layers else None
    return ModelShape(
        id=model_id, revision=revision, config_hash=config_hash, architectures=outer.strings("architectures") or (),
        model_type=outer.model_type or shape.model_type, params=count.total, active_params=count.active(shape.tied),
        embedding_params=count.embedding, num_layers=len(shape.layers), hidden_size=shape.hidden,
        num_attention_heads=shape.heads, intermediate_size=shape.intermediate, vocab_size=shape.vocab,
        attention=shape.attention_groups(), moe=moe, tie_word_embeddings=shape.tied,
        max_position_embeddings=shape.fields.optional("max_position_embeddings", "n_positions", "max_sequence_length",
                                                      "seq_length"),
        dtype=dtype, quantization=quantization.name if quantization else None,
        bits_per_weight=round(mean_bits(count, dtype, quantization), 4), mtp_layers=shape.mtp_layers(),
        mtp_params=count.mtp, draft_vocab_size=shape.fields.optional("draft_vocab_size"), tokenizer=tokenizer,
        source=source, origin=origin)
