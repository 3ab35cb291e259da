"""A model reference becomes a shape: every architecture, exact weights from headers, one sentence when it fails.

All configs here are synthetic: small models of the same form as the published ones.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.model import model_path, resolve_model
from profiles.catalog.shapes import AttentionGroup, ModelShape
from profiles.errors import InputError, ModelNotFound
from profiles.model_ref import ModelRef

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "max_position_embeddings": 256,
    "dtype": "bfloat16",
}
LAYER = 64 * 8 * (8 + 2 * 2) + 64 * 64 + 3 * 64 * 128
TABLE = 100 * 64


@pytest.fixture(autouse=True)
def _no_cache_and_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf-cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def write_model(folder: Path, config: object, tensors: Mapping[str, tuple[str, tuple[int, ...]]] | None = None) -> Path:
    """A model folder; the weights file has a true header and zeros behind it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    if tensors:
        write_weights(folder / "model.safetensors", tensors)
    return folder


def write_weights(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    size = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "U8": 1, "BOOL": 1}
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        length = size[dtype]
        for dimension in shape:
            length *= dimension
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + length]}
        offset += length
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset))


def shape_of(
    tmp_path: Path, config: object, tensors: Mapping[str, tuple[str, tuple[int, ...]]] | None = None
) -> ModelShape:
    write_model(tmp_path / "model", config, tensors)
    return resolve_model(ModelRef(id="./model"), tmp_path)


def full(layers: int, kv_heads: int, head_dim: int) -> AttentionGroup:
    return AttentionGroup(kind="full", layers=layers, kv_heads=kv_heads, head_dim=head_dim)


# --- kinds
def test_grouped_query_attention_counts_its_key_value_heads(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, LLAMA)
    assert shape.attention == (full(4, 2, 8),)
    assert shape.params == 2 * TABLE + 4 * LAYER
    assert shape.active_params == TABLE + 4 * LAYER
    assert shape.embedding_params == TABLE
    assert (shape.dtype, shape.bits_per_weight, shape.max_position_embeddings) == ("bfloat16", 16.0, 256)


def test_without_key_value_heads_every_head_has_its_own(tmp_path: Path) -> None:
    config = {key: value for key, value in LLAMA.items() if key not in ("num_key_value_heads", "head_dim")}
    assert shape_of(tmp_path, config).attention == (full(4, 8, 8),)


def test_a_tied_table_is_stored_once_and_read_as_the_output_head(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, {**LLAMA, "tie_word_embeddings": True})
    assert shape.params == TABLE + 4 * LAYER
    assert shape.active_params == shape.params


def test_a_mixture_reads_only_the_experts_of_a_token(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2})
    attention = LAYER - 3 * 64 * 128
    expert = 3 * 64 * 128
    assert shape.moe is not None
    assert (shape.moe.num_experts, shape.moe.experts_per_token, shape.moe.expert_params) == (8, 2, expert)
    assert shape.params == 2 * TABLE + 4 * (attention + 8 * expert + 8 * 64)
    assert shape.active_params == TABLE + 4 * (attention + 2 * expert + 8 * 64)


def test_dense_first_layers_and_shared_experts_are_counted(tmp_path: Path) -> None:
    shape = shape_of(
        tmp_path,
        {
            **LLAMA,
            "model_type": "deepseek_v3",
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "q_lora_rank": 24,
            "num_nextn_predict_layers": 1,
        },
    )
    assert shape.attention == (AttentionGroup(kind="mla", layers=4, kv_heads=1, head_dim=20),)
    mla = 64 * 24 + 24 * 8 * 12 + 64 * 20 + 16 * 8 * 16 + 8 * 8 * 64
    expert = 3 * 64 * 32
    assert shape.moe is not None
    assert (shape.moe.moe_layers, shape.moe.shared_params) == (3, expert)
    assert shape.params == 2 * TABLE + 4 * mla + 3 * 64 * 128 + 3 * (4 * expert + expert + 4 * 64)
    assert shape.mtp_layers == 1
    assert shape.mtp_params == mla + 5 * expert + 2 * 64 * 64


