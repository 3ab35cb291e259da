"""What is advised passes what is checked: every emitted config, over methods, runners and releases."""

from __future__ import annotations

import pytest

from advisor.checks.examples import subject_of
from advisor.checks.rule import Example
from advisor.checks.run import check
from advisor.emit.vllm_config import emit
from profiles.catalog.releases import release
from profiles.methods import METHODS
from tests.advisor.emit.situations import decision, memory, situation

SCHEDULE = ((1, 4, 3), (5, 16, 2), (17, 256, 0))
RELEASES = ("0.16.0", "0.20.0", "0.24.0", "0.27.0", "0.29.0", "0.32.0", "0.33.0", "nightly")
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
         "max_position_embeddings": 131072, "num_nextn_predict_layers": 1}
HEADS = {
    "eagle": {**LLAMA, "num_hidden_layers": 1, "eagle_config": {}, "architectures": ["EagleLlamaForCausalLM"]},
    "eagle3": {**LLAMA, "num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000},
    "dflash": {**LLAMA, "num_hidden_layers": 5, "architectures": ["DFlashDraftModel"], "block_size": 16},
    "dspark": {**LLAMA, "num_hidden_layers": 5, "architectures": ["Qwen3DSparkModel"], "block_size": 8},
    "medusa": {"architectures": ["MedusaModel"], "model_type": "medusa", "hidden_size": 4096, "vocab_size": 128256,
               "num_heads": 4},
    "mlp_speculator": {"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator",
                       "emb_dim": 4096, "inner_dim": 4096, "n_predict": 4, "vocab_size": 128256},
}
TARGETS = {"mtp": {**LLAMA, "architectures": ["MiMoForCausalLM"], "model_type": "mimo"}}
SMALL = {**LLAMA, "hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 4096}


@pytest.mark.parametrize(
    ("version", "method"),
    [(version, name) for version in RELEASES for name in METHODS if name in release(version).methods],
)
@pytest.mark.parametrize("schedule", [None, SCHEDULE], ids=["static", "schedule"])
def test_an_emitted_config_has_no_error(
    version: str, method: str, schedule: tuple[tuple[int, int, int], ...] | None
) -> None:
    candidate = {"method": method, "draft": "org/draft" if METHODS[method].needs_draft else None}
    stated = situation(version, candidates=[candidate])  # type: ignore[arg-type]
    written = emit(decision(method, draft="org/draft", schedule=schedule, running=8), stated, memory(), [])
    found = check(subject_of(Example(
        written.vllm_yaml, version, "H100", 1, dict(written.env),
        models={"org/target": {"config": TARGETS.get(method, LLAMA)},
                "org/draft": {"config": HEADS.get(method, SMALL)}},
    ))).findings
    assert [f"{f.code} {f.message}" for f in found if f.severity == "error"] == []
