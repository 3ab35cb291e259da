"""Options by release: known, gone, not come yet, shortened, and what the neighbours of unread releases say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.catalog.compiled import compiled
from profiles.catalog.options import (
    KINDS,
    completed,
    dates,
    ever,
    find_key,
    find_option,
    is_newer_than_read,
    mapping_keys,
    merged,
    option_names,
    refuses_unknown_keys,
    size_of,
    was_read,
)


def test_sizes_have_types_and_bounds() -> None:
    share = find_option("gpu-memory-utilization", "0.32.0")
    assert share is not None
    assert (share.kind, share.holds(0.9), share.holds(1.5), share.holds(0)) == ("float", True, False, False)
    seqs = find_option("max-num-seqs", "0.32.0")
    assert seqs is not None
    assert (seqs.kind, seqs.range) == ("int", "at least 1")


def test_a_bound_that_every_release_has_holds_where_none_is_declared() -> None:
    oldest = find_option("gpu-memory-utilization", "0.6.3")
    assert oldest is not None
    assert not oldest.holds(1.5)


def test_options_come_and_go() -> None:
    assert find_option("max-cudagraph-capture-size", "0.32.0") is not None
    assert find_option("num-scheduler-steps", "0.32.0") is None
    assert ever("num-scheduler-steps")
    assert not ever("no-such-option")


def test_a_beginning_that_only_one_option_has_stands_for_it() -> None:
    assert completed("max-model", "0.32.0") == "max-model-len"
    assert completed("max-num", "0.32.0") is None
    assert completed("max-model-len", "0.32.0") is None


def test_keys_of_mappings_have_types_too() -> None:
    assert "cudagraph_mode" in mapping_keys("compilation-config", "0.32.0")
    depth = find_key("speculative-config", "suffix_decoding_max_tree_depth", "0.32.0")
    assert depth is not None
    assert not depth.holds(0)
    assert refuses_unknown_keys("0.32.0")


def test_a_release_that_was_not_read_is_told_from_its_neighbours() -> None:
    assert was_read("0.32.0")
    assert not was_read("0.6.3")
    assert is_newer_than_read("0.99.0")
    assert option_names("0.99.0") == option_names(compiled("options")["read"][-1])


def test_every_span_has_a_kind_and_ends_where_the_next_begins() -> None:
    tables = [compiled("options")["options"], *compiled("options")["mappings"].values()]
    for spans in (spans for table in tables for spans in table.values()):
        assert all(span["kind"] in KINDS for span in spans)
        assert all("until" in span for span in spans[:-1])


def test_an_option_of_one_span_has_no_dates_but_its_own() -> None:
    assert dates("no-such-option") == (None, None)


FACTS = st.dictionaries(st.sampled_from("abc"), st.fixed_dictionaries({"kind": st.sampled_from(["int", "text"])}))


@given(st.lists(FACTS, min_size=1, max_size=6))
def test_spans_say_of_each_release_exactly_what_its_own_table_said(tables: list[dict[str, dict[str, str]]]) -> None:
    named = [(f"0.{number}.0", table) for number, table in enumerate(tables, 10)]
    spans = merged(named)
    for number, (_, table) in enumerate(named, 10):
        held = {name: {key: value for key, value in span.items() if key not in ("since", "until")}
                for name, found in spans.items() for span in found
                if int(span["since"].split(".")[1]) <= number < int(span.get("until", "0.99.0").split(".")[1])}
        assert held == table


@pytest.mark.parametrize("name", ["max-num-seqs", "speculative-config", "model", "enable-lora"])
def test_options_that_every_release_has_are_there(name: str) -> None:
    assert all(find_option(name, version) is not None for version in compiled("options")["read"])


@pytest.mark.parametrize(("written", "number"), [
    ("8k", 8000), ("8K", 8192), ("1.5k", 1500), (" 2G ", 2**31), ("3t", 3 * 10**12), ("4096", 4096), ("-1", -1),
    ("1.5K", None), ("8 k", None), ("", None), ("many", None), ("9" * 5000, None),
])
def test_sizes_are_read_as_the_engine_reads_them(written: str, number: int | None) -> None:
    assert size_of(written) == number


@given(st.integers(0, 10**15 - 1), st.sampled_from("kmgtKMGT"))
def test_a_unit_is_a_power_of_ten_or_of_two(amount: int, unit: str) -> None:
    base, power = (1000, "kmgt".index(unit)) if unit.islower() else (1024, "KMGT".index(unit))
    found = size_of(f"{amount}{unit}")
    assert found is not None
    assert found == pytest.approx(amount * base ** (power + 1), rel=1e-12)
