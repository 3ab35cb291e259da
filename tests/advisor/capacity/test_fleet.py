"""Replicas and money: enough for the peak, and no more."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.capacity.fleet import fleet_for, usd_per_million
from profiles.catalog.prices import Price
from profiles.schema import Quantity, Source

PRICE = Price(gpu="H100", usd_per_gpu_hour=3.6, source="test")


def _rate(value: float) -> Quantity:
    return Quantity(value=value, low=0.8 * value, high=1.25 * value, source=Source.MODELLED)


@given(peak=st.floats(0.01, 1e4), highest=st.floats(0.01, 100), growth=st.sampled_from([1.0, 2.0, 10.0]))
def test_the_replicas_serve_the_peak_and_one_fewer_would_not(peak: float, highest: float, growth: float) -> None:
    fleet = fleet_for(growth, peak, None, 100.0, _rate(highest), 2, PRICE)
    assert fleet is not None
    assert fleet.replicas * highest >= growth * peak * (1 - 1e-2 / fleet.replicas) - 2e-3 * highest
    assert fleet.replicas == 1 or (fleet.replicas - 1) * highest < growth * peak
    assert fleet.replicas_low <= fleet.replicas <= fleet.replicas_high
    assert fleet.gpus == 2 * fleet.replicas
    assert fleet.usd_per_month == pytest.approx(3.6 * 730 * fleet.gpus)


def test_a_million_tokens_cost_what_the_hours_for_them_cost() -> None:
    # 1,000 tokens a second are 3.6 million an hour.
    assert usd_per_million(PRICE, 1, 1000.0) == pytest.approx(1.0)
    assert usd_per_million(PRICE, 4, 1000.0) == pytest.approx(4.0)


def test_idle_capacity_is_paid_for_at_the_usual_load() -> None:
    fleet = fleet_for(1.0, 40.0, 10.0, 100.0, _rate(10.0), 1, PRICE)
    assert fleet is not None
    assert fleet.usd_per_million_output_tokens == pytest.approx(4.0)
    assert fleet.headroom == pytest.approx(0.0)


def test_without_price_or_rate_nothing_is_said_of_money() -> None:
    assert usd_per_million(None, 1, 10.0) is None
    fleet = fleet_for(1.0, 40.0, None, 100.0, _rate(10.0), 1, None)
    assert fleet is not None
    assert fleet.usd_per_month is None
    assert fleet.usd_per_million_output_tokens is None


def test_no_fleet_serves_a_peak_that_one_replica_cannot_begin_to() -> None:
    assert fleet_for(1.0, 40.0, None, 100.0, Quantity(value=0.0, source=Source.MODELLED), 1, PRICE) is None


def test_growth_needs_at_most_that_many_times_the_replicas() -> None:
    one, ten = (fleet_for(g, 33.0, None, 100.0, _rate(7.0), 1, None) for g in (1.0, 10.0))
    assert one is not None
    assert ten is not None
    assert ten.replicas <= 10 * one.replicas
    assert ten.replicas == math.ceil(330 / 7)
