"""The shape of a model, as far as memory and step time depend on it, and the fingerprint of its tokenizer."""

from __future__ import annotations

from typing import Literal

from profiles.schema import Schema, Source

AttentionKind = Literal["full", "sliding", "mla", "linear"]


class AttentionGroup(Schema):
    """Layers of one attention kind. `linear` (Mamba, GDN, ...) keeps a constant state instead of KV per token."""

    kind: AttentionKind
    layers: int
    kv_heads: int = 0
    """Key/value heads of each layer (full, sliding)."""
    head_dim: int = 0
    """Width of one head; for mla the compressed row: kv_lora_rank + qk_rope_head_dim."""
    window: int | None = None
    """Tokens a sliding layer keeps."""
    index_dim: int = 0
    """Width of a sparse attention's index key (DeepSeek V3.2 and kin); each layer caches one a token beside its KV."""
    state_bytes: int = 0
    """Bytes one linear layer keeps per request, whatever its length."""
    state_bytes_per_draft_token: int = 0
    """Bytes each speculated token adds to that state: the convolution in front of it looks further back."""


class MoEShape(Schema):
    """Mixture of experts: what is stored and what one token touches."""

    num_experts: int
    experts_per_token: int
    expert_params: int
    """Parameters of one routed expert of one layer."""
    moe_layers: int
    shared_params: int = 0
    """Parameters of the shared experts of one layer (read at every step)."""


class TokenizerFingerprint(Schema):
    """Enough to tell whether two models speak the same tokens. Hashes are sha256 of canonical JSON."""

    vocab_size: int
    vocab_hash: str | None = None
    merges_hash: str | None = None
    added_tokens_hash: str | None = None
    family: str | None = None
    """Label by model family where no tokenizer file was at hand."""


class ModelShape(Schema):
    """One model: parameters, layers, attention, vocabulary, and how its weights are stored."""

    id: str
    """HF id, or the folder's path as the user wrote it."""
    revision: str | None = None
    config_hash: str | None = None
    """sha256 of config.json, to notice drift."""
    architectures: tuple[str, ...] = ()
    model_type: str = ""
    params: int
    """Parameters stored, embeddings included, MTP layers apart (`mtp_params`)."""
    active_params: int
    """Parameters one token's forward pass multiplies with (equals `params` minus unread embeddings when dense)."""
    embedding_params: int = 0
    """Size of the input embedding table (looked up, not read whole); 0 for a head that shares the target's."""
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int = 0
    vocab_size: int
    attention: tuple[AttentionGroup, ...]
    moe: MoEShape | None = None
    tie_word_embeddings: bool = False
    max_position_embeddings: int | None = None
    dtype: str = "bfloat16"
    """Storage type of unquantized weights."""
    quantization: str | None = None
    """Weight quantization by its config name (fp8, awq, gptq, compressed-tensors, nvfp4, mxfp4 ...)."""
    bits_per_weight: float = 16.0
    """Mean bits a stored parameter takes, scales included."""
    weight_bytes: int | None = None
    """Exact bytes of the weights from safetensors headers, where read."""
    mtp_layers: int = 0
    """Multi-token-prediction layers in the checkpoint (k must be a multiple of, or within, this)."""
    mtp_params: int = 0
    """Parameters of those layers: loaded only when they draft. Counted neither in `params` nor in `weight_bytes`."""
    draft_vocab_size: int | None = None
    """A head's reduced vocabulary."""
    tokenizer: TokenizerFingerprint | None = None
    source: Source = Source.RECORDED
    origin: str = ""
    """Where the shape was read: a folder, the hub, or the catalog with its source."""

    @property
    def weights_bytes(self) -> int:
        """Bytes of the stored weights: exact where headers were read, else parameters times bits."""
        return self.weight_bytes if self.weight_bytes is not None else int(self.params * self.bits_per_weight / 8)
