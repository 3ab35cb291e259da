"""Which targets vLLM runs MTP layers for, and how many."""

from __future__ import annotations

import pytest

from profiles.catalog.architecture import shape_of
from profiles.catalog.compiled import compiled
from profiles.catalog.models import find_model
from profiles.catalog.mtp import mtp_family, refused_mtp, stated_layers
from profiles.catalog.releases import release

BASE = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
        "vocab_size": 100}


@pytest.mark.parametrize(("config", "layers"), [
    ({"model_type": "qwen3_next"}, 1),
    ({"model_type": "qwen3_next", "num_nextn_predict_layers": 0}, 0),
    ({"model_type": "glm4_moe", "num_nextn_predict_layers": 2}, 2),
    ({"model_type": "other", "architectures": ["Glm4MoeForCausalLM"]}, 1),
    ({"model_type": "mimo_v2_flash", "num_nextn_predict_layers": 3}, 1),
    ({"model_type": "deepseek_v3"}, 0),
    ({"model_type": "nemotron_h"}, 0),
    ({"model_type": "llama"}, 0),
    ({"model_type": "inkling_model", "mtp_config": {"num_nextn_predict_layers": 2}}, 2),
])
def test_layers_are_those_vllm_takes_from_such_a_config(config: dict[str, object], layers: int) -> None:
    assert shape_of({**BASE, **config}, model_id="org/x", where="config.json").mtp_layers == layers


def test_a_dense_mtp_layer_under_experts_is_not_counted_with_experts() -> None:
    dense, sparse = find_model("XiaomiMiMo/MiMo-V2-Flash"), find_model("zai-org/GLM-4.5")
    assert dense is not None
    assert sparse is not None
    assert dense.moe is not None
    assert sparse.moe is not None
    assert 0 < dense.mtp_params < 0.1 * dense.moe.num_experts * dense.moe.expert_params
    assert sparse.mtp_params > 0.9 * sparse.moe.num_experts * sparse.moe.expert_params


def test_the_text_part_s_type_and_the_outer_one_find_the_same_family() -> None:
    found = mtp_family(("qwen3_5_moe_text",))
    assert found is not None
    assert found == mtp_family(("qwen3_5_moe", "anything"))
    assert mtp_family(("deepseek_v41",)) is None
    assert mtp_family(("kimi_k2",), ("DeepseekV3ForCausalLM",)) is None


def test_a_type_nobody_knows_is_not_refused() -> None:
    assert refused_mtp(release("0.32.0"), ("",), (), stated=None, name="x") is None


def test_every_family_comes_no_later_than_vllm_names_it() -> None:
    spelled = compiled("releases")["method_spellings"]["mtp"]
    families = compiled("mtp")["families"]
    for name, facts in families.items():
        assert facts["by"], name
        if name in spelled and "since" in facts:
            assert release(spelled[name]).follows(facts["since"]), name
    # gemma4_mtp drafts with an assistant model of its own, not with the target's layers.
    assert set(spelled) - set(families) == {"gemma4_mtp"}


def test_a_count_that_is_no_whole_number_states_nothing() -> None:
    assert stated_layers({"num_nextn_predict_layers": True, "num_mtp_modules": 3}) == 3
    assert stated_layers({"num_nextn_predict_layers": "1"}) is None