@pytest.mark.parametrize(
    ("extra", "sliding", "whole"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 16}, 2, 2),
        ({"model_type": "mistral", "sliding_window": 16}, 4, 0),
        ({"model_type": "mistral", "sliding_window": None}, 0, 4),
        ({"model_type": "mistral", "sliding_window": 4096}, 0, 4),
        ({"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": False}, 0, 4),
        ({"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": True, "max_window_layers": 3}, 1, 3),
        ({"model_type": "gemma2", "sliding_window": 16}, 2, 2),
        ({"model_type": "gemma3_text", "sliding_window": 16, "num_hidden_layers": 6}, 5, 1),
        ({"model_type": "gemma3_text", "sliding_window": 16, "sliding_window_pattern": 4}, 3, 1),
        ({"model_type": "gpt_oss", "sliding_window": 16}, 2, 2),
    ],
)
def test_sliding_layers_are_found_however_the_config_says_it(
    tmp_path: Path, extra: dict[str, Any], sliding: int, whole: int
) -> None:
    kinds = {group.kind: group for group in shape_of(tmp_path, {**LLAMA, **extra}).attention}
    assert (kinds["sliding"].layers if "sliding" in kinds else 0) == sliding
    assert (kinds["full"].layers if "full" in kinds else 0) == whole
    if sliding:
        assert kinds["sliding"].window == 16


def test_gated_delta_net_layers_keep_a_state_instead_of_kv(tmp_path: Path) -> None:
    shape = shape_of(
        tmp_path,
        {
            **LLAMA,
            "model_type": "qwen3_next",
            "full_attention_interval": 4,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_conv_kernel_dim": 4,
        },
    )
    linear, whole = shape.attention
    assert (linear.kind, linear.layers, whole.kind, whole.layers) == ("linear", 3, "full", 1)
    assert linear.state_bytes == 2 * (2 * 16 + 32) * 3 + 2 * 32 * 8


def test_mamba_layers_and_feed_forward_layers_are_told_from_attention(tmp_path: Path) -> None:
    shape = shape_of(
        tmp_path,
        {
            **LLAMA,
            "model_type": "nemotron_h",
            "hybrid_override_pattern": "M-*-",
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "ssm_state_size": 16,
        },
    )
    assert {group.kind: group.layers for group in shape.attention} == {"linear": 1, "full": 1}
    mamba = 64 * (64 + 64 + 32 + 8) + 96 * 4 + 64 * 64
    assert shape.params == 2 * TABLE + mamba + (LAYER - 3 * 64 * 128) + 2 * 2 * 64 * 128


def test_a_multimodal_config_is_read_through_its_text_part(tmp_path: Path) -> None:
    text = {key: value for key, value in LLAMA.items() if key not in ("architectures", "tie_word_embeddings")}
    shape = shape_of(
        tmp_path,
        {
            "architectures": ["SomethingForConditionalGeneration"],
            "model_type": "something",
            "tie_word_embeddings": True,
            "text_config": text,
            "vision_config": {"hidden_size": 32},
        },
    )
    assert shape.architectures == ("SomethingForConditionalGeneration",)
    assert shape.params == TABLE + 4 * LAYER


# --- heads
def test_an_eagle3_head_brings_its_layer_its_projection_and_its_small_output_head(tmp_path: Path) -> None:
    shape = shape_of(
        tmp_path, {**LLAMA, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 40}
    )
    inputs = 64 * 8 * (8 + 2 * 2)
    assert shape.draft_vocab_size == 40
    assert shape.params == LAYER + inputs + 3 * 64 * 64 + 40 * 64
    assert shape.active_params == shape.params
    assert shape.embedding_params == 0


def test_a_plain_llama_with_a_projection_in_its_weights_is_an_eagle_head(tmp_path: Path) -> None:
    tensors = {
        "fc.weight": ("BF16", (64, 128)),
        "layers.0.self_attn.q_proj.weight": ("BF16", (64, 64)),
        "embed_tokens.weight": ("BF16", (100, 64)),
    }
    shape = shape_of(tmp_path, {**LLAMA, "num_hidden_layers": 1}, tensors)
    assert shape.params == 64 * 128 + 64 * 64 + TABLE
    assert shape.embedding_params == TABLE
    assert shape.active_params == LAYER + 2 * 64 * 64 + TABLE


