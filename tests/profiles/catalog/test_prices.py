"""Prices: found by any name of a card, called assumed where nobody read them, replaceable."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiles.catalog.gpus import gpus
from profiles.catalog.prices import price_table
from profiles.errors import InputError
from profiles.schema import Source


def test_every_price_is_of_a_card_in_the_catalog_and_no_card_has_two() -> None:
    names = [price.gpu for price in price_table().prices]
    assert set(names) <= {gpu.name for gpu in gpus()}
    assert len(names) == len(set(names))


def test_a_price_is_either_sourced_and_dated_or_assumed() -> None:
    for price in price_table().prices:
        assert bool(price.source and price.read_on) != price.assumed, price.gpu
        assert (price.origin is Source.ASSUMED) == price.assumed
        assert ("assumed" in price.described) == price.assumed


def test_a_card_is_found_as_people_write_it() -> None:
    price = price_table().of("h100")
    assert price is not None
    assert price.gpu == "H100 SXM5 80GB"
    assert price_table().of("NVIDIA H100 80GB HBM3") == price
    assert price_table().of("Gaudi 2") is None


def test_a_users_table_replaces_the_catalogs(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("prices:\n- {gpu: H100, usd_per_gpu_hour: 1.5, source: our contract}\n"
                    "- {gpu: cpu, usd_per_gpu_hour: 0.2}\n")
    table = price_table(path)
    mine = table.of("H100 SXM5 80GB")
    assert mine is not None
    assert mine.usd_per_gpu_hour == 1.5
    assert table.of("L40S") is None
    machine = table.of("cpu")
    assert machine is not None
    assert machine.origin is Source.ASSUMED


@pytest.mark.parametrize(("text", "part"), [
    ("prices: [{gpu: H100}]", "usd_per_gpu_hour"), ("- 1", "mapping"), ("prices: [", "not valid YAML"),
    ("prices: " + "[" * 10_000, "nested too deeply"), ("prices: [" + "1, " * 30_000 + "]", "more than"),
    ("prices: [{gpu: H100, usd_per_gpu_hour: -1}]", "expected a number above 0"),
    ("currency: EUR\nprices: []", "USD"), ("prices: []\nrates: 1", "rates"),
])
def test_a_table_that_is_none_is_refused_in_one_sentence(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=part):
        price_table(path)


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        price_table(tmp_path / "none.yaml")
