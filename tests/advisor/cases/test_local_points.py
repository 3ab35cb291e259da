"""Local measurements that contradict each other, or that no engine can give."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cases.lines import predict_rows

CASE: dict[str, Any] = {
    "gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "eagle3", "k": 3, "concurrency": 16,
    "engine_version": "0.20.0", "prompt_len": 300, "output_len": 300, "tensor_parallel": 1,
}


def point(speedup: float, load: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {"load_kind": "concurrency", "load_value": load, "k": 3, "speedup": speedup, **changes}


def measured(*points: dict[str, Any]) -> dict[str, Any]:
    (found,) = predict_rows([{**CASE, "measured": list(points) or None}])
    assert found["error"] is None
    return found


def factor(found: dict[str, Any]) -> float:
    """How far the interval's ends are apart below: the upper end has the bound k + 1."""
    return float(found["speedup"] / found["speedup_low"])


@settings(deadline=None, max_examples=40)
@given(middle=st.floats(1.2, 2.0), apart=st.floats(1.35, 2.0), load=st.sampled_from([1.0, 4.0, 64.0]))
def test_measurements_that_contradict_each_other_leave_more_unknown_than_ones_that_agree(
    middle: float, apart: float, load: float
) -> None:
    agreeing = measured(point(middle, load), point(middle, load))
    contradicting = measured(point(middle / apart, load), point(middle * apart, load))
    assert factor(contradicting) > 1.2 * factor(agreeing)


@settings(deadline=None, max_examples=40)
@given(middle=st.floats(1.2, 1.4), apart=st.floats(1.0, 1.7), more=st.floats(1.05, 1.5))
def test_the_more_they_differ_the_less_is_known(middle: float, apart: float, more: float) -> None:
    near = measured(point(middle / apart), point(middle * apart))
    far = measured(point(middle / (apart * more)), point(middle * apart * more))
    assert factor(far) > factor(near) - 0.02


@settings(deadline=None, max_examples=40)
@given(speedup=st.floats(1.0, 2.5), times=st.integers(2, 8))
def test_a_measurement_that_is_repeated_makes_nothing_less_sure(speedup: float, times: int) -> None:
    assert factor(measured(*[point(speedup)] * times)) < factor(measured(point(speedup))) + 1e-3


@settings(deadline=None, max_examples=40)
@given(speedup=st.floats(4.2, 1e300), others=st.lists(st.floats(1.1, 2.5), max_size=2))
def test_a_measurement_faster_than_any_step_is_left_out_and_said(speedup: float, others: list[float]) -> None:
    kept = [point(other, 1.0 + i) for i, other in enumerate(others)]
    found, without = measured(*kept, point(speedup)), measured(*kept)
    assert "left out" in found["note"]
    assert {**found, "note": None} == {**without, "note": None}
    assert found["speedup_low"] < found["speedup"] < found["speedup_high"]


def test_a_measurement_of_no_speculation_is_none_of_the_setup() -> None:
    found = measured(point(1.0, k=0))
    assert "k = 0" in found["note"]
    assert found["speedup"] == measured()["speedup"]


def test_a_single_measurement_far_from_the_model_is_believed_less_surely_than_a_near_one() -> None:
    expected = measured()["speedup"]
    assert factor(measured(point(0.05, 16.0))) > factor(measured(point(expected, 16.0)))
