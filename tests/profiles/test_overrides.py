"""What a deployment states of its GPU and models goes over the catalog, or replaces what it has not."""

from __future__ import annotations

from typing import Any

import pytest

from profiles.catalog.models import find_model
from profiles.deployment import Deployment, Hardware
from profiles.errors import InputError
from profiles.model_ref import ModelFacts
from profiles.overrides import gpu_of, shape_of_facts

OWN = {"memory_gib": 40, "memory_bandwidth_gbs": 900, "dense_tflops": {"bf16": 200}}
SHAPE = {"params_b": 13, "num_layers": 40, "hidden_size": 5120, "kv_heads": 8, "head_dim": 128, "vocab_size": 100_000}


def hardware(**stated: Any) -> Hardware:
    return Hardware.model_validate(stated)


def test_a_known_card_keeps_what_is_not_stated() -> None:
    card = gpu_of("H100", hardware(memory_bandwidth_gbs=2600, dense_tflops={"bf16": 750}))
    assert card.name == "H100 SXM5 80GB"
    assert card.memory_bandwidth_gbs == 2600
    assert card.tflops("bf16") == 750
    assert card.tflops("fp8") == gpu_of("H100", hardware()).tflops("fp8")
    assert "stated in the deployment" in card.notes[-1]


def test_a_card_the_catalog_has_not_is_made_of_what_is_stated() -> None:
    card = gpu_of("Prototype Z1", hardware(**OWN))
    assert (card.name, card.memory_gib, card.memory_bandwidth_gbs, card.check) == ("Prototype Z1", 40, 900, "unsure")
    assert "not in the catalog" in card.notes[0]


def test_a_card_the_catalog_has_not_needs_every_fact() -> None:
    with pytest.raises(InputError, match=r"Z1.*state hardware.memory_bandwidth_gbs, hardware.dense_tflops too"):
        gpu_of("Prototype Z1", hardware(memory_gib=40))
    with pytest.raises(InputError, match="not in the catalog"):
        gpu_of("Prototype Z1", hardware())


def test_stated_facts_go_over_a_known_models_shape() -> None:
    known = find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert known is not None
    shape = shape_of_facts(known.id, ModelFacts(bits_per_weight=4.5, kv_heads=4), known)
    assert shape.weights_bytes == int(known.params * 4.5 / 8)
    assert shape.attention[0].kv_heads == 4
    assert shape.num_layers == known.num_layers
    assert "stated in the deployment: bits_per_weight, kv_heads" in shape.origin


def test_a_pruned_copy_states_its_depth_and_size() -> None:
    known = find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert known is not None
    shape = shape_of_facts("mine", ModelFacts(params_b=4, num_layers=16), known)
    assert (shape.params, shape.num_layers, shape.attention[0].layers) == (4_000_000_000, 16, 16)
    assert shape.active_params < shape.params


def test_depth_of_a_model_with_several_kinds_of_layers_is_refused() -> None:
    known = find_model("google/gemma-4-26B-A4B-it")
    assert known is not None
    with pytest.raises(InputError, match="layers are of 2 kinds"):
        shape_of_facts(known.id, ModelFacts(num_layers=10), known)


def test_a_model_nobody_knows_is_made_of_stated_facts_or_told_what_is_missing() -> None:
    shape = shape_of_facts("secret/model", ModelFacts.model_validate(SHAPE), None)
    assert (shape.params, shape.attention[0].kv_heads, shape.vocab_size) == (13_000_000_000, 8, 100_000)
    with pytest.raises(InputError, match="lack hidden_size, kv_heads, head_dim, vocab_size"):
        shape_of_facts("secret/model", ModelFacts(params_b=13, num_layers=40), None)


def test_a_deployment_takes_all_of_them() -> None:
    deployment = Deployment.model_validate(
        {"target": {"id": "secret/model", "facts": SHAPE}, "hardware": {"gpu": "Prototype Z1", **OWN, "link_gbs": 400}}
    )
    assert deployment.target.facts is not None
    assert deployment.target.facts.num_layers == 40
    assert deployment.hardware.link_gbs == 400


@pytest.mark.parametrize("stated", [{"memory_bandwidth_gbs": 0}, {"dense_tflops": {"bf17": 1}}, {"link_gbs": True}])
def test_figures_that_no_card_has_are_refused(stated: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        hardware(**stated)
