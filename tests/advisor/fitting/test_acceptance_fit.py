"""The acceptance prior's fit: which names are one head, what an unknown k may say, how sure effects of a kind are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.cases.acceptance import effect_names, prior_lengths
from advisor.cases.case import parse_case
from advisor.cases.model import shipped_model
from advisor.cases.table import Labels, Table, table_of
from advisor.fitting.acceptance_fit import fit_acceptance
from advisor.fitting.rows import ASSUMED_DEPTH, acceptance_rows

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def table_for(*rows: dict[str, Any]) -> Table:
    base = {"method": "eagle3", "target": LLAMA, "draft": "acme/head", "k": 3, "engine": "vllm", "temperature": 0}
    table, refused = table_of([parse_case({**base, **row}) for row in rows])
    assert not refused
    return table


def draft_effects(label: Labels) -> list[str]:
    return [name for kind, name in effect_names(label, tree=False, foreign=False) if kind == "draft"]


@pytest.mark.parametrize("draft", ["", "eagle-3-head", "official-eagle-3-head", "eagle-3", "eagle3-llama3.1-8b"])
def test_the_head_of_a_methods_authors_is_one_head_by_all_its_names(draft: str) -> None:
    assert draft_effects(Labels("eagle3", "chat", "", "llama-3.1-8b", draft)) == ["usual:eagle3|llama-3.1-8b"]
    assert draft_effects(Labels("eagle3", "chat", "", "qwen3-8b", draft)) == ["usual:eagle3|qwen3-8b"]


@pytest.mark.parametrize(("method", "draft"), [
    ("eagle3", "sglang-eagle3-llama3.1-8b-specforge"), ("dflash", "gemma-4-31b-speculator.dflash"),
    ("dflash", "dflash2"), ("draft_model", "llama-3.2-1b"),
])
def test_anothers_head_and_a_draft_model_are_known_by_their_own_name(method: str, draft: str) -> None:
    assert draft_effects(Labels(method, "chat", "", "llama-3.1-8b", draft)) == [draft]


def test_rows_without_a_k_are_marked_and_have_a_depth_that_gives_their_length() -> None:
    assumed = [row for row in acceptance_rows().of if ASSUMED_DEPTH in row.flags]
    assert len(assumed) > 50
    assert all((row.k or 0) + 1 >= (row.acceptance_length or 0) for row in assumed)


def _fitted(deeper: float, asked: Table) -> Any:
    """Lengths of the asked rows, from synthetic lengths of which one publication's k is not known."""
    table = table_for({"task_family": "code"}, {"task_family": "code", "k": 5},
                      {"task_family": "code", "tree": True, "k": 7}, {"task_family": "chat", "tree": True, "k": 7})
    observed = np.array([2.6, 3.2, 4.6 * deeper, 3.4 * deeper])
    prior = fit_acceptance(table, observed, np.zeros(4), ["one", "one", "other", "other"], [False, False, True, True])
    return prior_lengths(asked, prior)[0]


def test_an_unknown_depth_says_how_texts_differ_and_little_of_the_level() -> None:
    asked = table_for({"task_family": "code"}, {"task_family": "chat"})
    code, chat = _fitted(1.0, asked)
    assert chat < 0.97 * code
    deeper = _fitted(1.25, asked)[0]
    assert deeper == pytest.approx(code, rel=0.05)


def test_effects_that_differ_more_leave_the_unseen_less_sure() -> None:
    names = [f"acme/target-{i}-8B" for i in range(8)]
    table = table_for(*({"target": name, "task_family": "chat"} for name in names))
    labels = [f"publication {i}" for i in range(8)]
    alike = fit_acceptance(table, np.full(8, 2.6), np.zeros(8), labels, [False] * 8)["unseen_sd"]
    apart = fit_acceptance(table, np.linspace(1.6, 3.6, 8), np.zeros(8), labels, [False] * 8)["unseen_sd"]
    assert apart["target"] > alike["target"]
    assert 0.05 < alike["target"] < 0.25


def test_what_a_draft_model_has_learnt_counts_by_its_own_size_more_than_by_its_share_of_the_target() -> None:
    prior = shipped_model().acceptance
    model = {"method": "draft_model", "draft": "acme/draft", "k": 4}
    small, large = (table_for({**model, "target": None, "target_params_b": size, "draft_params_b": size / 100.0})
                    for size in (7.0, 70.0))
    bigger = table_for({**model, "target": None, "target_params_b": 7.0, "draft_params_b": 0.7})
    (few, _), (many, _), (most, _) = (prior_lengths(table, prior) for table in (small, large, bigger))
    assert few[0] * 1.05 < many[0]
    assert few[0] * 1.05 < most[0]


def test_a_draft_model_that_nobody_names_is_less_surely_accepted() -> None:
    prior = shipped_model().acceptance
    model = {"method": "draft_model", "k": 4, "draft_params_b": 1.2, "target": "acme/dense-70b"}
    named, unnamed = (prior_lengths(table_for({**model, "draft": draft}), prior)
                      for draft in ("meta-llama/Llama-3.2-1B-Instruct", None))
    assert unnamed[1][0] > named[1][0]


def test_lookups_of_other_programs_find_more_in_the_same_text() -> None:
    prior = shipped_model().acceptance
    own, foreign = (prior_lengths(table_for({"method": "ngram", "draft": None, "k": 4, "engine": engine}), prior)[0][0]
                    for engine in ("vllm", "hf"))
    assert foreign > own
