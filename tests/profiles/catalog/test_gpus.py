"""Accelerators are found by the names that NVML gives and people write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.catalog.gpus import count_in_name, find_gpu, gpus
from profiles.errors import InputError


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100 SXM5 80GB"),
        ("h100", "H100 SXM5 80GB"),
        ("H100-SXM", "H100 SXM5 80GB"),
        ("h100sxm", "H100 SXM5 80GB"),
        ("h100 pcie", "H100 PCIe 80GB"),
        ("h100 nvl", "H100 NVL 94GB"),
        ("Tesla T4", "T4"),
        ("A100 80GB", "A100 SXM4 80GB"),
        ("a100-80g", "A100 SXM4 80GB"),
        ("A100-80GB", "A100 SXM4 80GB"),
        ("A100-40GB", "A100 SXM4 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("rtx pro 6000", "RTX PRO 6000 Blackwell Workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX 4090 D"),
        ("l40s", "L40S"),
        ("L40", "L40"),
        ("gb10", "DGX Spark GB10"),
        ("dgx spark", "DGX Spark GB10"),
        ("A6000", "RTX A6000"),
        ("mi300x", "Instinct MI300X"),
        ("nvidia h200 141gb", "H200 SXM 141GB"),
    ],
)
def test_finds_the_card_people_mean(written: str, name: str) -> None:
    assert find_gpu(written).name == name


def test_every_name_and_every_driver_name_finds_its_own_card() -> None:
    assert len(gpus()) == 80
    for card in gpus():
        assert find_gpu(card.name).name == card.name
        for alias in card.aliases:
            assert find_gpu(alias).name == card.name, alias


def test_a_name_that_fits_several_says_which_was_taken_and_which_were_not() -> None:
    notes = " ".join(find_gpu("rtx pro 6000").notes)
    assert "taken as RTX PRO 6000 Blackwell Workstation" in notes
    assert "RTX PRO 6000 Blackwell Server" in notes


def test_a_drivers_full_name_is_not_called_ambiguous() -> None:
    assert not any("fits several" in note for note in find_gpu("NVIDIA GeForce RTX 4090").notes)


def test_a_smaller_sibling_is_never_taken_for_its_super_version() -> None:
    with pytest.raises(InputError, match="RTX 4070 Ti SUPER"):
        find_gpu("4070 ti")


@pytest.mark.parametrize("written", ["NVIDIA A100-SXM4-80GB MIG 1g.10gb", "H100 MIG 3g.40gb", "a100-mig-1g.10gb",
                                     "H100 1g.10gb", "mig-1g.5gb"])
def test_a_mig_slice_is_never_taken_for_the_whole_card(written: str) -> None:
    with pytest.raises(InputError, match=r"MIG slice.*hardware\.memory_gib"):
        find_gpu(written)


@pytest.mark.parametrize("written", ["TPU", "RTX", "rtx pro", "Gaudi", "Radeon", "80GB", "jetson", "SXM5"])
def test_a_makers_word_is_no_card_and_near_names_are_listed(written: str) -> None:
    with pytest.raises(InputError, match="names no one card; expected a full name such as"):
        find_gpu(written)


@pytest.mark.parametrize("written", ["Trillium", "DGX Spark", "NVIDIA Thor"])
def test_a_name_without_a_number_that_is_a_cards_own_is_found(written: str) -> None:
    assert find_gpu(written).name


@pytest.mark.parametrize("written", ["cpu", "CPU", " cpu "])
def test_cpu_is_refused_as_the_cpu_engine(written: str) -> None:
    with pytest.raises(InputError, match="CPU engine"):
        find_gpu(written)


def test_an_unknown_card_is_refused_with_near_names() -> None:
    with pytest.raises(InputError, match="RTX 5090"):
        find_gpu("rtx 6090")


def test_consumer_cards_carry_the_fp32_accumulate_rate_and_the_faster_one_beside_it() -> None:
    card = find_gpu("RTX 4090")
    assert card.tflops("fp16") == 165.2
    assert card.fp16_accumulate_tflops is not None
    assert card.fp16_accumulate_tflops["fp16"] == 330.3


def test_unified_memory_and_missing_driver_totals_are_said() -> None:
    assert find_gpu("gb10").unified_memory
    assert find_gpu("gb10").memory_from == "box"
    assert find_gpu("h100").memory_from == "nvml"


def test_every_card_names_its_sources() -> None:
    for card in gpus():
        assert card.sources, card.name
        assert all(len(source) > 3 for source in card.sources.values()), card.name


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_crashes_the_lookup(text: str) -> None:
    try:
        answer = find_gpu(text).name
    except InputError as error:
        answer = str(error)
    assert answer


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("8xH100", "H100 SXM5 80GB"), ("8 x H100", "H100 SXM5 80GB"), ("H100 (x4)", "H100 SXM5 80GB"),
        ("4*L40S", "L40S"), ("h100 sxm", "H100 SXM5 80GB"), ("A100-80G", "A100 SXM4 80GB"),
        ("H200-141GB", "H200 SXM 141GB"), ("RTX 4090 24 GB", "RTX 4090"), ("L4 24GB", "L4"),
        ("DGX Spark", "DGX Spark GB10"), ("spark", "DGX Spark GB10"), ("DGX H100", "H100 SXM5 80GB"),
        ("HGX H100", "H100 SXM5 80GB"), ("NVIDIA H100 Tensor Core GPU", "H100 SXM5 80GB"), ("GB300", "GB300"),
        ("MI300X", "Instinct MI300X"), ("B200", "B200 SXM"), ("nvidia-tesla-t4", "T4"),
    ],
)  # fmt: skip
def test_how_people_write_a_card_finds_it(written: str, name: str) -> None:
    assert find_gpu(written).name == name


@pytest.mark.parametrize(("name", "expected"), [
    ("8xH100", (8, "H100")), ("2 × A100 80GB", (2, "A100 80GB")), ("H100 x8", (8, "H100")),
    ("RTX 4090", (None, "RTX 4090")),
    ("x8", (None, "x8")), ("A100 SXM4 80GB", (None, "A100 SXM4 80GB"))])  # fmt: skip
def test_a_count_is_told_apart_from_the_name(name: str, expected: tuple[int | None, str]) -> None:
    assert count_in_name(name) == expected


def test_a_memory_size_that_the_card_has_not_is_no_match() -> None:
    with pytest.raises(InputError, match="RTX 4090 80GB"):
        find_gpu("RTX 4090 80GB")


@pytest.mark.parametrize("alias", [a for g in gpus() for a in (g.name, *g.aliases)])
def test_every_name_and_alias_of_the_catalog_finds_a_card(alias: str) -> None:
    found = find_gpu(alias)
    assert alias == found.name or alias in found.aliases
