"""Published models are found as people write them, and their shapes agree with their listed sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.catalog.architecture import count_parameters
from profiles.catalog.compile import read_source
from profiles.catalog.compile_models import model_config
from profiles.catalog.models import (
    catalog_ids,
    draft_heads,
    drafts_hint,
    find_head,
    find_model,
    heads_for,
    normal_id,
    small_models_for,
)
from profiles.schema import Source

SOURCES = {entry["id"]: entry for entry in read_source("models")["models"]}
EXPLAINED = {
    # The listed total holds a vision tower that the text shape does not describe.
    "Qwen/Qwen3-VL-8B-Instruct",
    "google/gemma-3-4b-it",
    # Per-layer embedding tables, latent experts, layers of unequal size: not in the catalog's shape.
    "google/gemma-4-E2B-it",
    "google/gemma-4-E4B-it",
    "moonshotai/Kimi-K3",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
}


def test_every_catalog_name_finds_itself_and_its_other_checkpoints_find_it() -> None:
    assert len(catalog_ids()) == 227
    for model_id in catalog_ids():
        found = find_model(model_id)
        assert found is not None
        assert found.id == model_id
        for other in SOURCES[model_id].get("also", ()):
            shape = find_model(other)
            assert shape is not None
            assert shape.id == other
            assert shape.params == found.params
            assert model_id in shape.origin


@pytest.mark.parametrize(
    ("written", "original"),
    [
        ("qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        ("https://huggingface.co/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("NousResearch/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("Qwen3-8B", "Qwen/Qwen3-8B"),
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B"),
    ],
)
def test_case_hub_addresses_and_mirrors_find_the_original(written: str, original: str) -> None:
    found, expected = find_model(written), find_model(original)
    assert found is not None
    assert expected is not None
    assert found.params == expected.params
    assert found.attention == expected.attention


@pytest.mark.parametrize(
    "written",
    [
        "someone/Qwen3-8B",
        "Qwen/Qwen3-9000B",
        "",
        "/",
        "meta-llama/Llama-3.1-8B-Instruct-DPO",
        "Qwen/Qwen3-32B-Instruct",
    ],
)
def test_another_organisations_model_or_a_tuned_name_is_not_guessed(written: str) -> None:
    assert find_model(written) is None


def test_a_quantized_name_has_the_originals_shape_and_fewer_bits() -> None:
    plain, small = find_model("Qwen/Qwen3-32B"), find_model("Qwen/Qwen3-32B-FP8")
    assert plain is not None
    assert small is not None
    assert small.quantization == "fp8"
    assert small.params == plain.params
    assert 8.0 < small.bits_per_weight < 9.0
    assert "ending" in small.origin


@pytest.mark.parametrize("model_id", [i for i, e in SOURCES.items() if e["check"] == "ok" and i not in EXPLAINED])
def test_parameters_from_the_shape_are_within_five_percent_of_the_listed_total(model_id: str) -> None:
    entry = SOURCES[model_id]
    count = count_parameters(model_config(entry), model_id)
    expected = entry["listed"]["params_b"] * 1e9
    if entry["params"] == "shape":
        assert entry["why"], "a listed total that is not used needs a reason"
        return
    assert min(abs(count.total - expected), abs(count.total + count.mtp - expected)) <= 0.05 * expected


@pytest.mark.parametrize(
    ("model_id", "total_b", "active_b"),
    [
        ("deepseek-ai/DeepSeek-V3", 671.0, 37.0),
        ("openai/gpt-oss-20b", 20.9, 3.6),
        ("openai/gpt-oss-120b", 116.8, 5.1),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.7, 12.9),
        ("Qwen/Qwen3-30B-A3B", 30.5, 3.3),
        ("Qwen/Qwen3-235B-A22B", 235.0, 22.0),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 400.0, 17.0),
    ],
)
def test_mixtures_read_about_their_nominal_active_parameters(model_id: str, total_b: float, active_b: float) -> None:
    shape = find_model(model_id)
    assert shape is not None
    assert shape.moe is not None
    assert shape.params / 1e9 == pytest.approx(total_b, rel=0.03)
    assert shape.active_params / 1e9 == pytest.approx(active_b, rel=0.12)


def test_experts_never_hold_more_than_the_model() -> None:
    for model_id in catalog_ids():
        shape = find_model(model_id)
        assert shape is not None
        assert 0 < shape.active_params <= shape.params, model_id
        if shape.moe is not None:
            routed = shape.moe.moe_layers * shape.moe.num_experts * shape.moe.expert_params
            assert 0 < routed < shape.params, model_id


def test_attention_kinds_are_told_apart() -> None:
    def groups(model_id: str) -> dict[str, tuple[int, int, int]]:
        shape = find_model(model_id)
        assert shape is not None
        return {group.kind: (group.layers, group.kv_heads, group.head_dim) for group in shape.attention}

    assert groups("meta-llama/Llama-3.1-8B") == {"full": (32, 8, 128)}
    assert groups("deepseek-ai/DeepSeek-V3") == {"mla": (61, 1, 576)}
    assert groups("openai/gpt-oss-20b") == {"sliding": (12, 8, 64), "full": (12, 8, 64)}
    assert groups("google/gemma-3-27b-it") == {"sliding": (52, 16, 128), "full": (10, 16, 128)}
    assert groups("Qwen/Qwen3-Next-80B-A3B-Instruct") == {"linear": (36, 0, 0), "full": (12, 2, 256)}
    assert groups("nvidia/Nemotron-H-56B-Base-8K") == {"linear": (54, 0, 0), "full": (10, 8, 128)}


def test_a_model_whose_attention_was_not_read_is_called_assumed() -> None:
    shape = find_model("ibm-granite/granite-4.0-h-small")
    assert shape is not None
    assert shape.source is Source.ASSUMED
    assert "attention kind not read" in shape.origin


def test_mtp_layers_are_counted_apart() -> None:
    shape = find_model("deepseek-ai/DeepSeek-V3")
    assert shape is not None
    assert shape.mtp_layers == 1
    assert 11e9 < shape.mtp_params < 15e9
    assert sum(1 for model_id in catalog_ids() if (found := find_model(model_id)) and found.mtp_layers) == 41


def test_all_heads_are_there_with_their_targets_and_a_shape() -> None:
    heads = draft_heads()
    assert len(heads) == 98
    for head in heads:
        assert head.targets
        assert head.sources
        assert head.shape is not None, head.id
        assert head.shape_from != "unknown"


@pytest.mark.parametrize(
    ("head_id", "trained_b"),
    [
        ("yuhuili/EAGLE-Vicuna-7B-v1.3", 0.24),
        ("yuhuili/EAGLE-Vicuna-13B-v1.3", 0.37),
        ("yuhuili/EAGLE-Vicuna-33B-v1.3", 0.56),
        ("yuhuili/EAGLE-llama2-chat-70B", 0.99),
        ("yuhuili/EAGLE-mixtral-instruct-8x7B", 0.28),
    ],
)
def test_head_sizes_reproduce_what_their_authors_state(head_id: str, trained_b: float) -> None:
    head = find_head(head_id)
    assert head is not None
    assert head.shape is not None
    assert head.shape.params / 1e9 == pytest.approx(trained_b, abs=0.006)
    assert head.shape.active_params > head.shape.params, "a draft pass also multiplies with the shared output head"


def test_heads_are_offered_only_for_their_own_target() -> None:
    offered = heads_for("meta-llama/Llama-3.1-8B-Instruct")
    assert {"eagle3", "dflash"} <= {head.method for head in offered}
    assert all("meta-llama/Llama-3.1-8B-Instruct" in head.targets for head in offered)
    assert [head.check for head in offered] == sorted((head.check for head in offered), key=lambda check: check != "ok")
    assert heads_for("meta-llama/Llama-3.1-8B") == ()
    assert {head.id for head in heads_for("unsloth/Meta-Llama-3.1-8B-Instruct")} == {head.id for head in offered}
    assert heads_for("nobody/nothing") == ()


def test_a_heads_id_resolves_to_its_shape() -> None:
    shape = find_model("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    assert shape is not None
    assert shape.draft_vocab_size == 32000
    assert sum(group.layers for group in shape.attention) == 1


def test_a_parallel_drafting_head_carries_the_key_it_needs() -> None:
    head = find_head("RedHatAI/Qwen3-8B-speculator.peagle")
    assert head is not None
    assert (head.method, head.settings) == ("eagle3", {"parallel_drafting": True})


def test_small_models_speak_the_targets_tokens_and_its_own_series_comes_first() -> None:
    target = find_model("Qwen/Qwen3-32B")
    assert target is not None
    drafts = small_models_for(target)
    assert [draft.id for draft in drafts[:2]] == ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"]
    for draft in drafts:
        assert draft.vocab_size == target.vocab_size
        assert draft.tokenizer is not None
        assert target.tokenizer is not None
        assert draft.tokenizer.family == target.tokenizer.family
        assert draft.active_params * 3 <= target.active_params
    llama = find_model("meta-llama/Llama-3.3-70B-Instruct")
    assert llama is not None
    # The target answers, so its draft should: the entry's instruct checkpoint is named.
    assert small_models_for(llama)[0].id == "meta-llama/Llama-3.2-1B-Instruct"


def test_a_vocabulary_that_differs_by_padding_is_no_draft() -> None:
    target = find_model("Qwen/Qwen2.5-72B-Instruct")
    assert target is not None
    assert "Qwen/Qwen2.5-0.5B-Instruct" not in {draft.id for draft in small_models_for(target)}


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_text_crashes_the_lookup(text: str) -> None:
    assert normal_id(normal_id(text)) == normal_id(text) or find_model(text) is None
    find_model(text)
    heads_for(text)


@settings(deadline=None)
@given(st.sampled_from(catalog_ids()), st.sampled_from([str.upper, str.lower, str.title, lambda text: f" {text}/ "]))
def test_spelling_does_not_matter(model_id: str, change: object) -> None:
    assert callable(change)
    found, original = find_model(change(model_id)), find_model(model_id)
    assert found is not None
    assert original is not None
    assert found.params == original.params


@pytest.mark.parametrize(
    ("written", "original", "bits"),
    [
        ("meta-llama/Llama-3.1-405B-Instruct (FP8)", "meta-llama/Llama-3.1-405B", 8),
        ("google/gemma-4-31B-it QAT W4A16", "google/gemma-4-31B-it", 4),
        # Of a mixture only the experts are stored in four bits.
        ("somebody/gemma-4-26B-A4B-it-qat-AWQ-INT4", "google/gemma-4-26B-A4B-it", 5.5),
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct", 16),
        ("deepseek-ai/DeepSeek-V4-Pro-0813", "deepseek-ai/DeepSeek-V4-Pro", 4.4),
    ],
)
def test_how_tables_and_posts_write_a_checkpoint_finds_its_shape(written: str, original: str, bits: float) -> None:
    shape = find_model(written)
    assert shape is not None
    assert shape.id == written
    assert f"shape of {original}" in shape.origin
    assert abs(shape.bits_per_weight - bits) < 1


def test_drafts_hint_names_what_the_catalog_has_and_nothing_where_it_has_nothing() -> None:
    assert "Llama-3.2-1B-Instruct" in drafts_hint("draft_model", "meta-llama/Llama-3.1-8B-Instruct")
    assert "EAGLE3" in drafts_hint("eagle3", "meta-llama/Llama-3.1-8B-Instruct")
    assert drafts_hint("eagle3", "nobody/knows") == ""
