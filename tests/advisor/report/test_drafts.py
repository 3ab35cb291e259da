"""Drafts beyond the candidates: proposals with their reasons, and the map of what would pay, in every format."""

from __future__ import annotations

import json

import pytest

from advisor.report import render
from advisor.report.charts.draft import draft_chart
from advisor.report.drafts import draft_map_sentence, draft_map_table, proposal_table
from tests.advisor.report import synthetic_record as synthetic


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_format_shows_the_map_and_each_proposal_with_its_reason(form: str) -> None:
    shown = " ".join(render(synthetic.enabled(), form).split())
    assert "What draft would pay here" in shown
    assert "one-layer head (eagle3)" in shown.replace("\\", "")
    assert "does not fit" in shown
    assert "its own series" in shown
    assert "vLLM 0.14.1 does not start dflash" in shown.replace("\\", "")


def test_the_sentence_names_what_must_be_reached_and_at_which_load() -> None:
    record = synthetic.enabled()
    assert record.draft_map is not None
    text = draft_map_sentence(record.draft_map)
    assert "At 8 running requests a one-layer head (eagle3) has to reach 1.25" in text
    assert "a draft model of 3 B 2.40 tokens per step" in text


def test_a_map_on_which_nothing_pays_says_so() -> None:
    record = synthetic.enabled()
    assert record.draft_map is not None
    rows = tuple(row.model_copy(update={"break_even_acceptance_length": None}) for row in record.draft_map.rows)
    text = draft_map_sentence(record.draft_map.model_copy(update={"rows": rows}))
    assert "no draft of these sizes would pay" in text


def test_tiles_are_told_apart_by_what_they_do_here() -> None:
    spec = draft_chart(synthetic.enabled())
    assert spec is not None
    values = {(r["draft"], r["length"]): r["verdict"] for r in spec["data"]["values"]}
    assert values["draft model of 3 B", "1.5"] == "loses"
    assert values["draft model of 3 B", "2.5"] == "below the gain wanted"
    assert values["one-layer head (eagle3)", "4.5"] == "pays"
    assert not any(name.startswith("draft model of 30 B") for name, _ in values)
    assert json.dumps(spec)


def test_records_without_map_or_proposals_show_neither() -> None:
    bare = synthetic.enabled().model_copy(update={"draft_map": None, "proposals": ()})
    assert draft_map_table(bare) is None
    assert proposal_table(bare) is None
    assert draft_chart(bare) is None
    assert "What draft would pay" not in render(bare, "html")
    assert "Found in the catalog" not in render(bare, "text")