def test_a_speculators_head_is_read_through_its_layer_config(tmp_path: Path) -> None:
    shape = shape_of(
        tmp_path,
        {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "draft_vocab_size": 40,
            "transformer_layer_config": {**LLAMA, "num_hidden_layers": 1},
        },
    )
    assert shape.num_layers == 1
    assert shape.draft_vocab_size == 40


def test_medusa_heads_have_no_attention(tmp_path: Path) -> None:
    shape = shape_of(
        tmp_path,
        {"model_type": "medusa", "medusa_num_heads": 3, "medusa_num_layers": 1, "hidden_size": 64, "vocab_size": 100},
    )
    assert shape.attention == ()
    assert shape.params == 3 * (64 * 64 + TABLE)


# --- weights
WEIGHTS = {
    "model.embed_tokens.weight": ("BF16", (100, 64)),
    "lm_head.weight": ("BF16", (100, 64)),
    "model.norm.weight": ("BF16", (64,)),
    **{f"model.layers.{number}.mlp.up_proj.weight": ("BF16", (LAYER // 64, 64)) for number in range(4)},
}


def test_headers_give_exact_parameters_and_bytes(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, LLAMA, WEIGHTS)
    assert shape.params == 2 * TABLE + 4 * LAYER + 64
    assert shape.weight_bytes == shape.weights_bytes == 2 * shape.params
    assert shape.active_params == shape.params - TABLE


def test_an_output_head_stored_beside_a_tied_table_is_not_loaded(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, {**LLAMA, "tie_word_embeddings": True}, WEIGHTS)
    assert shape.params == TABLE + 4 * LAYER + 64


def test_a_config_silent_about_tying_is_tied_when_no_output_head_is_stored(tmp_path: Path) -> None:
    silent = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    without = {name: tensor for name, tensor in WEIGHTS.items() if name != "lm_head.weight"}
    assert shape_of(tmp_path, silent, without).tie_word_embeddings
    assert not shape_of(tmp_path / "other", silent, WEIGHTS).tie_word_embeddings


def test_mtp_layers_in_the_checkpoint_are_kept_apart(tmp_path: Path) -> None:
    tensors = {
        **WEIGHTS,
        "model.layers.4.mlp.up_proj.weight": ("BF16", (128, 64)),
        "mtp.fc.weight": ("BF16", (64, 128)),
    }
    shape = shape_of(tmp_path, {**LLAMA, "num_nextn_predict_layers": 1}, tensors)
    assert shape.mtp_params == 2 * 128 * 64
    assert shape.params == 2 * TABLE + 4 * LAYER + 64


def test_layers_that_only_the_model_type_promises_are_gone_where_the_checkpoint_holds_none(tmp_path: Path) -> None:
    silent = {**LLAMA, "model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"]}
    stripped = shape_of(tmp_path / "stripped", silent, WEIGHTS)
    assert (stripped.mtp_layers, stripped.mtp_params) == (0, 0)
    held = shape_of(tmp_path / "held", silent, {**WEIGHTS, "model.layers.4.eh_proj.weight": ("BF16", (64, 128))})
    assert (held.mtp_layers, held.mtp_params) == (1, 64 * 128)


def test_attention_masks_in_a_checkpoint_are_no_parameters(tmp_path: Path) -> None:
    tensors = {
        **WEIGHTS,
        "model.layers.0.attention.bias": ("BOOL", (1, 1, 64, 64)),
        "model.layers.0.attention.rotary_emb.inv_freq": ("F32", (4,)),
    }
    assert shape_of(tmp_path, LLAMA, tensors).params == 2 * TABLE + 4 * LAYER + 64


def test_several_weight_files_are_added_up(tmp_path: Path) -> None:
    names = list(WEIGHTS)
    folder = write_model(tmp_path / "model", LLAMA)
    write_weights(folder / "model-00001-of-00002.safetensors", {name: WEIGHTS[name] for name in names[:3]})
    write_weights(folder / "model-00002-of-00002.safetensors", {name: WEIGHTS[name] for name in names[3:]})
    assert resolve_model(ModelRef(id=str(folder)), tmp_path).params == 2 * TABLE + 4 * LAYER + 64


@pytest.mark.parametrize(
    ("quantization", "name", "low", "high"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8.0, 9.5),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 4.1, 6.2),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128, "sym": True}, "gptq", 8.1, 9.7),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4.4, 6.5),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 4.4, 6.5),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 16, "type": "float"}}},
            },
            "compressed-tensors",
            4.4,
            6.5,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "compressed-tensors",
            8.0,
            9.5,
        ),
        ({"quant_method": "never-heard-of"}, "never-heard-of", 8.0, 9.5),
    ],
)
def test_quantization_gives_bits_per_weight_with_tables_unquantized(
    tmp_path: Path, quantization: dict[str, Any], name: str, low: float, high: float
) -> None:
    shape = shape_of(tmp_path, {**LLAMA, "quantization_config": quantization})
    assert shape.quantization == name
    assert low < shape.bits_per_weight < high
    assert shape.weights_bytes == int(shape.params * shape.bits_per_weight / 8)


