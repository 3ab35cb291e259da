"""What the advice and the checklist warn of stands in every file that starts a server."""

from __future__ import annotations

import pytest
import yaml

from advisor.advice import advise
from advisor.checks.emitted import check_emitted
from advisor.emit.forms import form_names, write_forms
from advisor.emit.heading import cautions_of
from advisor.record import Record
from tests.advisor.cost.test_window import small_card
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"


def comments(text: str) -> str:
    """The comments as one text, whatever their line breaks."""
    return " ".join(" ".join(line.lstrip("# ") for line in text.splitlines() if line.lstrip().startswith("#")).split())


@pytest.fixture(scope="module")
def warned() -> Record:
    record = advise(gpu_situation("L40S", arrival_rate_rps=50, prompt_tokens=4000, output_tokens=1000), NOW)
    assert record.warnings
    return record


def test_every_warning_is_a_comment_of_vllm_yaml(warned: Record) -> None:
    said = comments(warned.emitted.vllm_yaml)
    for caution in cautions_of(warned.warnings, warned.checklist):
        assert caution[1:].encode("ascii", "ignore").decode() in said
    assert yaml.safe_load(warned.emitted.vllm_yaml)["model"] == warned.deployment.target.id


@pytest.mark.parametrize("form", form_names())
def test_every_form_says_them_too(warned: Record, form: str) -> None:
    for text in write_forms(warned, [form])[form].files.values():
        for caution in cautions_of(warned.warnings, warned.checklist):
            assert caution[1:].encode("ascii", "ignore").decode() in comments(text)


def test_the_checklist_points_at_the_lines_of_the_file_as_it_is_written(warned: Record) -> None:
    assert warned.checklist is not None
    again = check_emitted(warned)
    assert [(f.code, f.line) for f in warned.checklist.findings] == [(f.code, f.line) for f in again.findings]


def test_without_warnings_there_is_no_such_heading() -> None:
    record = advise(small_card(gpu="H200", concurrency=1, tasks="json", sampling={"temperature": 0}), NOW)
    if cautions_of(record.warnings, record.checklist):
        pytest.skip("something is warned of here")
    assert "Warnings:" not in record.emitted.vllm_yaml
