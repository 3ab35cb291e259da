"""The checklist's findings stand in every format of the report, as text; a record without them renders as before."""

from __future__ import annotations

import pytest

from advisor.report import render
from advisor.report.checklist import checklist_items, checklist_sentence
from advisor.report.reading import parse_record
from tests.advisor.report import synthetic_record as synthetic

FORMATS = ["text", "markdown", "html"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_finding_is_told_with_its_remedy_and_severity(name):
    text = " ".join(render(synthetic.enabled(), name).split())
    for words in ("Checklist", "warning SPD344", "line 6", "without CUDA graphs", "worth knowing SPD402"):
        assert words in text
    assert "VLLM_USE_V2_MODEL_RUNNER=0" in text.replace("\\_", "_")


def test_the_sentence_counts_rules_and_findings():
    sentence = checklist_sentence(synthetic.enabled())
    assert sentence == ("3 rules of `specadvise check` were held against vllm.yaml, for vLLM 0.32.0: 1 warning, "
                        "1 worth knowing.")
    clean = synthetic.checklist().model_copy(update={"findings": ()})
    assert checklist_sentence(synthetic.enabled().model_copy(update={"checklist": clean})).endswith("nothing found.")


@pytest.mark.parametrize("name", FORMATS)
def test_a_record_without_a_checklist_has_no_such_section(name):
    bare = synthetic.enabled().model_copy(update={"checklist": None})
    assert "Checklist" not in render(bare, name)
    assert checklist_items(bare) == ()


def test_a_record_written_before_findings_were_kept_is_still_read():
    text = synthetic.enabled().model_dump_json(exclude={"checklist"})
    assert parse_record(text, "record.json").checklist is None


def test_findings_cannot_break_out_of_the_page():
    hostile = synthetic.checklist("<script>alert(2)</script> | [x](http://y) \x1b[31m")
    record = synthetic.enabled().model_copy(update={"checklist": hostile})
    assert "<script>alert(2)" not in render(record, "html")
    assert "\x1b" not in render(record, "text")
    assert "[x](http" not in render(record, "markdown")
