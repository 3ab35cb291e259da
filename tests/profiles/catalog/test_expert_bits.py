"""DeepSeek-V4's weights: fp8, and its routed experts in four bits."""

from __future__ import annotations

import pytest

from profiles.catalog.models import find_model
from profiles.catalog.quantization import read_quantization


def test_an_fp8_config_that_stores_its_experts_in_four_bits_says_both() -> None:
    found = read_quantization({"quant_method": "fp8", "expert_dtype": "fp4"})

    assert found is not None
    assert (found.bits, found.expert_bits) == (8.0, 4.25)


@pytest.mark.parametrize(("name", "gigabytes"), [
    ("deepseek-ai/DeepSeek-V4-Flash", 162), ("deepseek-ai/DeepSeek-V4-Pro", 881),
])
def test_weights_of_deepseek_v4_fit_where_they_are_served(name: str, gigabytes: float) -> None:
    shape = find_model(name)

    assert shape is not None
    assert shape.params * shape.bits_per_weight / 8e9 == pytest.approx(gigabytes, rel=0.02)
