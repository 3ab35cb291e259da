"""The dimensions of a model as its config.json gives them, and what each kind of token mixer costs in parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiles.catalog.layers import Fields, Mixer, experts, read_layers

_NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "transformer_layer_config")
# Feed-forward blocks with two matrices instead of three (no gate).
_UNGATED = (
    "opt",
    "gpt2",
    "gpt_neox",
    "gptj",
    "gpt_neo",
    "falcon",
    "starcoder2",
    "phi-msft",
    "phi",
    "bloom",
    "mpt",
    "nemotron",
    "gpt_bigcode",
    "nemotron_h",
)
# Config classes of transformers whose embedding table doubles as output head unless the file says otherwise.
_TIED_BY_DEFAULT = ("gemma", "gpt2", "opt", "bloom", "falcon", "starcoder2", "smollm3", "cohere", "gpt_bigcode", "mpt")


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's part of a multimodal config, with what only the outer level says."""
    for name in _NESTED:
        nested = config.get(name)
        if isinstance(nested, Mapping) and nested:
            outer = {
                key: config[key]
                for key in (
                    "tie_word_embeddings",
                    "dtype",
                    "torch_dtype",
                    "quantization_config",
                    "vocab_size",
                    "draft_vocab_size",
                    "eagle_config",
                )
                if config.get(key) is not None
            }
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
    return (
        fields.integer(
            "num_key_value_heads",
            "num_kv_heads",
            "n_head_kv",
            "num_query_groups",
            "multi_query_group_num",
            default=heads,
        )
        or heads
    )


