"""A draft model that nobody names has the shape of a small model with the target's vocabulary."""

from __future__ import annotations

import pytest

from advisor.cases.facts import draft_facts, target_facts
from advisor.cases.usual_draft import usual_draft


@pytest.mark.parametrize(("target", "layers"), [
    ("meta-llama/Meta-Llama-3-70B-Instruct", 16),
    ("Qwen/Qwen3-8B", 24),
])
def test_an_unnamed_draft_has_the_layers_of_the_small_model_with_the_targets_vocabulary(
    target: str, layers: int
) -> None:
    found = draft_facts("draft_model", None, None, target_facts(target, None, None, None, None))

    assert found.layers == layers
    assert found.assumed


def test_a_stated_size_is_kept_as_stated() -> None:
    target = target_facts("meta-llama/Meta-Llama-3-70B-Instruct", None, None, None, None)

    assert draft_facts("draft_model", None, 3.0, target).read_params == 3.0e9


def test_vocabularies_that_differ_by_padding_are_one() -> None:
    found = usual_draft(262_208.0, 0.5e9)

    assert found is not None
    assert found.vocab_size == 262_144


def test_no_model_of_another_vocabulary_or_size_is_meant() -> None:
    assert usual_draft(70_001.0, 1.0e9) is None
    assert usual_draft(51_200.0, 0.5e9) is None
