"""Config-only model folders: what vLLM's configuration stage reads, and no weights. Written by hand, synthetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "kv_lora_rank": 64,
    "q_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
    "num_nextn_predict_layers": 1,
    "routed_scaling_factor": 1.0,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "attention_bias": False,
}
FOLDERS: dict[str, dict[str, Any]] = {
    "target": LLAMA,
    "draft": {**LLAMA, "num_hidden_layers": 2},
    "eagle-head": {**LLAMA, "num_hidden_layers": 1},
    "eagle3-head": {
        **LLAMA,
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 8000,
    },
    "medusa-head": {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": 256,
        "vocab_size": 32000,
        "num_heads": 3,
        "num_hidden_layers": 1,
        "truncated_vocab_size": 32000,
    },
    "mlp-head": {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "emb_dim": 256,
        "inner_dim": 256,
        "n_predict": 3,
        "top_k_tokens_per_head": [1, 1, 1],
        "n_candidates": 1,
        "vocab_size": 32000,
    },
    "dflash-head": {
        **LLAMA,
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "block_size": 8,
        "dflash_config": {"mask_token_id": 31999, "target_layer_ids": [1, 3, 5]},
    },
    "mtp-target": DEEPSEEK,
}


def write_folders(root: Path) -> None:
    """One folder with a config.json for each of FOLDERS."""
    for name, config in FOLDERS.items():
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