def test_mxfp4_counts_for_the_experts_only(tmp_path: Path) -> None:
    config = {
        **LLAMA,
        "model_type": "gpt_oss",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "quantization_config": {"quant_method": "mxfp4"},
    }
    shape = shape_of(tmp_path, config)
    assert shape.moe is not None
    experts = 4 * 8 * shape.moe.expert_params
    assert shape.bits_per_weight == pytest.approx(
        (experts * 4.25 + (shape.params - experts) * 16) / shape.params, rel=1e-4
    )


def test_packed_weights_keep_the_shapes_parameters_and_the_headers_bytes(tmp_path: Path) -> None:
    tensors = {**WEIGHTS, "model.layers.0.mlp.down_proj.qweight": ("I32", (64, 16))}
    config = {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    shape = shape_of(tmp_path, config, tensors)
    assert shape.params == 2 * TABLE + 4 * LAYER
    assert shape.weight_bytes == 2 * (2 * TABLE + 4 * LAYER + 64) + 64 * 16 * 4


def test_modelopts_own_quantization_file_is_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", LLAMA)
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}), encoding="utf-8")
    assert resolve_model(ModelRef(id="./model"), tmp_path).quantization == "fp8"


# --- tokenizers
def tokenizer_json(vocab: dict[str, int], merges: list[Any], added: list[dict[str, Any]]) -> str:
    return json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": merges}, "added_tokens": added})


def test_equal_tokens_have_equal_fingerprints_however_the_file_is_written(tmp_path: Path) -> None:
    added = [{"id": 3, "content": "<s>", "special": True}]
    one, two = write_model(tmp_path / "one", LLAMA), write_model(tmp_path / "two", LLAMA)
    (one / "tokenizer.json").write_text(tokenizer_json({"a": 0, "b": 1, "ab": 2}, ["a b"], added), encoding="utf-8")
    (two / "tokenizer.json").write_text(
        tokenizer_json({"ab": 2, "b": 1, "a": 0}, [["a", "b"]], added), encoding="utf-8"
    )
    first, second = (resolve_model(ModelRef(id=name), tmp_path).tokenizer for name in ("one", "two"))
    assert first is not None
    assert first == second
    assert first.vocab_size == 100


