import pytest

from advisor.candidates import propose
from profiles.catalog.models import catalog_ids, find_model, kinship
from profiles.catalog.releases import release
from profiles.methods import METHODS


def labels(target: str, version: str = "0.32.0", *, on_cpu: bool = False) -> list[str]:
    shape = find_model(target)
    assert shape is not None
    return [c.method for c in propose(shape, release(version), on_cpu=on_cpu)[0]]


def test_heads_a_small_model_and_lookups_are_proposed_for_a_common_target() -> None:
    shape = find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert shape is not None
    found, said = propose(shape, release("0.32.0"))
    methods = {c.method for c in found}
    assert {"eagle3", "draft_model", "ngram", "suffix"} <= methods
    assert any("arctic_inference" in proposal.reason for proposal in said)
    assert {p.label for p in said if p.taken} == {c.label for c in found}
    drafts = [c.draft.id for c in found if c.method == "draft_model" and c.draft is not None]
    assert drafts
    assert len(drafts) <= 2


def test_layers_in_the_checkpoint_are_proposed_with_the_ks_they_allow() -> None:
    shape = find_model("deepseek-ai/DeepSeek-V3")
    assert shape is not None
    mtp = next(c for c in propose(shape, release("0.32.0"))[0] if c.method == "mtp")
    assert all(k <= shape.mtp_layers or k % shape.mtp_layers == 0 for k in mtp.k)


def test_only_what_the_release_starts_is_proposed() -> None:
    assert "draft_model" not in labels("meta-llama/Llama-3.1-8B-Instruct", "0.12.0")
    assert "suffix" in labels("meta-llama/Llama-3.1-8B-Instruct", "0.12.0")


def test_only_what_the_cpu_engine_runs_is_proposed_for_it() -> None:
    for method in labels("meta-llama/Llama-3.1-8B-Instruct", on_cpu=True):
        assert METHODS[method].runs_on_cpu


def test_an_unknown_model_still_gets_the_lookups() -> None:
    from tests.advisor.situations import smol

    assert [c.method for c in propose(smol(240, "mine"), release("0.32.0"))[0]] == ["ngram", "suffix"]


def test_every_proposal_has_its_reason_and_what_is_left_out_says_why() -> None:
    shape = find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert shape is not None
    found, said = propose(shape, release("0.14.1"))
    reasons = {p.label: (p.taken, p.reason) for p in said}
    assert all(reason for _, reason in reasons.values())
    assert reasons["draft_model Llama-3.2-1B-Instruct"] == (False, "vLLM 0.14.1 does not start draft_model")
    assert "trained for this target" in reasons["eagle3 EAGLE3-LLaMA3.1-Instruct-8B"][1]
    assert "draft_model" not in {c.method for c in found}


def test_the_targets_own_series_comes_before_a_better_size() -> None:
    shape = find_model("Qwen/Qwen3-8B")
    assert shape is not None
    drafts = [c.draft.id for c in propose(shape, release("0.32.0"))[0] if c.method == "draft_model" and c.draft]
    assert drafts[0] == "Qwen/Qwen3-0.6B"


def test_a_head_that_needs_settings_nobody_can_set_is_named_but_not_proposed() -> None:
    shape = find_model("Qwen/Qwen3-8B")
    assert shape is not None
    found, said = propose(shape, release("0.32.0"))
    lacking = [p for p in said if "is not priced here" in p.reason]
    assert all(not p.taken for p in lacking)
    assert not {p.draft for p in lacking} & {c.draft.id for c in found if c.draft}


@pytest.mark.parametrize("target", ["zai-org/GLM-4.5", "zai-org/GLM-4.5-Air", "zai-org/GLM-4.6", "zai-org/GLM-4.7",
                                    "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3-Coder-Next",
                                    "XiaomiMiMo/MiMo-V2-Flash", "baidu/ERNIE-4.5-21B-A3B-PT"])
def test_mtp_is_proposed_where_the_model_type_has_layers_that_the_catalog_does_not_state(target: str) -> None:
    assert "mtp" in labels(target)


def test_mtp_is_not_proposed_where_layers_are_stated_that_vllm_does_not_run() -> None:
    shape = find_model("MiniMaxAI/MiniMax-M2")
    assert shape is not None
    found, said = propose(shape, release("0.32.0"))
    assert "mtp" not in {c.method for c in found}
    (refused,) = [p for p in said if p.method == "mtp"]
    assert not refused.taken
    assert "states 3" in refused.reason
    assert "vLLM runs none for the model type minimax_m2" in refused.reason


def test_mtp_is_proposed_from_the_release_on_that_runs_the_target_s_kind() -> None:
    assert "mtp" not in labels("zai-org/GLM-4.7-Flash", "0.14.0")
    assert "mtp" in labels("zai-org/GLM-4.7-Flash", "0.15.0")


@pytest.mark.parametrize("target", ["Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-32B",
                                    "Qwen/Qwen3-Coder-480B-A35B-Instruct", "Qwen/Qwen3-VL-8B-Instruct",
                                    "Qwen/Qwen3-235B-A22B"])
def test_no_draft_of_an_older_generation_is_proposed_where_one_of_the_targets_own_could_draft(target: str) -> None:
    shape = find_model(target)
    assert shape is not None
    drafts = [c.draft.id for c in propose(shape, release("0.32.0"))[0] if c.method == "draft_model" and c.draft]
    assert drafts
    assert all(draft.startswith("Qwen/Qwen3-") for draft in drafts), drafts


def test_drafts_of_every_catalogued_target_are_of_its_nearest_kin() -> None:
    for name in catalog_ids():
        shape = find_model(name)
        assert shape is not None
        near = [kinship(c.draft.id, name) for c in propose(shape, release("0.32.0"))[0]
                if c.method == "draft_model" and c.draft]
        assert len(set(near)) <= 1, (name, near)


@pytest.mark.parametrize(("one", "other", "expected"), [
    ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-32B", 0), ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-Coder-30B-A3B-Instruct", 1),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.5-2B", 2), ("Qwen/Qwen1.5-0.5B-Chat", "Qwen/Qwen3-32B", 3),
    ("meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", 0),
    ("meta-llama/Meta-Llama-3-8B", "meta-llama/Llama-3.1-70B-Instruct", 0),
    ("Qwen/Qwen2.5-0.5B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", 3),
    ("mistralai/Mistral-7B-v0.1", "meta-llama/Llama-2-7b-hf", 4)])
def test_kinship_goes_by_series_generation_and_family(one: str, other: str, expected: int) -> None:
    assert kinship(one, other) == kinship(other, one) == expected
