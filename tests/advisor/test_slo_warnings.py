"""A limit on latency that is missed with and without speculation is said with both figures."""

from __future__ import annotations

import re

from advisor.advice import advise
from advisor.report import render
from advisor.spoken_figures import ms_said
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
STATED = {"concurrency": 128, "prompt_tokens": 900, "output_tokens": 500, "tasks": "math"}


def test_a_limit_that_no_side_keeps_is_a_warning_and_the_table_names_the_figure() -> None:
    record = advise(gpu_situation("A100 80GB", objective={"tpot_ms": 1.0}, **STATED), NOW)
    (said,) = [warning for warning in record.warnings if "objective.tpot_ms" in warning]
    assert "objective.tpot_ms 1 is missed at" in said
    assert "ms without speculation" in said
    shown = render(record, "markdown").replace("\\", "")
    assert re.search(r"misses the SLO \(TPOT [^)]*\), as no speculation does", shown)


def test_a_limit_that_is_kept_is_no_warning() -> None:
    record = advise(gpu_situation("H100", objective={"tpot_ms": 500.0, "ttft_ms": 60_000.0}, **STATED), NOW)
    assert not [warning for warning in record.warnings if "objective." in warning]


def test_a_limit_that_is_kept_is_said_to_be_with_its_figure_and_source() -> None:
    record = advise(gpu_situation("H100", objective={"tpot_ms": 500.0, "ttft_ms": 60_000.0}, **STATED), NOW)
    (said,) = [reason for reason in record.reasons if "objective.tpot_ms" in reason.sentence]
    k = record.decision.k if record.decision.enable else 0
    written = next(cell for cell in record.candidates
                   if (cell.k, cell.running) == (k, 128) and (k == 0) == (cell.label == "none"))
    assert f"objective.tpot_ms 500 is kept with a mean of {ms_said(written.tpot_ms.value)} ms" in said.sentence
    assert f"({written.tpot_ms.source.value}, " in said.sentence
    assert "objective.ttft_ms 60000 is kept" in said.sentence
    assert said.for_or_against == "neutral"
    for form in ("text", "markdown", "html"):
        assert "is kept with a mean of" in " ".join(render(record, form).replace("\\", "").split())


def test_where_no_limit_is_stated_none_is_told() -> None:
    record = advise(gpu_situation("H100", **STATED), NOW)
    assert not [reason for reason in record.reasons if "objective." in reason.sentence]
