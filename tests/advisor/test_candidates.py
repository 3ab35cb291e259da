from advisor.candidates import propose
from profiles.catalog.models import find_model
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
    assert any("arctic_inference" in sentence for sentence in said)
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
