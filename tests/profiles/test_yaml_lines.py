"""The YAML reader: values as the safe loader gives them, lines beside them, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.errors import InputError
from profiles.yaml_lines import MAX_BYTES, parse_yaml, read_yaml

TEXT = """\
target: org/model
engine:
  max_model_len: 4096
  extra_args:
    seed: 1
candidates:
  - ngram
  - method: draft_model
    draft: org/small
"""


def test_values_are_those_of_the_safe_loader() -> None:
    assert parse_yaml(TEXT, "d.yaml").value == yaml.safe_load(TEXT)


def test_each_key_and_item_knows_its_line() -> None:
    read = parse_yaml(TEXT, "d.yaml")
    assert read.where(("engine",)) == "d.yaml:2"
    assert read.where(("engine", "extra_args", "seed")) == "d.yaml:5"
    assert read.where(("candidates", 1, "draft")) == "d.yaml:9"


def test_a_missing_path_points_at_the_nearest_enclosing_line() -> None:
    assert parse_yaml(TEXT, "d.yaml").where(("engine", "runner")) == "d.yaml:2"


def test_an_empty_document_has_no_value_and_no_line() -> None:
    read = parse_yaml("# nothing\n", "d.yaml")
    assert read.value is None
    assert read.where(("target",)) == "d.yaml"


def test_duplicate_key_is_refused_with_both_lines() -> None:
    with pytest.raises(InputError, match=r"d\.yaml:3: key 'a' stands twice .*first on line 1"):
        parse_yaml("a: 1\nb: 2\na: 3\n", "d.yaml")


def test_duplicate_key_in_a_nested_mapping_is_refused() -> None:
    with pytest.raises(InputError, match=r"d\.yaml:3: key 'b'"):
        parse_yaml("a:\n  b: 1\n  b: 1\n", "d.yaml")


def test_alias_bomb_is_refused_before_it_grows() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    with pytest.raises(InputError, match="once aliases are expanded"):
        parse_yaml("\n".join(rows), "bomb.yaml")


def test_alias_that_contains_itself_is_refused() -> None:
    with pytest.raises(InputError, match="contains itself"):
        parse_yaml("a: &a [*a]\n", "loop.yaml")


def test_an_ordinary_alias_and_a_merge_key_work() -> None:
    text = "base: &b {x: 1, y: 2}\nmine:\n  <<: *b\n  y: 3\nsame: *b\n"
    read = parse_yaml(text, "d.yaml")
    assert read.value == yaml.safe_load(text)
    assert read.where(("mine", "y")) == "d.yaml:4"


@pytest.mark.parametrize(
    "text", ["a: !!python/object/apply:os.system ['true']", "a: !!python/name:os.system", "a: !mine 3", "a: !!set {x}"]
)
def test_tags_beyond_plain_yaml_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"d\.yaml:1: tag"):
        parse_yaml(text, "d.yaml")


@pytest.mark.parametrize(
    ("text", "line"), [("a: [1\nb: 2\n", 2), ("a: b: c\n", 1), ("a: 1\n\tb: 2\n", 2), ("a: 1\n--- \nb: 2", 2)]
)
def test_bad_yaml_names_its_line(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"d\.yaml:{line}: not valid YAML"):
        parse_yaml(text, "d.yaml")


def test_control_character_names_its_line() -> None:
    with pytest.raises(InputError, match=r"d\.yaml:2: not valid YAML"):
        parse_yaml("a: 1\nb: \x07\n", "d.yaml")


def test_deep_nesting_is_refused_in_one_sentence() -> None:
    for depth in (100, 100_000):
        with pytest.raises(InputError, match="nested too deeply"):
            parse_yaml("[" * depth + "]" * depth, "deep.yaml")


def test_too_many_values_are_refused_before_they_are_composed() -> None:
    with pytest.raises(InputError, match="more than 10000 values"):
        parse_yaml("".join(f"k{i}: 1\n" for i in range(30_000)), "large.yaml")


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(InputError) as error:
        parse_yaml(f"a: {'9' * 5000}\n", "d.yaml")
    assert len(str(error.value)) < 300


def test_impossible_date_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"d\.yaml:1: '2026-13-45'"):
        parse_yaml("a: 2026-13-45\n", "d.yaml")


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="is a folder"):
        read_yaml(tmp_path)
    binary = tmp_path / "model.yaml"
    binary.write_bytes(b"a: \xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_yaml(binary)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read_yaml(large)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(VALUES)
def test_whatever_safe_dump_writes_reads_back_the_same(value: object) -> None:
    assert parse_yaml(yaml.safe_dump(value), "d.yaml").value == value