@pytest.mark.parametrize(
    ("vocab", "merges", "added", "differs"),
    [
        ({"a": 1, "b": 0, "ab": 2}, ["a b"], 3, "vocab_hash"),
        ({"a": 0, "b": 1, "ab": 2}, ["b a"], 3, "merges_hash"),
        ({"a": 0, "b": 1, "ab": 2}, ["a b"], 4, "added_tokens_hash"),
    ],
)
def test_different_tokens_have_different_fingerprints(
    tmp_path: Path, vocab: dict[str, int], merges: list[str], added: int, differs: str
) -> None:
    one, two = write_model(tmp_path / "one", LLAMA), write_model(tmp_path / "two", LLAMA)
    (one / "tokenizer.json").write_text(
        tokenizer_json({"a": 0, "b": 1, "ab": 2}, ["a b"], [{"id": 3, "content": "<s>"}]), encoding="utf-8"
    )
    (two / "tokenizer.json").write_text(
        tokenizer_json(vocab, merges, [{"id": added, "content": "<s>"}]), encoding="utf-8"
    )
    first, second = (resolve_model(ModelRef(id=name), tmp_path).tokenizer for name in ("one", "two"))
    assert first is not None
    assert second is not None
    changed = {
        name
        for name in ("vocab_hash", "merges_hash", "added_tokens_hash")
        if getattr(first, name) != getattr(second, name)
    }
    assert changed == {differs}


def test_a_broken_tokenizer_file_is_one_sentence(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", LLAMA)
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json cannot be read as JSON"):
        resolve_model(ModelRef(id="./model"), tmp_path)


# --- what is wrong
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON at line 1"),
        ("[]", "is a list"),
        ("null", "is empty"),
        ("{}", "hidden_size"),
        ('{"hidden_size": "big"}', "hidden_size is 'big': expected a whole number"),
        ('{"hidden_size": true}', "hidden_size is 'True'"),
        ('{"hidden_size": -5}', "hidden_size is -5"),
        ('{"hidden_size": 64.5}', "expected a whole number"),
        ('{"hidden_size": NaN}', "expected a whole number"),
        ('{"hidden_size": Infinity}', "expected a whole number"),
        ('{"hidden_size": [64]}', "expected a whole number"),
        ('{"hidden_size": 64, "vocab_size": 10}', "num_hidden_layers"),
        ('{"hidden_size": 64, "vocab_size": 10, "num_hidden_layers": 999999999}', "expected 1 to"),
        ("[" * 100_000, "is not JSON"),
        ("\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"), "is not JSON"),
    ],
)
def test_an_unusable_config_is_one_sentence_that_names_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    write_model(tmp_path / "model", text)
    with pytest.raises(InputError) as caught:
        resolve_model(ModelRef(id="./model"), tmp_path)
    message = str(caught.value)
    assert says in message
    assert "config.json" in message
    assert "\n" not in message


def test_an_enormous_config_is_not_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", LLAMA)
    with (folder / "config.json").open("r+b") as stream:
        stream.truncate(64 * 2**20)
    with pytest.raises(InputError, match="expected a config of some kilobytes"):
        resolve_model(ModelRef(id="./model"), tmp_path)


def test_a_truncated_weights_file_is_one_sentence(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", LLAMA, WEIGHTS)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        resolve_model(ModelRef(id="./model"), tmp_path)


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(
            [
                *LLAMA,
                "layer_types",
                "sliding_window",
                "num_experts",
                "quantization_config",
                "text_config",
                "kv_lora_rank",
                "full_attention_interval",
                "moe_layer_freq",
                "hybrid_override_pattern",
                "linear_attn_config",
                "compress_ratios",
                "draft_vocab_size",
            ]
        ),
        values,
        max_size=6,
    )
)
def test_no_config_crashes_the_reader(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_model(tmp_path / "model", {**LLAMA, **changes})
    try:
        shape = resolve_model(ModelRef(id="./model"), tmp_path)
    except InputError as error:
        message = str(error)
    else:
        message = "" if shape.params >= 0 else "negative\n"
    assert "\n" not in message


# --- where
def test_a_relative_folder_is_relative_to_the_deployment_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "deployments" / "model", LLAMA)
    monkeypatch.chdir(tmp_path)
    shape = resolve_model(ModelRef(id="model"), tmp_path / "deployments")
    assert shape.id == "model"
    assert shape.config_hash is not None
    assert "folder" in shape.origin