class Dimensions:
    """The numbers of one config, and the parameters and state of each kind of token mixer."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.outer = Fields(config, where)
        self.fields = fields = Fields(text_config(config), where)
        self.hidden = fields.integer("hidden_size", "n_embd", "d_model", "dim", least=1)
        self.heads = fields.integer("num_attention_heads", "n_head", "n_heads", "num_heads", default=1, most=10**6) or 1
        self.kv_heads = _key_value_heads(fields, self.heads)
        self.head_dim = _head_dim(fields, self.hidden, self.heads)
        widths = fields.integers("intermediate_size")
        self.intermediate = (
            widths[0]
            if widths
            else fields.integer(
                "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "inner_dim", default=4 * self.hidden
            )
        )
        # Llama 4 keeps the dense layers' width apart from the experts'.
        self.dense_width = fields.integer("intermediate_size_mlp", default=self.intermediate)
        self.vocab = fields.integer("vocab_size", "padded_vocab_size", least=1)
        self.layers = read_layers(fields)
        self.model_type = fields.model_type
        tied = fields.values.get("tie_word_embeddings")
        self.tied = tied if isinstance(tied, bool) else self.model_type.startswith(_TIED_BY_DEFAULT)
        self.matrices = 2 if self.model_type in _UNGATED else 3
        self.experts = experts(fields)
        self.experts_per_token = fields.integer(
            "num_experts_per_tok",
            "num_experts_per_token",
            "moe_topk",
            "moe_k",
            "top_k_experts",
            "num_selected_experts",
            "experts_per_token",
            default=0,
        )
        widths = fields.integers("moe_intermediate_size")
        self.expert_width = (
            widths[0]
            if widths
            else fields.integer(
                "moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size", default=self.intermediate
            )
        )

    # --- mixers
    def _attention(self, mixer: Mixer) -> int:
        """Parameters of one softmax-attention layer."""
        heads, kv_heads, head_dim = self.heads, self.kv_heads, self.head_dim
        if mixer == "full":
            head_dim = self.fields.integer("global_head_dim", default=head_dim)
            kv_heads = self.fields.integer("num_global_key_value_heads", default=kv_heads)
        # Qwen3-Next and Qwen3.5 gate the attention output: the query projection is twice as wide.
        query = (
            2
            if self.fields.values.get("attn_output_gate") or self.model_type.startswith(("qwen3_next", "qwen3_5"))
            else 1
        )
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
        indexer = (
            index_heads * index_dim * (query_rank or self.hidden) + self.hidden * (index_dim + index_heads)
            if index_heads
            else 0
        )
        return (
            query
            + self.hidden * (rank + rope)
            + rank * self.heads * (nope + value)
            + self.heads * value * self.hidden
            + indexer
        )

    def _gdn(self) -> tuple[int, int]:
        """Gated delta net: parameters, state bytes (convolution in 16 bits, the recurrent state as the config says)."""
        fields = self.fields
        keys = fields.integer("linear_num_key_heads", default=0) * fields.integer("linear_key_head_dim", default=0)
        value_heads = fields.integer("linear_num_value_heads", default=0)
        values = value_heads * fields.integer("linear_value_head_dim", default=0)
        kernel = fields.integer("linear_conv_kernel_dim", default=4)
        channels = 2 * keys + values
        recurrent = values * fields.integer("linear_key_head_dim", default=0)
        return (
            self.hidden * (channels + values + 2 * value_heads) + channels * kernel + values * self.hidden,
            2 * channels * (kernel - 1) + self._state_bytes() * recurrent,
        )

    def _kda(self) -> tuple[int, int]:
        """Kimi delta attention: four square projections, and two low-rank gates of one head's width."""
        linear = Fields(self.fields.mapping("linear_attn_config"), self.fields.where)
        heads, width = (
            linear.integer("num_heads", default=self.heads),
            linear.integer("head_dim", default=self.head_dim),
        )
        kernel = linear.integer("short_conv_kernel_size", default=4)
        inner = heads * width
        gates = 2 * (self.hidden * width + width * inner) + self.hidden * heads
        return (
            4 * self.hidden * inner + gates + 3 * inner * kernel,
            2 * 3 * inner * (kernel - 1) + self._state_bytes() * inner * width,
        )

    def _mamba2(self) -> tuple[int, int]:
        fields = self.fields
        heads = fields.integer("mamba_num_heads", "mamba_n_heads", "num_heads", default=self.heads)
        inner = heads * fields.integer("mamba_head_dim", "mamba_d_head", "head_dim", default=64)
        state = fields.integer("ssm_state_size", "mamba_d_state", "state_size", default=128)
        groups = fields.integer("n_groups", "mamba_n_groups", default=1)
        kernel = fields.integer("conv_kernel", "mamba_d_conv", default=4)
        channels = inner + 2 * groups * state
        return (
            self.hidden * (inner + channels + heads) + channels * kernel + inner * self.hidden,
            2 * channels * (kernel - 1) + self._state_bytes() * inner * state,
        )

    def _mamba(self) -> tuple[int, int]:
        fields = self.fields
        inner = fields.integer("mamba_expand", "expand", default=2) * self.hidden
        state = fields.integer("mamba_d_state", "state_size", "ssm_state_size", default=16)
        kernel = fields.integer("mamba_d_conv", "conv_kernel", default=4)
        rank = fields.values.get("mamba_dt_rank", fields.values.get("time_step_rank"))
        rank = rank if isinstance(rank, int) and not isinstance(rank, bool) else -(-self.hidden // 16)
        return (
            self.hidden * 2 * inner + inner * (kernel + rank + 2 * state + state) + rank * inner + inner * self.hidden,
            2 * inner * (kernel - 1) + self._state_bytes() * inner * state,
        )

    def _state_bytes(self) -> int:
        """Bytes of a number of the recurrent state: as the config says, else what vLLM takes for the architecture."""
        wide = self.fields.values.get("mamba_ssm_dtype", self.fields.values.get("mamba_ssm_cache_dtype"))
        if wide is None:
            # Published Qwen3.5 configs ask for it; catalog facts often lack the key. Kimi's is always wide.
            return 4 if self.model_type.startswith("qwen3_5") or self.fields.mapping("linear_attn_config") else 2
        return 4 if wide == "float32" else 2

    def draft_state_bytes(self, mixer: Mixer) -> int:
        """Bytes that each speculated token adds to one layer's state: one more column of its convolution."""
        fields = self.fields
        if mixer == "gdn":
            keys = fields.integer("linear_num_key_heads", default=0) * fields.integer("linear_key_head_dim", default=0)
            values = fields.integer("linear_num_value_heads", default=0)
            return 2 * (2 * keys + values * fields.integer("linear_value_head_dim", default=0))
        if mixer == "kda":
            linear = Fields(fields.mapping("linear_attn_config"), fields.where)
            heads = linear.integer("num_heads", default=self.heads)
            return 2 * 3 * heads * linear.integer("head_dim", default=self.head_dim)
        if mixer == "mamba2":
            inner = fields.integer("mamba_num_heads", "mamba_n_heads", "num_heads", default=self.heads)
            inner *= fields.integer("mamba_head_dim", "mamba_d_head", "head_dim", default=64)
            state = fields.integer("ssm_state_size", "mamba_d_state", "state_size", default=128)
            return 2 * (inner + 2 * fields.integer("n_groups", "mamba_n_groups", default=1) * state)
        return 0

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
