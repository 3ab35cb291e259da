"""What a GPU costs per hour: the catalog's table (`data/prices.yaml`), or one of the user's in the same form."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from profiles.catalog.compiled import DATA
from profiles.catalog.gpus import find_gpu
from profiles.errors import InputError
from profiles.mistakes import first_mistake
from profiles.schema import Schema, Source, number, shown
from profiles.yaml_lines import parse_yaml, read_text

_EXPECTED = "YAML with `prices`, a list of gpu and usd_per_gpu_hour"
HOURS_PER_MONTH = 730.0
"""24 x 365 / 12."""


def _as_text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime.date) else value


class Price(Schema):
    """One card's price. Without a source it counts as assumed."""

    gpu: str = Field(min_length=1)
    """Name as the catalog or people write it, or `cpu` for a machine that runs the CPU engine."""
    usd_per_gpu_hour: Annotated[float, Field(gt=0, le=10_000), number]
    """On demand, in US dollars, for one GPU (one machine, for `cpu`)."""
    source: str = ""
    """Where it was read, or who stated it."""
    read_on: Annotated[str, BeforeValidator(_as_text)] = ""
    """Date of the reading, ISO 8601."""
    assumed: bool = False
    """Stated by nobody: the middle of what such cards are commonly offered for."""

    @property
    def origin(self) -> Source:
        """What may be said of a cost that rests on it."""
        return Source.ASSUMED if self.assumed or not self.source else Source.RECORDED

    @property
    def described(self) -> str:
        """Price and origin in a few words."""
        amount = f"${self.usd_per_gpu_hour:.2f} per GPU and hour"
        if self.origin is Source.ASSUMED:
            return f"{amount} (assumed)"
        return f"{amount} ({self.source}{f', {self.read_on}' if self.read_on else ''})"


class PriceTable(Schema):
    """A file of prices. Keys: `prices`, a list of `gpu`, `usd_per_gpu_hour`, `source`, `read_on`, `assumed`."""

    currency: str = "USD"
    prices: tuple[Price, ...]

    def of(self, gpu: str) -> Price | None:
        """The price of a card by any of its names; None where the table has none."""
        wanted = _canonical(gpu)
        return next((price for price in self.prices if _canonical(price.gpu) == wanted), None)


class StatedPrice(PriceTable):
    """One price for whatever GPU, as the user states it."""

    prices: tuple[Price, ...] = ()
    usd_per_gpu_hour: Annotated[float, Field(gt=0, le=10_000), number]

    def of(self, gpu: str) -> Price | None:
        return Price(gpu=gpu, usd_per_gpu_hour=self.usd_per_gpu_hour, source="as stated")


def _canonical(gpu: str) -> str:
    if gpu.strip().lower() == "cpu":
        return "cpu"
    try:
        return find_gpu(gpu).name
    except InputError:
        # A card the catalog does not know can still have a price.
        return gpu.strip().lower()


def price_table(path: Path | None = None) -> PriceTable:
    """The user's table, else the catalog's. InputError where the file is missing or is no such table."""
    where = path or DATA / "prices.yaml"
    try:
        found = parse_yaml(read_text(where, _EXPECTED), str(where)).value
    except InputError as error:
        raise InputError(f"cannot read the price table: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"the price table {where} is {shown(found)}: expected a mapping with `prices`, a list of gpu "
                         "and usd_per_gpu_hour")
    try:
        table = PriceTable.model_validate(found)
    except ValidationError as error:
        raise InputError(f"the price table {where}: {first_mistake(error, 'the table')}; expected `prices`, a list of "
                         "gpu and usd_per_gpu_hour") from error
    if table.currency != "USD":
        raise InputError(f"the price table {where} is in {shown(table.currency)}: expected prices in USD")
    return table
