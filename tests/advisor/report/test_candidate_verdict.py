"""Why a candidate is not the one advised: in what it differs from that one."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.record import Priced
from advisor.report.candidate_verdict import why
from advisor.report.curves import curves
from profiles.schema import Quantity, Source
from tests.advisor.report import synthetic_record as synthetic

RECORD = synthetic.enabled()
ADVISED = next(curve for curve in curves(RECORD) if curve.chosen).headline
OTHER = next(curve for curve in curves(RECORD) if not curve.chosen)


def q(value: float) -> Quantity:
    return Quantity(value=value, source=Source.MODELLED)


def told(**changes: Any) -> str:
    """The verdict on another candidate that differs from the one advised in the changes alone."""
    assert ADVISED is not None
    assert RECORD.decision.speedup is not None
    cell: Priced = ADVISED.model_copy(update={"limited_by": "acceptance", **changes})
    return why(RECORD, OTHER, cell, RECORD.decision.speedup - 0.05, ADVISED)


def test_a_longer_step_is_the_reason_where_as_many_tokens_are_accepted() -> None:
    assert ADVISED is not None
    step = ADVISED.step_ms.value
    assert told(step_ms=q(step + 2), draft_ms=ADVISED.draft_ms + 2) == (
        f"gains less: its step takes longer ({step + 2:.1f} ms against {step:.1f} ms), most of that drafting")


def test_fewer_tokens_per_step_are_the_reason_where_they_weigh_more() -> None:
    assert ADVISED is not None
    length = ADVISED.acceptance_length.value
    assert told(acceptance_length=q(length * 0.8), step_ms=q(ADVISED.step_ms.value * 1.1)) == (
        f"gains less: fewer tokens per step ({length * 0.8:.2f} against {length:.2f})")


@pytest.mark.parametrize(("changes", "said"), [
    ({}, "gains less"), ({"limited_by": "memory"}, "gains less: memory is short"),
])
def test_what_does_not_differ_is_no_reason(changes: dict[str, Any], said: str) -> None:
    assert told(**changes) == said