def test_a_folder_wins_over_the_catalog(tmp_path: Path) -> None:
    write_model(tmp_path / "Qwen" / "Qwen3-8B", LLAMA)
    assert resolve_model(ModelRef(id="Qwen/Qwen3-8B"), tmp_path).hidden_size == 64


def cached(tmp_path: Path, model_id: str, config: object, revision: str = "main") -> Path:
    """A model in the layout of the Hugging Face cache."""
    repo = tmp_path / "hf-cache" / f"models--{model_id.replace('/', '--')}"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / revision).write_text("c0ffee", encoding="utf-8")
    return write_model(repo / "snapshots" / "c0ffee", config)


def test_the_local_cache_wins_over_the_catalog_and_names_the_commit(tmp_path: Path) -> None:
    cached(tmp_path, "Qwen/Qwen3-8B", LLAMA)
    shape = resolve_model(ModelRef(id="Qwen/Qwen3-8B"), tmp_path)
    assert shape.hidden_size == 64
    assert shape.revision == "c0ffee"
    assert "cache" in shape.origin
    assert resolve_model(ModelRef(id="Qwen/Qwen3-8B", revision="other"), tmp_path).hidden_size == 4096


def test_a_known_model_needs_no_network(tmp_path: Path) -> None:
    shape = resolve_model(ModelRef(id="meta-llama/Llama-3.1-8B-Instruct"), tmp_path)
    assert "catalog" in shape.origin
    assert resolve_model(ModelRef(id="https://huggingface.co/Qwen/Qwen3-8B"), tmp_path).hidden_size == 4096


def test_an_unknown_model_offline_says_where_was_looked_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound) as caught:
        resolve_model(ModelRef(id="nobody/Qwen3-8B-special"), tmp_path)
    message = str(caught.value)
    for part in (
        str(tmp_path / "nobody"),
        "hf-cache",
        "catalog",
        "HF_HUB_OFFLINE",
        "hf download nobody/Qwen3-8B-special config.json",
        "give a folder",
    ):
        assert part in message


@pytest.mark.parametrize("model_id", ["./gone", "/nowhere/at/all", "a/b/c", "~nobody-has-this-name/x", "..", "gone/"])
def test_a_missing_folder_is_never_looked_for_on_the_hub(tmp_path: Path, model_id: str) -> None:
    with pytest.raises(ModelNotFound, match="folder"):
        resolve_model(ModelRef(id=model_id), tmp_path)


def test_a_folder_without_config_says_what_it_holds_and_a_near_name_is_offered(tmp_path: Path) -> None:
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFound, match=r"model\.gguf"):
        resolve_model(ModelRef(id="./gguf"), tmp_path)
    with pytest.raises(ModelNotFound, match="holds no config"):
        resolve_model(ModelRef(id="gguf"), tmp_path)
    with pytest.raises(ModelNotFound, match="beside it: gguf"):
        resolve_model(ModelRef(id="./ggu"), tmp_path)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=300))
def test_no_reference_crashes_the_resolver(tmp_path: Path, text: str) -> None:
    try:
        message = resolve_model(ModelRef(id=text), tmp_path).id
    except InputError as error:
        message = str(error)
    assert message.isprintable()


def test_only_a_folder_with_weights_can_be_run(tmp_path: Path) -> None:
    write_model(tmp_path / "shape-only", LLAMA)
    folder = write_model(tmp_path / "whole", LLAMA, WEIGHTS)
    assert model_path(ModelRef(id="whole"), tmp_path) == folder
    assert model_path(ModelRef(id="shape-only"), tmp_path) is None
    assert model_path(ModelRef(id="Qwen/Qwen3-8B"), tmp_path) is None


def test_resolving_imports_no_engine_and_no_model_code(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", {**LLAMA, "auto_map": {"AutoConfig": "evil.Config"}}, WEIGHTS)
    (folder / "evil.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from probes.model import resolve_model\n"
        "from profiles.deployment import ModelRef\n"
        f"resolve_model(ModelRef(id={str(folder)!r}), Path('.'))\n"
        "assert not {'transformers', 'torch', 'vllm', 'evil', 'huggingface_hub'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "PYTHONPATH": os.getcwd()})
