"""Arguments of `vllm serve`: read as vLLM's own parser reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.sources.arguments import read_arguments, typed
from advisor.checks.sources.words import split
from profiles.errors import InputError


def values(line: str) -> dict[str, Any]:
    return read_arguments(split(line, "s.sh")[0].words, "s.sh").values


@pytest.mark.parametrize(("line", "expected"), [
    ("org/m", {"model": "org/m"}),
    ("--model org/m", {"model": "org/m"}),
    ("--max_model_len=4096", {"max-model-len": 4096}),
    ("--max-num-batched-tokens 8k", {"max-num-batched-tokens": 8000}),
    ("--max-num-batched-tokens 8K", {"max-num-batched-tokens": 8192}),
    ("--max-model-len 25.6k", {"max-model-len": 25600}),
    ("--max-model-len -1", {"max-model-len": -1}),
    ("-tp 4 -pp=2", {"tensor-parallel-size": 4, "pipeline-parallel-size": 2}),
    ("--gpu-memory-utilization .9", {"gpu-memory-utilization": 0.9}),
    ("--enable-prefix-caching m", {"enable-prefix-caching": True, "model": "m"}),
    ("--no-enable-prefix-caching", {"enable-prefix-caching": False}),
    ("--enforce-eager --seed 1", {"enforce-eager": True, "seed": 1}),
    ("--disable-access-log-for-endpoints /health m", {"disable-access-log-for-endpoints": "/health", "model": "m"}),
    ("-dpl 2 -ep m", {"data-parallel-size-local": 2, "enable-expert-parallel": True, "model": "m"}),
    ("--served-model-name a b --port 1", {"served-model-name": ["a", "b"], "port": 1}),
    ("--revision 1234567", {"revision": "1234567"}),
    ("--seed 1 --seed 2", {"seed": 2}),
    ("--speculative-config.method ngram --speculative-config.num-speculative-tokens=4",
     {"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}}),
    ("--speculative_config.num_speculative_tokens_per_batch_size [[1,4,5]]",
     {"speculative-config": {"num_speculative_tokens_per_batch_size": [[1, 4, 5]]}}),
    ("--a.b+ 1,2 --a.b+ 3", {"a": {"b": [1, 2, 3]}}),
    ("-O3 --seed 1", {"seed": 1}),
    ("-O 3", {"optimization-level": 3}),
])
def test_options_and_values(line: str, expected: dict[str, Any]):
    assert values(line) == expected


def test_dotted_options_replace_the_mapping_given_otherwise():
    line = """--speculative-config '{"method": "eagle3", "model": "h"}' --speculative-config.num_speculative_tokens 7"""
    assert values(line) == {"speculative-config": {"num_speculative_tokens": 7}}


def test_a_json_option_stays_text_for_the_checks_to_parse():
    assert values("""--speculative-config '{"method": "ngram"}'""") == {"speculative-config": '{"method": "ngram"}'}


def test_a_value_known_only_at_run_time_is_passed_over_and_named():
    found = read_arguments(split("--max-model-len $LEN --dtype auto $EXTRA", "s.sh")[0].words, "s.sh")
    assert found.values == {"dtype": "auto"}
    assert found.notes == [
        "--max-model-len is only known at run time ($LEN on line 1): it was passed over",
        "arguments that are only known at run time ($EXTRA on line 1) were passed over",
    ]


def test_a_mapping_with_an_unknown_name_in_it_is_still_read():
    found = read_arguments(split('--speculative-config "{\\"model\\": \\"$DRAFT\\"}"', "s.sh")[0].words, "s.sh")
    assert found.values == {"speculative-config": '{"model": "$DRAFT"}'}
    cut = read_arguments(split('--speculative-config "{\\"k\\": $K}"', "s.sh")[0].words, "s.sh")
    assert cut.values == {}
    assert len(cut.notes) == 1


def test_lines_of_options_and_of_keys_behind_a_dot_are_kept():
    found = read_arguments(split("m \\\n --seed 1 \\\n --a.b 2", "s.sh")[0].words, "s.sh")
    assert found.lines == {("model",): 1, ("seed",): 2, ("a",): 3, ("a", "b"): 3}


def test_endless_dots_are_refused_in_a_sentence():
    with pytest.raises(InputError, match=r"s\.sh:1: .* is nested too deeply"):
        values("--a" + ".b" * 5000 + " 1")


@pytest.mark.parametrize("text", ["9" * 5000, "1e400", "nan", "inf", "-inf", "1e99999", "0x10", "1_000"])
def test_numbers_no_option_can_have_stay_text(text: str):
    assert typed(text) == text


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=8))
def test_any_words_are_read_or_refused_in_a_sentence(texts: list[str]):
    from advisor.checks.sources.words import Word

    try:
        found = read_arguments([Word(text, 1) for text in texts], "s.sh")
    except InputError:
        return
    assert all(isinstance(option, str) for option in found.values)
